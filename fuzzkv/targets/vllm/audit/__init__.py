"""Audits of a real cache: is what a session attends what its transcript says?

:mod:`fuzzkv.targets.vllm.audit.rollback` is the way of an audit; a worker process (:mod:`fuzzkv.targets.vllm.audit.worker`) runs it, one
engine and one model a process. ``ways`` and ``serving`` say what is done to a cache over two small protocols,
so that a planted cache can take the place of the real one; ``torch_cache`` and ``vllm_prefix`` are the real
ones and the only modules here that import an engine.
"""
