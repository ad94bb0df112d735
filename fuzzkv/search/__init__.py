"""A hunt: admission, search loop, confirmation, outcome."""
