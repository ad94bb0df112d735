"""The KV semantics, written once: state, vocabulary, requests, blocks, operations, contract."""
