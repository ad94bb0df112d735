"""vLLM as a target: an engine stepped in process, its own cache features as policies, transfers ended by the schedule.

Nothing here imports torch or vllm at import time except modules that only a worker process imports (``inside``, ``tier``).
"""
