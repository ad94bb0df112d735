"""A hunt on a live engine."""
