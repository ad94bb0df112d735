"""One vLLM engine, stepped in process: every touch of vLLM's inside."""
