"""Oracles: they judge a history, or the counts of a confirmation."""
