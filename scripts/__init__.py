"""Scripts of the project: checks, and pages made from data."""
