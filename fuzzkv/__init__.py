"""fuzzkv: find the KV-cache policies that pass alone and break together."""

__version__ = "0.1.0"
