"""Sets an engine instance back between two runs, and proves that it is as after its start.

Part of :mod:`fuzzkv.targets.vllm.engine.internals`: it reads and sets vLLM's own fields.
"""

from __future__ import annotations

from typing import Any, Final

from fuzzkv.targets.vllm.engine.internals import LiveEngine, _worker_side

DRAIN_STEPS: Final = 400

Facts = dict[str, Any]


def restart(engine: LiveEngine) -> list[str]:
    """Set the engine back to birth and say what is not as at birth (nothing, if all is well).

    What a run left over (blocks lost, references kept, transfers that never end) is told and then removed by force where that
    can be done, so that it isn't blamed on the next run. If complaints remain at a second call, the engine is over.
    """
    complaints = _drain(engine)
    complaints += [f"{name}: {value}" for name, value in _left(engine).items() if value]
    _force(engine)
    born = facts(engine)
    return complaints + [f"{k}: {born[k]!r}, not {v!r}" for k, v in _birth(engine).items() if born[k] != v]


def _birth(engine: LiveEngine) -> Facts:
    pages = engine.pages
    return {
        "free list": list(range(1, pages + 1)),
        "free count": pages,
        "total": pages,
        "references": [0] * (pages + 1),
        "hashes": {},
        "index": 0,
        "tables": {},
        "requests": 0,
        "queues": 0,
        "ended requests": 0,
        "runner": 0,
        "jobs": 0,
        "host chunks": 0,
        "host index": 0,
        "clean": True,
    }


def facts(engine: LiveEngine) -> Facts:
    """Everything that has to be as at birth before the next run."""
    scheduler, tier, policy = engine._scheduler, _side(engine), getattr(engine._offload, "_policy", None)
    references = engine.references()
    references[0] = 0  # of the null block, which vLLM doesn't maintain
    return {
        "free list": engine.free_list(),
        "free count": engine.free_count(),
        "total": engine.total(),
        "references": references,
        "hashes": engine.hashes(),
        "index": len(engine.index()),
        "tables": {k: v for k, v in engine.tables().items() if v},
        "requests": len(scheduler.requests),
        "queues": len(scheduler.running)
        + len(scheduler.waiting)
        + len(getattr(scheduler, "kv_holding_waiting", ())),
        "ended requests": len(scheduler.finished_req_ids) + len(scheduler.finished_recving_kv_req_ids),
        "runner": len(engine._runner.requests),
        "jobs": 0
        if tier is None
        else len(tier._jobs) + len(tier._req_status) + len(tier._block_id_to_pending_jobs),
        "host chunks": getattr(engine._offload, "_num_allocated_chunks", 0),
        "host index": sum(
            len(getattr(policy, name, ())) for name in ("chunks", "t1", "t2", "b1", "b2", "_evictable")
        ),
        "clean": not any(bool(t.view(engine._torch.uint8).any()) for t in engine.layers)
        and (not hasattr(engine.worker, "clean") or engine.worker.clean()),
    }


def _drain(engine: LiveEngine) -> list[str]:
    """Abort what is left and step until the engine is idle."""
    engine.link.hold(False)
    engine.link.obeys_wait = True
    for number in engine.unfinished():
        engine.abort(number)
    for _ in range(DRAIN_STEPS):
        if not engine.busy():
            return []
        engine.step()
    return [f"still busy after {DRAIN_STEPS} steps with nothing to do"]


def _left(engine: LiveEngine) -> dict[str, Any]:
    """What must be gone already when the engine is idle, before anything is set back."""
    pool = engine.total()
    held = [b for b, n in enumerate(engine.references()) if b and n]
    return {
        "free count short": pool - engine.free_count(),
        "references kept": held,
        "requests kept": sorted(engine._scheduler.requests),
        "tables kept": sorted(k for k, v in engine.tables().items() if v),
    }


def _force(engine: LiveEngine) -> None:
    """Set everything back: pool, index, host tier, counters of jobs, bytes, log."""
    pool = engine._pool
    for b in pool.blocks[1:]:
        b.ref_cnt = 0
    engine.limit_pool(engine.pages)
    if (tier := _side(engine)) is not None:
        tier._current_batch_jobs_to_flush.clear()
    engine._scheduler.reset_prefix_cache(reset_connector=True)
    side = _side(engine)
    if side is not None:
        side._current_batch_jobs_to_flush.clear()
        side._current_batch_load_jobs.clear()
        side._current_batch_allocated_block_ids.clear()
        side._job_counter = side._stale_job_threshold = 0
        worker_side = _worker_side()
        # After a reset of the connector, stores of ended requests and news of stale loads wait for a step that never comes.
        worker_side._unsubmitted_store_jobs.clear()
        worker_side._load_jobs.clear()
        worker_side.build_connector_worker_meta()
    if getattr(engine._offload, "counts", None) is not None:
        engine._offload.counts.clear()  # vLLM's own reset keeps what was offered before
    engine.scrub()
    engine.journal.clear()
    engine.requests.clear()
    engine._numbers.clear()
    engine.steps = 0


def _side(engine: LiveEngine) -> Any:
    return getattr(engine._connector, "connector_scheduler", None)
