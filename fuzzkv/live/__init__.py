"""A live vLLM engine, in process, as the target of a hunt: its own features are the policies."""
