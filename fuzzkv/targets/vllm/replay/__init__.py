"""Real workers that run a case for real, and the judging of what they counted.

Import :mod:`fuzzkv.targets.vllm.replay.script` for the job and :func:`fuzzkv.targets.vllm.replay.confirm.confirm` to run it.
Importing this package, or those two modules, imports neither torch nor vLLM.
"""
