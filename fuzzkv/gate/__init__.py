"""The gate in front of a new policy."""
