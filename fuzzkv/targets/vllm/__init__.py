"""The live engine as the target of a hunt: a vLLM engine stepped in process, its own cache features as policies, its host tier's
time in our hands.

Nothing here imports torch or vllm at import time except modules that only a worker process imports (``inside``, ``tier``).
"""
