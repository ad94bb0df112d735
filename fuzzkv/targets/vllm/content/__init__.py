"""Content oracles: what lies in a block, read back from its bytes; tokens of an isolated engine."""
