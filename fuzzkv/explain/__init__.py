"""Which event broke a case, what led to it, which clause and which guard would have kept it from happening."""
