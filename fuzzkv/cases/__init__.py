"""The case: read, write, corpus, filing, shrinking."""
