"""The explicit-state search: every schedule of a small scope."""
