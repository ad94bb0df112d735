"""What an invariant asks and what is so instead, and what the same thing comes to in each control arm.

Everything is read from states of the runs: the one in which the invariant broke, and those of the arms after the same
event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fuzzkv.core.glossary import counted, joined
from fuzzkv.semantics.contract.evidence import Target
from fuzzkv.semantics.facts import device_exact, host_exact, hosted, present, running, waiting
from fuzzkv.semantics.frames import free_or_pending
from fuzzkv.semantics.identity import (
    T_ADAPTER,
    T_BRANCH,
    T_DRAFT,
    T_INDEX,
    T_LAYOUT,
    T_LINEAGE,
    T_SCHEME,
    T_TEXT,
    T_TOKENS,
    T_WEIGHTS,
    field,
)
from fuzzkv.semantics.layout import (
    COLUMNS,
    GARBLED,
    INT8,
    ND,
    NH,
    NP,
    NQ,
    NR,
    NX,
    ORPHAN,
    PAGES,
    PENDING,
    SKEWED,
)
from fuzzkv.semantics.ops.admission import ROUNDS_IDLE
from fuzzkv.semantics.ops.index import served
from fuzzkv.semantics.schedule import Config
from fuzzkv.semantics.sessions import missing_frames
from fuzzkv.simulator.history import Record

FIELDS: Final = (
    ("place", T_INDEX, T_TOKENS),
    ("tokens", T_TOKENS, T_BRANCH),
    ("branch", T_BRANCH, T_ADAPTER),
    ("adapter", T_ADAPTER, T_SCHEME),
    ("scheme", T_SCHEME, T_WEIGHTS),
    ("weights", T_WEIGHTS, T_LINEAGE),
    ("lossy prefix", T_LINEAGE, T_LAYOUT),
    ("layout", T_LAYOUT, T_DRAFT),
    ("draft", T_DRAFT, T_TEXT),
)
"""What the bytes of a page depend on, by name, with the place values of a ghost tag."""
_TARGETS: Final[tuple[Target, ...]] = (
    "current-attention",
    "next-access",
    "near-reuse",
    "reconstruction",
    "attention-output",
    "answer",
)
_USES: Final = ("residency", "lossy bytes without a backup", "deletion for good")


@dataclass(frozen=True)
class NamedState:
    """A state with the names that go with it: the policies slot by slot, the page in question and what it is called."""

    s: Sequence[int]
    policies: tuple[str, ...]
    config: Config
    page: int
    name: str
    session: str

    def at(self, column: str, place: int = 0) -> int:
        """A number of the state."""
        return self.s[COLUMNS[column] + place]

    @property
    def slot(self) -> int:
        """The slot of the session in question."""
        return self.page // PAGES

    def quoting(self) -> list[str]:
        """The policies whose quote stands on the page."""
        return [name for k, name in enumerate(self.policies) if self.at("QUOTE", k * NP + self.page) == 1]


def other(tag: int, want: int) -> str:
    """In what bytes with one ghost tag differ from those that are expected."""
    if tag == 0:
        return "nothing was written there"
    if tag in (GARBLED, SKEWED):
        return "they were written in another layout" if tag == GARBLED else "their scales aren't their own"
    if (tag - 1) // T_TEXT != (want - 1) // T_TEXT:
        return "they are another session's"
    differ = [(name, field(tag, a, b), field(want, a, b)) for name, a, b in FIELDS]
    return joined([f"{name} {got} instead of {wanted}" for name, got, wanted in differ if got != wanted])


def copies(scene: NamedState) -> str:
    """Where the page is, and how good."""
    s, p = scene.s, scene.page
    if scene.at("OWNED", p) == 0:
        gone = "is open no more" if scene.at("R_ACTIVE", scene.slot) == 0 else "has no such page any more"
        return f"{scene.session} {gone}"
    found = []
    for there, exact, tier, frame, tag, level in (
        (present(s, p), device_exact(s, p), "on the device", "DEV", "D_TAG", "D_PREC"),
        (hosted(s, p), host_exact(s, p), "on the host", "HOST", "H_TAG", "H_PREC"),
    ):
        f, want = scene.at(frame, p), scene.at("WANT", p)
        if there and exact:
            found.append(f"an exact copy {tier}")
        elif there and scene.at(tag, f) == want:
            found.append(f"a copy at {8 if scene.at(level, f) == INT8 else 4} bits {tier}")
        elif there:
            found.append(f"bytes {tier} that its reader doesn't expect ({other(scene.at(tag, f), want)})")
    if found:
        return f"{scene.name} has {joined(found)}"
    told = ", and was declared evicted" if scene.at("EVICTED", p) == 1 else ""
    return f"{scene.name} has no copy" + (
        " and is still to be computed" if scene.at("TODO", p) == 1 else told
    )


def _quoted(scene: NamedState) -> str:
    quoting = scene.quoting()
    if not quoting:
        return f"{copies(scene)}, and nobody quotes it"
    return f"{copies(scene)}, and {joined(quoting)} {'quotes' if len(quoting) == 1 else 'quote'} it"


def _losses(scene: NamedState) -> str:
    r = scene.slot
    each = {name: scene.at("SPENT", k * NR + r) for k, name in enumerate(scene.policies)}
    parts = [f"{name} {loss}" for name, loss in each.items() if loss]
    whole = scene.at("R_LOSS", r)
    if not whole:
        return f"{scene.session} has lost nothing"
    return f"{scene.session} has lost {whole} permille" + (f" ({joined(parts)})" if len(parts) > 1 else "")


def _frames(scene: NamedState) -> str:
    s = scene.s
    runs = sum(bool(running(s, r)) for r in range(NR))
    needs = [f"session {r} needs {missing_frames(s, r)}" for r in range(NR) if waiting(s, r)]
    waits = joined(needs) if needs else "no session waits"
    free = free_or_pending(s)
    kept = sum(scene.at("D_PAGE", f) == PENDING for f in range(ND))
    fence = f", {kept} of them behind the fence" if kept else ""
    return f"{counted(runs, 'session')} {'runs' if runs == 1 else 'run'}, {waits}, and {free} device frames are free{fence}"


def _evidence(scene: NamedState) -> str:
    p = scene.page
    if scene.at("CERT", p):
        target = _TARGETS[scene.at("CERT", p) - 1]
        return f"the certificate of {scene.name} is of {target}, and nobody deletes or degrades on it"
    if scene.at("OWNED", p) == 0:
        return f"{scene.session} is open no more"
    return f"{_read(scene)}, and nobody acts on a certificate of it"


def _read(scene: NamedState) -> str:
    unseen = scene.at("LIFE", scene.page) - scene.at("SEEN", scene.page)
    if not unseen:
        return f"the last step of {scene.session} has read {scene.name}"
    return f"{counted(unseen, 'step')} of {scene.session} {'has' if unseen == 1 else 'have'} run since one read {scene.name}"


def _served(scene: NamedState) -> str:
    n = scene.at("R_N", scene.slot)
    can = sum(bool(served(scene.s, scene.slot * PAGES + i)) for i in range(n))
    return (
        f"{scene.session} has {counted(n, 'page')}, {can} can be served from elsewhere, and nobody says more"
    )


def _books(scene: NamedState) -> str:
    filed = [scene.at("D_QUEUE", f) for f in range(ND)]
    said = [f"device frame {f} is filed in queue {q - 1}" for f, q in enumerate(filed) if q]
    said += [
        f"queue {q} counts {scene.at('Q_LEN', q)} and holds {filed.count(q + 1)}"
        for q in range(NQ)
        if scene.at("Q_LEN", q) != filed.count(q + 1)
    ]
    for f in range(NH):
        if scene.at("H_PIN", f):
            left = ", though its session has ended" if scene.at("H_PAGE", f) <= ORPHAN else ""
            said.append(f"host frame {f} is pinned{left}")
    return joined(said) if said else "nothing is filed as evictable or pinned"


def _boundary(scene: NamedState) -> str:
    r = scene.slot
    group = (
        f"its recurrent group stands after {counted(scene.at('G_AT', r), 'page')}"
        if scene.at("GROUP", r)
        else "it has no other group"
    )
    return f"{scene.session} has {counted(scene.at('R_N', r), 'page')}, and {group}"


MATTERS: Final[Mapping[str, Callable[[NamedState], str]]] = {
    "I1": _quoted,
    "I12": _quoted,
    "I10": _boundary,
    "I11": _books,
    "I13": _frames,
    "I15": _served,
    "I17": _evidence,
    "I18": _losses,
}
"""What matters for an invariant, said of a state; for the others it is what the page holds."""


def control(invariant: str, scene: NamedState, latencies: Sequence[int]) -> str:
    """What matters for the invariant, in an arm that kept it."""
    if invariant == "I14":
        return f"the slowest step takes {counted(max(latencies, default=0), 'tick')}"
    return MATTERS.get(invariant, copies)(scene)


def clash(invariant: str, scene: NamedState, record: Record, number: str) -> str:
    """What is so at the node ``number`` that broke the invariant, read off the state after it."""
    said: Mapping[str, Callable[[NamedState, Record, str], str]] = {
        "I1": _nothing_exact,
        "I4": lambda scene, record, number: (
            f"{number} stores bytes of {scene.name} that have changed since the copy began"
        ),
        "I10": _apart,
        "I11": lambda scene, record, number: f"after {number} {_books(scene)}",
        "I12": _nothing_exact,
        "I13": lambda scene, record, number: f"{ROUNDS_IDLE} rounds have ended by {number}: {_frames(scene)}",
        "I14": _late,
        "I15": lambda scene, record, number: (
            f"{number} counts {scene.name}, of which no copy is there or on its way"
        ),
        "I17": _uncovered,
        "I18": _beyond,
    }
    if invariant in said:
        return said[invariant](scene, record, number)
    if invariant == "I2" and record.primitive.startswith("drop"):
        return f"{number} gives a frame of {scene.name} back with a copy in flight on it"
    return _bytes(scene, record, number)


def _nothing_exact(scene: NamedState, record: Record, number: str) -> str:
    if record.primitive == "step":
        return f"{number} asks for {scene.name}, and {_quoted(scene)}"
    return f"after {number} {_quoted(scene)}"


def _apart(scene: NamedState, record: Record, number: str) -> str:
    return f"{_boundary(scene)}, while {number} goes on from {counted(record.detail, 'page')}"


def _beyond(scene: NamedState, record: Record, number: str) -> str:
    config = scene.config
    return f"with {number} {_losses(scene)}, which is more than {config.headroom} above the budget of {config.ledger}"


def _bytes(scene: NamedState, record: Record, number: str) -> str:
    want, d = scene.at("WANT", scene.page), scene.at("DEV", scene.page)
    if record.primitive == "hit":
        x = next((x for x in range(NX) if scene.at("X_KEY", x) > 0), 0)
        if not scene.at("X_FULL", x):
            return f"the entry that {number} takes was never filled"
        differ = other(scene.at("X_TAG", x), want)
        return f"{number} takes bytes for {scene.name} that its reader doesn't expect ({differ})"
    if record.primitive == "write_scale":
        return f"{number} writes as in layout {record.detail}, and the pool has layout {scene.at('LAYOUT')}"
    if record.primitive == "trim":
        return f"{number} cuts where the offset says, in a ring that has wrapped"
    if d >= 0 and scene.at("D_TAG", d) != want:
        return f"at {number} the bytes of {scene.name} aren't what its reader expects ({other(scene.at('D_TAG', d), want)})"
    return f"at {number} {copies(scene)}"


def _late(scene: NamedState, record: Record, number: str) -> str:
    config = scene.config
    objective = (
        f"the objective is {counted(config.objective, 'tick')}, and {config.tolerance} more are tolerated"
    )
    if record.primitive == "step":
        return f"{number} takes {counted(record.detail, 'tick')}; {objective}"
    ticks = scene.at("R_N", scene.slot) * config.page_cost + config.step_cost
    again = f"to compute {scene.session} again takes {counted(ticks, 'tick')}"
    return f"{number} finds no device frame, and {again}; {objective}"


def _uncovered(scene: NamedState, record: Record, number: str) -> str:
    if record.primitive == "spend":
        target = _TARGETS[scene.at("CERT", scene.page) - 1]
        return f"{number} takes a certificate of {target} for {_USES[record.detail - 1]}"
    k = scene.policies.index(record.actor or "")
    horizon = counted(scene.at("MF_HORIZON", k), "step")
    return f"at {number} {_read(scene)}, and the evidence holds for {horizon}"
