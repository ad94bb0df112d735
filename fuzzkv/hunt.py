"""The way of a hunt: accept each policy alone, search, shrink, file, confirm.

What is found is filed at once, so an interrupt or a kill loses nothing; confirmations are added to the filed
cases as they come.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from fuzzkv import __version__
from fuzzkv.acceptance import fault_of, load_acceptance, stands, try_alone
from fuzzkv.casebook import Recipe, make_case, narrowed
from fuzzkv.confirming import Confirming, engine_name
from fuzzkv.contract.policy import Policy
from fuzzkv.contract.schedule import Config
from fuzzkv.corpus import Saved, save_case, write_index
from fuzzkv.errors import (
    EXIT_CLEAN,
    EXIT_CONFLICT,
    EXIT_ENVIRONMENT,
    EXIT_INTERRUPTED,
    UsageError,
)
from fuzzkv.events import (
    AcceptanceDone,
    CaseFiled,
    ConflictFound,
    HuntFinished,
    HuntStarted,
    Listener,
    Outcome,
    PhaseStarted,
    Progress,
    SearchDone,
    ShrinkStep,
    WarningRaised,
    emit,
)
from fuzzkv.machine.callbacks import RuleFault
from fuzzkv.machine.engine import BulkEngine
from fuzzkv.machine.plans import covered
from fuzzkv.machine.tally import FoundClass, Tally
from fuzzkv.options import HuntOptions
from fuzzkv.oracles.residual import Residual
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.oracles.verdict import Kind, part_of_known
from fuzzkv.policies.registry import resolve
from fuzzkv.shrink import shrink
from fuzzkv.workers import Task, search_alone, search_together

BUDGET = 2_000_000
"""Schedules of a hunt, unless told otherwise."""
ENFORCED = 10
"""A hunt with the contract enforced looks this many times longer."""
ALONE = 100_000
"""Schedules on which each policy is tried alone before a hunt."""
CHUNK = 50_000
FREE = 20
"""A set with a free policy, which is called back in Python, is searched this many times shorter."""
INTERACTIONS = (2, 3, 4, 5, 6, 8)
"""Goals of which a hunt of several policies must reach one: two policies touched each other."""


def interacted(goals: Mapping[str, int]) -> bool:
    """Whether the policies of a search touched each other."""
    reached = list(goals.values())
    return any(reached[goal] for goal in INTERACTIONS)


@dataclass(frozen=True)
class HuntResult:
    """What a hunt came to: exit code, the filed cases, the names of policies that failed alone."""

    exit_code: int
    cases: tuple[dict[str, Any], ...]
    single_policy: tuple[str, ...]
    outcome: Outcome


def _kind(found: FoundClass) -> Kind:
    return Kind(found.mask, found.invariant, found.actor, found.primitive)


@dataclass
class _Hunt:
    options: HuntOptions
    listeners: Sequence[Listener]
    config: Config = field(default_factory=Config)
    cases: list[dict[str, Any]] = field(default_factory=list)
    single: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    engine: BulkEngine | None = None
    tally: Tally = field(default_factory=Tally)
    disputed: set[Kind] = field(default_factory=set)
    freed: dict[bool, float] = field(default_factory=dict)
    early: list[Saved] = field(default_factory=list)
    confirmed: int = 0

    def tell(self, event: Any) -> None:
        emit(self.listeners, event)

    def accept(self, policies: Sequence[Policy]) -> tuple[Policy, ...]:
        self.tell(
            PhaseStarted(
                "accept", len(policies), "each policy alone (the first start compiles: about half a minute)"
            )
        )
        kept = load_acceptance()
        sound = []
        for policy in policies:
            fault = fault_of(policy, self.config)
            if fault:
                self.single.append(policy.name)
                self.tell(AcceptanceDone(policy.name, False, 0, fault))
            else:
                sound.append(policy)
        if not sound:
            return ()
        policies = tuple(sound)
        engine = BulkEngine(policies, self.config)
        passed = []
        for policy in policies:
            schedules = ALONE // FREE if policy.free else ALONE
            try:
                alone = try_alone(engine, policy.name, seed=self.options.seed, schedules=schedules)
            except RuleFault as error:
                self.single.append(policy.name)
                self.tell(AcceptanceDone(policy.name, False, 0, error.reason))
                continue
            self.tell(AcceptanceDone(policy.name, alone.passed, alone.schedules, alone.reason))
            if not alone.passed:
                self.single.append(policy.name)
                continue
            passed.append(policy)
            if alone.idle:
                self.idle.append(policy.name)
            if not stands(kept, policy, self.config):
                self.tell(
                    WarningRaised(
                        "FKV074",
                        f"{policy.name} has no kept acceptance on an engine at these parameters",
                        "Run 'fuzzkv accept' to compute and keep it.",
                    )
                )
        if len(passed) == len(policies):
            self.engine = engine
        return tuple(passed)

    def search(self, policies: Sequence[Policy]) -> list[FoundClass]:
        enforce = self.options.contract == "enforce"
        engine = self.engine or BulkEngine(policies, self.config)
        total = self.options.max_examples or BUDGET * (ENFORCED if enforce else 1) // (
            FREE if engine.free else 1
        )
        if enforce:
            # The same schedules, with the contract and without.
            look = min(total, 2 * CHUNK // (FREE if engine.free else 1))
            for on in (False, True):
                sample = engine.again(seed=self.options.seed, enforce=on)
                sample.search(look)
                self.freed[on] = sample.freed_frames
        engine = self.engine = engine.again(
            seed=self.options.seed, enforce=enforce, strength=self.options.strength
        )
        sets = "schedules of all subsets of two policies and more"
        if len(engine.names) == 1:
            sets = "schedules of the one policy; a conflict takes two"
        self.tell(PhaseStarted("search", total, sets))
        began = time.monotonic()
        seen: set[Kind] = set()
        early = False
        with closing(self.rounds(engine, total)) as found_so_far:
            for self.tally in found_so_far:
                self.take(policies, seen)
                seconds = max(1e-9, time.monotonic() - began)
                self.tell(
                    Progress(
                        "search",
                        self.tally.drawn,
                        total,
                        self.tally.primitives / seconds,
                        self.tally.runs / seconds,
                        self.tally.failing,
                        len(seen),
                    )
                )
                early = self.residual().upper < (self.options.stop_risk or 0)
                late = self.options.max_time is not None and seconds > self.options.max_time
                if early or late:
                    break
        self.tell_reached(engine, early and self.tally.drawn < total)
        return self.agreed()

    def rounds(self, engine: BulkEngine, total: int) -> Generator[Tally, None, None]:
        """The search round by round, in this process or by workers."""
        chunk = CHUNK // FREE if engine.free else CHUNK
        options = self.options
        if options.workers == 1:
            return search_alone(engine, total, chunk)
        task = Task(
            given=options.policies,
            names=engine.names,
            config=self.config,
            enforce=engine.enforce,
            seed=options.seed,
            strength=options.strength,
        )
        return search_together(task, options.workers, total, chunk)

    def take(self, policies: Sequence[Policy], seen: set[Kind]) -> None:
        """Tell and file the kinds that are new in a round."""
        for found in self.tally.classes:
            kind = _kind(found)
            if kind in seen:
                continue
            seen.add(kind)
            if self.is_agreed(found):
                names = self._names(found.mask)
                self.tell(
                    ConflictFound(
                        names, found.invariant, found.primitive, len(found.events), self.tally.drawn
                    )
                )
                self.keep(found, policies, seen)

    def is_agreed(self, found: FoundClass) -> bool:
        """Whether the Python reader comes to the same states event by event; a hit counts only then."""
        assert self.engine is not None
        kind = _kind(found)
        if kind not in self.disputed and not self.engine.agrees(found.events, found.mask):
            self.disputed.add(kind)
            self.dispute(found)
        return kind not in self.disputed

    def dispute(self, found: FoundClass) -> None:
        """Warn that the readers disagree on a schedule."""
        self.tell(
            WarningRaised(
                "FKV073",
                f"{found.invariant} of {'+'.join(self._names(found.mask))}: the readers disagree on its schedule",
                "Please report this: it is a fault of fuzzkv.",
            )
        )

    def agreed(self) -> list[FoundClass]:
        """The classes of the search, each with a witness on which the readers agree."""
        return [found for found in self.tally.classes if self.is_agreed(found)]

    def residual(self) -> Residual:
        """What the search may have missed."""
        return Residual(self.tally.singletons, self.tally.freely)

    def tell_reached(self, engine: BulkEngine, early: bool) -> None:
        """Say what the search reached."""
        tally, residual, strength = self.tally, self.residual(), self.options.strength
        reached, combinations = covered(engine.levels, strength, tally.longest)
        self.tell(
            SearchDone(
                tally.drawn,
                self.options.workers,
                strength,
                reached,
                combinations,
                tally.reached,
                len(tally.classes),
                tally.singletons,
                tally.freely,
                residual.estimate,
                residual.upper,
                early,
            )
        )

    def keep(self, found: FoundClass, policies: Sequence[Policy], seen: set[Kind]) -> None:
        """File a new kind at once, shrunk by our own passes, so that a kill in the search doesn't lose it.

        The thorough shrinking later replaces it.
        """
        assert self.engine is not None
        kind = _kind(found)
        if bin(found.mask).count("1") < 2 or part_of_known(kind, seen):
            return
        shrunk = shrink(self.engine, kind, found.events, thorough=False)
        if shrunk is None or shrunk[1].consequence:
            return
        chosen, small = narrowed(policies, found.mask, shrunk[0])
        recipe = Recipe(small, chosen, self.config)
        case = make_case(recipe, found.invariant, seed=self.options.seed, schedules=self.tally.drawn)
        if case is not None:
            with suppress(UsageError):
                self.early.append(save_case(case, self.options.corpus))

    def replace_early(self, *, interrupted: bool) -> None:
        """Early cases that the final ones replace go; after an interrupt they are what was found."""
        final = {case["id"] for case in self.cases}
        kinds = [case["class"] for case in self.cases]
        for saved in self.early:
            if saved.case["id"] in final:
                continue
            if interrupted and saved.case["class"] not in kinds:
                self.cases.append(saved.case)
                self.tell(CaseFiled(saved.case["id"], str(saved.path), saved.new, saved.case))
            elif saved.new:
                saved.path.unlink(missing_ok=True)
        self.early.clear()

    def _names(self, mask: int) -> tuple[str, ...]:
        assert self.engine is not None
        return tuple(name for k, name in enumerate(self.engine.names) if mask >> k & 1)

    def shrink_all(self, classes: Sequence[FoundClass], policies: Sequence[Policy]) -> None:
        """One case a kind: consequences of other violations, and sets whose smaller part has the same kind,
        are no kinds of their own.
        """
        assert self.engine is not None
        kinds: set[Kind] = {_kind(c) for c in classes}
        wanted = [c for c in classes if bin(c.mask).count("1") >= 2 and not part_of_known(_kind(c), kinds)]
        self.tell(PhaseStarted("shrink", len(wanted), "kinds of failures to their shortest schedule"))
        for step, found in enumerate(wanted, 1):
            kind = _kind(found)
            shrunk = shrink(self.engine, kind, found.events)
            self.tell(Progress("shrink", step, len(wanted), classes=len(self.cases)))
            if shrunk is None or shrunk[1].consequence:
                continue
            self.tell(
                ShrinkStep(self._names(found.mask), found.invariant, len(found.events), len(shrunk[0]), step)
            )
            chosen, small = narrowed(policies, found.mask, shrunk[0])
            case = make_case(
                Recipe(small, chosen, self.config),
                found.invariant,
                seed=self.options.seed,
                schedules=self.tally.drawn,
            )
            if case is None:
                self.dispute(found)
                continue
            self.file(case)

    def file(self, case: dict[str, Any]) -> None:
        others = [old for old in self.cases if old["id"] != case["id"]]
        try:
            saved = save_case(case, self.options.corpus)
        except UsageError as error:
            # A broken file of this id is left as it is; the case isn't lost for this hunt's report.
            self.cases = [*others, case]
            self.tell(WarningRaised(error.code, f"{case['id']} is not filed: {error.reason}", error.cure))
            return
        self.cases = [*others, saved.case]
        new = saved.new or any(early.new and early.path == saved.path for early in self.early)
        self.tell(CaseFiled(case["id"], str(saved.path), new, saved.case))

    def confirm_all(self) -> None:
        ranked = sorted(self.cases, key=lambda case: (case["label"] == "", case["label"]))
        confirming = Confirming(
            self.listeners,
            device=self.options.device,
            policies=self.engine.policies if self.engine else (),
            seconds=self.options.confirm_time,
        )
        engine = engine_name()
        where = f"on {engine}, with a real language model" if engine != "none" else "no engine is installed"
        self.tell(PhaseStarted("confirm", len(ranked), where))
        for case in ranked:
            entries = confirming.run(case)
            if entries:
                shown = any(entry["verdict"] == "confirmed" for entry in entries)
                status = "confirmed" if shown else case["status"]
                self.file({**case, "status": status, "confirmations": entries})
        self.confirmed = sum(
            any(c["verdict"] == "confirmed" for c in case["confirmations"]) for case in self.cases
        )

    def finish(self, began: float, interrupted: bool) -> HuntResult:
        tally = self.tally
        if self.cases:
            write_index(self.options.corpus)
        outcome, code, text = self._judge(interrupted)
        unconfirmed = tuple(case["id"] for case in self.cases if not case["confirmations"])
        self.tell(
            HuntFinished(
                outcome,
                code,
                time.monotonic() - began,
                tally.runs,
                tally.primitives,
                len(self.cases),
                self.confirmed,
                unconfirmed,
                tally.refused,
                text,
                self._flags(),
            )
        )
        return HuntResult(code, tuple(self.cases), tuple(self.single), outcome)

    def _judge(self, interrupted: bool) -> tuple[Outcome, int, str]:
        engine = self.engine
        if interrupted:
            return "interrupted", EXIT_INTERRUPTED, "What was found so far is filed."
        if self.cases:
            return "conflict", EXIT_CONFLICT, self._remarks()
        if self.single:
            alone = ", ".join(self.single)
            return (
                "failed",
                EXIT_ENVIRONMENT,
                f"single-policy: {alone} fails alone, which is no conflict. Mend it first.",
            )
        if self.idle:
            text = f"{' and '.join(self.idle)} never acted: this hunt shows nothing about it."
            return "vacuous", EXIT_ENVIRONMENT, text
        if engine is not None and len(engine.names) > 1:
            met = interacted(self.tally.goals) or bool(self.tally.refused)
            if not met:
                text = "The policies never touched each other: this hunt shows nothing."
                return "vacuous", EXIT_ENVIRONMENT, text
        return "clean", EXIT_CLEAN, self._remarks()

    def _flags(self) -> str:
        """What the printed commands need besides the case's id."""
        corpus = self.options.corpus
        paths = ",".join(name for name in self.options.policies if ":" in name)
        elsewhere = f" --corpus {corpus}" if corpus != HuntOptions().corpus else ""
        return elsewhere + (f" --policies {paths}" if paths else "")

    def _remarks(self) -> str:
        """What a summary says besides: interactions reached or, with the contract, capacity still freed (dC)."""
        if self.engine is None or len(self.engine.names) < 2:
            return ""
        if self.options.contract == "enforce":
            freed, without = self.freed[True], self.freed[False]
            share = 100 * freed / without if without else 0.0
            return (
                f"Capacity still freed under the contract (dC): {freed:.2f} device frames on average, {share:.0f} % of "
                f"the {without:.2f} that the same policies free without it."
            )
        goals = self.tally.goals
        missed = [goal for goal, times in goals.items() if not times]
        rest = f"; never: {', '.join(missed)}" if missed else ""
        return f"Interactions that were to be reached: {len(goals) - len(missed)} of {len(goals)}{rest}."


def hunt(options: HuntOptions, listeners: Sequence[Listener] = ()) -> HuntResult:
    """Run a whole hunt.

    Raises ``UsageError`` for bad options; anything that a worker does is a result.  On ``KeyboardInterrupt``
    the summary is told and the result has exit code 130.
    """
    began = time.monotonic()
    policies = resolve(options.policies)
    run = _Hunt(options, listeners)
    run.tell(
        HuntStarted(
            tuple(p.name for p in policies),
            options.seed,
            options.contract,
            engine_name() if options.confirm else "none",
            __version__,
            default_thresholds().digest,
        )
    )
    interrupted = False
    try:
        accepted = run.accept(policies)
        if accepted:
            classes = run.search(accepted)
            run.shrink_all(classes, accepted)
            run.replace_early(interrupted=False)
        if options.confirm and run.cases:
            run.confirm_all()
    except KeyboardInterrupt:
        interrupted = True
        run.replace_early(interrupted=True)
    return run.finish(began, interrupted)
