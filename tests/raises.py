"""A module that can't be imported."""

raise RuntimeError("this module has a fault of its own")
