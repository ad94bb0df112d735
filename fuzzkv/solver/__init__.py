"""Z3 over the same semantics: searches for shortest violations, proofs, explanations."""
