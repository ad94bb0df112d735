"""The contract: invariants and their checks, clauses, evidence, inductive facts."""
