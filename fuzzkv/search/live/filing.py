"""From a failing run to a filed case: the verdict, the quick file, the shrunk one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzzkv.cases.case import Case
from fuzzkv.cases.corpus import save_case, write_index
from fuzzkv.cases.session_cases import make_session_case
from fuzzkv.cases.session_shrink import TRIES, SessionShrinker
from fuzzkv.core.results import FailureClass, signature
from fuzzkv.errors import FuzzkvError
from fuzzkv.events import (
    CaseFiled,
    CaseWithdrawn,
    ConflictFound,
    Event,
    Listener,
    PhaseStarted,
    ShrinkStep,
    emit,
)
from fuzzkv.targets.arms import Verdict
from fuzzkv.targets.base import Arm, Session, Target

NEAR: Final = 40
"""Random small changes of a schedule under which each subset has to pass, beside those of its time."""


@dataclass
class LiveFiling:
    """Files conflicts into ``folder``, one case a kind, at once; shrinks them after that.

    ``filed`` has the cases by kind; ``shrinks`` what each shrink did.
    """

    target: Target[Any, Any]
    session: Session[Any]
    folder: Path
    seed: int
    listeners: Sequence[Listener] = ()
    tries: int = TRIES
    filed: dict[FailureClass, Case] = field(default_factory=dict)
    shrinks: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    _new: set[str] = field(default_factory=set)

    def known(self, arm: Arm[Any]) -> bool:
        """Whether a case tells of this failure: its kind, or the same of a smaller set."""
        names = set(arm.names)
        told = {(v.invariant, v.action) for v in arm.outcome.failures}
        return any(
            set(kind.policies) <= names and (kind.invariant, kind.action) in told for kind in self.filed
        )

    def take(self, verdict: Verdict[Any], schedule: Any, drawn: int) -> tuple[Arm[Any], Any] | None:
        """File a conflict as it is, shrink it, and file that in its place.

        Where fewer policies show the same under a schedule that is nearly the same, this is no conflict: returns their arm
        and the schedule, and nothing stays filed.
        """
        whole = verdict.whole
        kind = whole.classes()[0]
        length = len(self.target.language.events(schedule))
        self._tell(ConflictFound(kind.policies, kind.invariant, kind.action, length, drawn))
        quick = self._save(verdict.arms, kind, schedule, drawn, minimal=False)
        self._tell(PhaseStarted("shrink", 0, f"{' + '.join(kind.policies)} to the shortest schedule"))
        shrinker = SessionShrinker(self.session, self.target.language, kind, whole.policies, self.tries)
        done = shrinker.shrink(schedule)
        self.shrinks[" + ".join(kind.policies)] = shrinker.counts
        if done is None:
            self.lost.append(
                f"{' + '.join(kind.policies)}: {kind.action}: every shorter schedule fails with fewer"
            )
            return None
        small, arms = done
        self._tell(ShrinkStep(kind.policies, kind.invariant, length, len(self.target.language.events(small))))
        fewer = self._fewer(small, arms)
        if fewer is not None:
            self.filed.pop(kind, None)
            self._withdraw(quick["id"])
            return fewer
        case = self._save(arms, kind, small, drawn, minimal=shrinker.tried < self.tries)
        if case["id"] != quick["id"]:
            self._withdraw(quick["id"])
        return None

    def _fewer(self, schedule: Any, arms: tuple[Arm[Any], ...]) -> tuple[Arm[Any], Any] | None:
        """A subset that breaks in the same way under a small change of the schedule: the others only shift its time."""
        whole, language = arms[-1], self.target.language
        wanted = {signature(v) for v in whole.outcome.failures[:1]}
        for arm in arms[:-1]:
            near = language.portfolio(whole.policies, f"{self.seed} near {' '.join(arm.names)}")
            near.keep(schedule)
            for changed in (*language.near(schedule), *(near.changed() for _ in range(NEAR))):
                other = self.session.run(arm.policies, changed)
                if any(signature(v) in wanted for v in other.outcome.failures[:1]):
                    return other, changed
        return None

    def index(self) -> None:
        """Write the folder's index, if anything was filed."""
        if self.filed:
            with suppress(FuzzkvError):  # 'fuzzkv corpus index' makes it anew
                write_index(self.folder)

    def _save(
        self, arms: tuple[Arm[Any], ...], kind: FailureClass, schedule: Any, drawn: int, *, minimal: bool
    ) -> Case:
        case = make_session_case(
            self.target,
            arms,
            kind,
            schedule,
            seed=self.seed,
            schedules=drawn,
            minimal=minimal,
        )
        saved = save_case(case, self.folder)
        if saved.new:
            self._new.add(saved.case["id"])
        self.filed[kind] = saved.case
        for larger in [k for k in self.filed if _within(kind, k)]:
            # It fails in the same way as this part of it, so it is no kind of its own.
            self._withdraw(self.filed.pop(larger)["id"])
        self._tell(CaseFiled(saved.case["id"], str(saved.path), saved.new, saved.case))
        return saved.case

    def _withdraw(self, ident: str) -> None:
        if ident in self._new:  # what was there before stays
            (self.folder / f"{ident}.json").unlink(missing_ok=True)
        self._tell(CaseWithdrawn(ident))

    def _tell(self, event: Event) -> None:
        emit(self.listeners, event)


def _within(kind: FailureClass, other: FailureClass) -> bool:
    same = (kind.invariant, kind.action) == (other.invariant, other.action)
    return same and set(kind.policies) < set(other.policies)
