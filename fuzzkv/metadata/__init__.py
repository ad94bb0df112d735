"""The study of shared metadata: what policies have to tell each other."""
