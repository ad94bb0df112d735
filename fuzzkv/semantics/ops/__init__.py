"""The operations on the KV cache, one module an operation family."""
