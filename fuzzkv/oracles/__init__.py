"""Oracles: when a failure is a conflict, and the statistics of confirmations."""
