"""The one stream of typed events that a hunt, a replay or a shrink emits.

The engine emits; the console, NDJSON and other reports listen. A listener is a callable that takes one
event. Events are frozen, hold plain data only, and :meth:`Event.as_dict` gives one JSON object per event:
the class name under ``"event"``, then the fields, with floats as decimal strings.

Order of a hunt: ``HuntStarted``, then per phase ``PhaseStarted`` and any number of ``Progress``; ``AcceptanceDone`` once a
policy; ``ProofDone`` and ``SolverDone`` after the solver, ``SearchDone`` after the search; ``ConflictFound``, ``ShrinkStep``,
``ConfirmProgress``, ``Confirmed`` and ``CaseFiled`` as they come; ``WarningRaised`` at any time; last always
``HuntFinished``, after Ctrl-C too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

SCHEMA_VERSION: Final = 1

Phase = Literal["accept", "replay", "solver", "search", "shrink", "confirm", "file"]
Outcome = Literal["clean", "conflict", "vacuous", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    def as_dict(self) -> dict[str, Any]:
        """The event as a JSON object without floats."""
        return {"event": type(self).__name__, **{f.name: plain(getattr(self, f.name)) for f in fields(self)}}


Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class HuntStarted(Event):
    """A hunt begins: ``contract`` is ``observe`` or ``enforce``, ``engine`` a name or ``none``."""

    policies: tuple[str, ...]
    seed: int
    contract: str = "observe"
    engine: str = "none"
    fuzzkv: str = ""
    thresholds: str = ""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PhaseStarted(Event):
    """A phase begins; ``total`` is its size in the unit of its ``Progress`` events, 0 if not known."""

    phase: Phase
    total: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """How far a phase is: ``done`` of ``total`` schedules, with its rates (per second) and what was found
    so far.

    ``events_per_s`` counts primitive events, ``schedules_per_s`` whole schedules; ``cases`` failing
    schedules seen, ``classes`` distinct classes of conflict.
    """

    phase: Phase
    done: int
    total: int = 0
    events_per_s: float = 0.0
    schedules_per_s: float = 0.0
    cases: int = 0
    classes: int = 0


@dataclass(frozen=True, slots=True)
class AcceptanceDone(Event):
    """One policy was judged alone, over ``schedules`` schedules. One that fails is reported and left out."""

    policy: str
    passed: bool
    schedules: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConflictFound(Event):
    """A class of conflict was seen for the first time. ``events`` is the length before shrinking."""

    policies: tuple[str, ...]
    invariant: str
    action: str
    events: int
    schedules: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class SolverDone(Event):
    """The solver has looked: every schedule of up to ``depth`` events of every set of the policies, in a window of
    ``requests`` sessions of ``pages`` pages, shows no class of failure but ``classes``.  ``ended`` says what stopped it
    before the depth that was asked for.
    """

    depth: int
    requests: int
    pages: int
    sets: int
    classes: int
    ended: str = ""


@dataclass(frozen=True, slots=True)
class ProofDone(Event):
    """What of ``of`` invariants is proved, for schedules of any length: ``proved`` in all, those of ``narrow`` only for
    these rules on a small machine.  ``settled`` says that nothing is left to search.
    """

    proved: int
    of: int
    narrow: tuple[str, ...]
    settled: bool


@dataclass(frozen=True, slots=True)
class SearchDone(Event):
    """The search ended: how many schedules, by how many workers, how many of the ``combinations`` of levels of
    ``strength`` factors were drawn, how many transitions between abstract states were met.

    ``risk`` is the chance that the next schedule shows a new class of failure, ``bound`` its upper 95 % limit
    (Good-Turing: ``singletons`` classes were seen in one of ``independent`` schedules); ``early`` says that the
    bound ended the search.
    """

    schedules: int
    workers: int
    strength: int
    covered: int
    combinations: int
    states: int
    classes: int
    singletons: int
    independent: int
    risk: float
    bound: float
    early: bool = False


@dataclass(frozen=True, slots=True)
class EngineSearchDone(Event):
    """A search on live engines ended: schedules and engine steps (those of controls and shrinking too), engines started,
    policy sets, how many of the pairs and triples that an engine can have were in one of them, abstract states of page
    events that were met; ``acted`` tells of each set in how many of its schedules all of its policies acted.
    """

    schedules: int
    steps: int
    engines: int
    sets: int
    pairs: int
    of_pairs: int
    triples: int
    of_triples: int
    states: int
    acted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShrinkStep(Event):
    """A shorter failing schedule, or a smaller set, was found."""

    policies: tuple[str, ...]
    invariant: str
    before: int
    after: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class ConfirmProgress(Event):
    """A confirmation on a real engine is under way: raw counts of one arm.

    ``arm`` names the policies of the arm (empty: full cache), ``done`` of ``total`` requests ran, ``right``
    of them were right (-1 where right and wrong do not apply), ``look`` of ``looks`` planned looks at the
    data were taken.
    """

    case_id: str
    arm: tuple[str, ...]
    done: int
    total: int
    right: int = -1
    look: int = 0
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Confirmed(Event):
    """A confirmation ended. ``verdict`` is a word of the verdict list, ``target`` for example ``"vllm"``.

    ``detail`` says in one line what was compared, with raw counts.
    """

    case_id: str
    verdict: str
    target: str
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CaseFiled(Event):
    """A case was written. ``case`` is the canonical case (see :mod:`fuzzkv.cases.corpus`), ``new`` is False on a
    merge.
    """

    case_id: str
    path: str
    new: bool
    case: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseWithdrawn(Event):
    """A case that was filed at once is there no more: a shorter one, or one of fewer policies, took its place, or it turned
    out to be no conflict.
    """

    case_id: str


@dataclass(frozen=True, slots=True)
class WarningRaised(Event):
    """Something that the user should know and that does not stop the hunt; ``cure`` says what to do about
    it.
    """

    code: str
    text: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class HuntFinished(Event):
    """The end, in every case. ``refused`` counts what the contract refused, by clause; ``flags`` are what the
    commands that a summary prints need besides (another corpus, policies to allow).
    """

    outcome: Outcome
    exit_code: int
    seconds: float
    schedules: int = 0
    primitive_events: int = 0
    classes: int = 0
    confirmed: int = 0
    unconfirmed: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    flags: str = ""


@dataclass(frozen=True, slots=True)
class GateStarted(Event):
    """A gate begins: ``replaced`` are policies of the candidate's own kind, in whose place it stands; ``engine`` is empty on the
    model.
    """

    candidate: str
    against: tuple[str, ...]
    replaced: tuple[str, ...]
    seed: int
    engine: str = ""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class GateFinished(Event):
    """The end of a gate, after Ctrl-C too: ``report`` is the whole report (see :mod:`fuzzkv.gate.gate_report`)."""

    outcome: str
    exit_code: int
    report: Mapping[str, Any]


def emit(listeners: Iterable[Listener], event: Event) -> None:
    """Give one event to every listener, in order."""
    for listener in listeners:
        listener(event)


def plain(value: Any) -> Any:
    """A value as JSON data without floats: numbers with a fraction become decimal strings of six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
