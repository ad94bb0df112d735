"""Z3 and SAT over the same semantics: shortest schedules, certificates, proofs for any length."""
