"""From raw worker counts to a verdict. Pure: no engine, no clock.

Quality: paired with full cache on the same questions. What counts is the cache-induced failure rate: of the
answers that full cache gets right, how many the arm gets wrong. (The plain difference is reported beside it;
leaving pages out of attention also removes distractors, and answers won that way must not pay for answers
lost.) Exact limits against the registered margin ``dq``, one-sided ``alpha`` shared out over the planned
looks; because the questions of one context are related, the context bootstrap must agree. All controls must
be within the margin and the set beyond it (an intersection-union test: no correction across arms). Latency:
P99 over asks by bootstrap of whole replicas, against the control's upper bound plus the slack. Exact: greedy
tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fuzzkv.oracles.statistics import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    mean_difference_bootstrap,
    p99_bootstrap,
    paired_counts,
    planned_alphas,
    tango_ci,
)
from fuzzkv.oracles.thresholds import Thresholds
from fuzzkv.targets.vllm.replay.confirmation import ArmResult, Verdict
from fuzzkv.targets.vllm.replay.script import ReplayArm, ReplayJob

TIE_MICRO: Final = 100
"""A logprob gap of the control, in micro-nats, below which another greedy token is a tie."""


@dataclass(frozen=True)
class ReplayJudgement:
    """A verdict, or None: another look is wanted, of the arms in ``open_arms``."""

    verdict: Verdict | None
    reason: str
    arms: tuple[ArmResult, ...]
    open_arms: tuple[int, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


class QualityJudge:
    """Collects rounds and decides at each planned look. A control that was found within the margin stays
    decided."""

    def __init__(self, job: ReplayJob, thresholds: Thresholds) -> None:
        self.job, self.limits = job, thresholds
        self.alphas = planned_alphas(
            float(thresholds.alpha), thresholds.looks, shape=float(thresholds.spending_shape)
        )
        self.margin = float(thresholds.dq)
        self.data: list[dict[str, list[Any]]] = [
            {"right": [], "tie": [], "nll": [], "context": []} for _ in job.arms
        ]
        self.counters: list[dict[str, int]] = [{} for _ in job.arms]
        self.results: dict[int, ArmResult] = {}
        self.look = 0

    def add(self, found: Mapping[str, Any]) -> ReplayJudgement:
        """One look's raw results of all arms that ran, ``{arm index: worker's record}``."""
        for key, record in found.items():
            data = self.data[int(key)]
            data["right"] += [x == "1" for x in record["right"]]
            data["tie"] += [x == "1" for x in record["tie"]]
            data["nll"] += [x / 1e6 for x in record["nll"]]
            data["context"] += record["context"]
            for name, n in record["counters"].items():
                self.counters[int(key)][name] = self.counters[int(key)].get(name, 0) + n
        alpha = self.alphas[self.look]
        self.look += 1
        last = len(self.job.arms) - 1
        for i in range(last + 1):
            if str(i) in found:
                self.results[i] = self._arm(i, alpha)
        return self._verdict(last)

    def _verdict(self, last: int) -> ReplayJudgement:
        arms = tuple(self.results[i] for i in range(last + 1))
        wrong = [a for a in arms[1:last] if a.decision == "beyond-margin"]
        undecided = [i for i in range(1, last + 1) if self.results[i].decision == "undecided"]
        final = arms[last]
        counts = final.counts
        said = (
            f"{counts['c']} of the {counts['both'] + counts['c']} answers that full cache gets right are lost"
        )
        if wrong:
            return ReplayJudgement(
                "not-reproduced", f"{ReplayArm(wrong[0].policies, ()).name} alone is beyond the margin", arms
            )
        if final.decision == "within-margin":
            return ReplayJudgement("not-reproduced", f"the set stays within the margin: {said}", arms)
        if not undecided:
            if self._arm(last, self.alphas[self.look - 1], forgive=True).decision != "beyond-margin":
                return ReplayJudgement(
                    "numeric-tie", f"beyond the margin only by exact logit ties: {said}", arms
                )
            return ReplayJudgement(
                "confirmed", f"each within the margin {self.limits.dq}, together beyond it: {said}", arms
            )
        if self.look == len(self.alphas):
            names = ", ".join(self.job.arms[i].name for i in undecided)
            return ReplayJudgement("underpowered", f"still undecided at the last planned look: {names}", arms)
        return ReplayJudgement(None, "", arms, tuple(sorted({0, *undecided})))

    def _arm(self, i: int, alpha: float, *, forgive: bool = False) -> ArmResult:
        mine, full = self.data[i], self.data[0]
        n = len(mine["right"])
        right = [r or (forgive and t) for r, t in zip(mine["right"], mine["tie"], strict=True)]
        reference = [r or (forgive and t) for r, t in zip(full["right"][:n], full["tie"][:n], strict=True)]
        table = paired_counts(reference, right)
        interval = tango_ci(table.b, table.c, n, 2 * alpha)
        passes = [k for k in range(n) if reference[k]]
        failures = table.c
        upper = clopper_pearson_upper(failures, len(passes), alpha) if passes else 1.0
        lower = clopper_pearson_lower(failures, len(passes), alpha) if passes else 0.0
        by_context = mean_difference_bootstrap(
            [True] * len(passes) or [True],
            [right[k] for k in passes] or [True],
            [mine["context"][k] for k in passes] or [0],
            seed=self.job.seed,
            samples=self.limits.bootstrap_samples,
            confidence=1 - 2 * alpha,
        )
        nll = mean_difference_bootstrap(
            full["nll"][:n],
            mine["nll"],
            mine["context"],
            seed=self.job.seed,
            samples=self.limits.bootstrap_samples,
        )
        decision = "reference"
        if i:
            decision = (
                "within-margin"
                if upper < self.margin
                else "beyond-margin"
                if lower > self.margin
                else "undecided"
            )
            if decision == "within-margin" and by_context.low <= -self.margin:
                decision = "undecided"
            if decision == "beyond-margin" and by_context.high >= -self.margin:
                decision = "undecided"
        rate = table.cache_induced_failure_rate
        return ArmResult(
            policies=self.job.arms[i].policies,
            decision=decision,
            counts={**table.as_dict(), "right": sum(right), "ties": sum(mine["tie"]), **self.counters[i]},
            intervals={
                "difference": interval.as_dict(),
                "failures_by_context": by_context.as_dict(),
                "nll_rise": nll.as_dict(),
            },
            values={
                "cache_induced_failure_rate": f"{rate:.6g}",
                "failure_rate_low": f"{lower:.6g}",
                "failure_rate_high": f"{upper:.6g}",
            },
        )


def judge_latency(job: ReplayJob, thresholds: Thresholds, found: Mapping[str, Any]) -> ReplayJudgement:
    """The P99 verdict from ``{arm index: {"us": latencies of each replica}}``."""
    asked = [i for i, _ in enumerate(job.arms) if any(found[str(i)]["us"])]
    if len(asked) < len(job.arms):
        return ReplayJudgement("not-reproduced", "the script asks nothing, so there is no latency", ())
    intervals = [
        p99_bootstrap(
            found[str(i)]["us"],
            seed=job.seed,
            samples=thresholds.bootstrap_samples,
            confidence=float(thresholds.p99_confidence),
            minimum=thresholds.min_requests,
        )
        for i, _ in enumerate(job.arms)
    ]
    objective = intervals[0].high + job.slack_ticks * job.tick_us
    decisions = [
        "above" if x.low > objective else "below" if x.high < objective else "undecided" for x in intervals
    ]
    arms = tuple(
        ArmResult(
            policies=arm.policies,
            decision=d,
            intervals={"p99_us": x.as_dict()},
            counts={"requests": len(f["us"]), "asks": sum(map(len, f["us"])), **f["counters"]},
            values={"max_us": str(max(map(max, filter(None, f["us"]))))},
        )
        for arm, x, d, f in zip(
            job.arms, intervals, decisions, [found[str(i)] for i, _ in enumerate(job.arms)], strict=True
        )
    )
    said = f"P99 {intervals[-1].estimate:.0f} us against an objective of {objective:.0f} us"
    values = {"objective_us": f"{objective:.0f}"}
    if "above" in decisions[:-1]:
        name = job.arms[decisions.index("above")].name
        return ReplayJudgement(
            "not-reproduced", f"{name} is above the objective already", arms, values=values
        )
    if decisions[-1] == "below":
        return ReplayJudgement("not-reproduced", f"the set meets the objective: {said}", arms, values=values)
    if "undecided" in decisions:
        names = ", ".join(a.name for a, d in zip(job.arms, decisions, strict=True) if d == "undecided")
        return ReplayJudgement(
            "underpowered", f"the interval holds the objective: {names}; {said}", arms, values=values
        )
    return ReplayJudgement(
        "confirmed", f"every subset is below the objective, the set above it: {said}", arms, values=values
    )


def judge_exact(job: ReplayJob, found: Mapping[str, Any]) -> ReplayJudgement:
    """The token verdict from ``{arm index: {"tokens": [[label, [[token, gap in micro-nats], ...]],
    ...]}}``."""
    control: Sequence[Any] = found["0"]["tokens"]
    arms = []
    for i, arm in enumerate(job.arms):
        mine: Sequence[Any] = found[str(i)]["tokens"]
        if [label for label, _ in mine] != [
            label for label, _ in control
        ]:  # other steps: only the audits are comparable
            pairs = list(zip(_audits(control), _audits(mine), strict=True))
        else:
            pairs = [(a, b) for (_, a), (_, b) in zip(control, mine, strict=True)]
        kinds = [_difference(a, b) for a, b in pairs]
        counts = {"answers": len(pairs), "different": kinds.count("different"), "tied": kinds.count("tie")}
        decision = "different" if counts["different"] else "tied" if counts["tied"] else "identical"
        arms.append(
            ArmResult(
                policies=arm.policies, decision=decision, counts={**counts, **found[str(i)]["counters"]}
            )
        )
    final = arms[-1]
    said = f"{final.counts['different']} of {final.counts['answers']} answers differ from the control's"
    changed = next((a for a in arms[1:-1] if a.decision == "different"), None)
    if changed is not None:
        name = ReplayArm(changed.policies, ()).name
        return ReplayJudgement("not-reproduced", f"{name} differs from the control already", tuple(arms))
    if final.decision == "tied":
        return ReplayJudgement(
            "numeric-tie", "answers differ only where the control's two best tokens tie", tuple(arms)
        )
    if final.decision == "identical":
        return ReplayJudgement("not-reproduced", said, tuple(arms))
    return ReplayJudgement("confirmed", f"{said}, and every subset's are identical", tuple(arms))


def _audits(rows: Sequence[Any]) -> list[Any]:
    return [row for label, row in rows if label.startswith("audit")]


def _difference(control: Sequence[Any], mine: Sequence[Any]) -> str:
    for (a, gap), (b, _) in zip(control, mine, strict=True):
        if a != b:
            return "tie" if 0 <= gap < TIE_MICRO else "different"
    return "same"
