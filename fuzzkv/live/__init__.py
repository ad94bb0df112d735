"""A live engine as the target of a hunt."""
