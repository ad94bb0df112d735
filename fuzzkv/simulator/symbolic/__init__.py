"""The symbolic interpreter: the same semantics over unknowns, for the solver."""
