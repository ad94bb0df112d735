"""The compiled search kernel and what drives it."""
