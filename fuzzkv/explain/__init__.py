"""Explanations: which event broke what, which clause would have refused it, which guard would have."""
