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
from fuzzkv.semantics.layout import COLUMNS, DELETE, EXACT, GARBLED, INT8, NP, NR, ORPHAN, PAGES, SKEWED
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
class Scene:
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


def copies(scene: Scene) -> str:
    """Where the page is, and how good."""
    s, p = scene.s, scene.page
    if scene.at("OWNED", p) == 0:
        return f"{scene.name} isn't there: its session isn't open"
    found = []
    for there, exact, tier, frame, tag, level in (
        (present(s, p), device_exact(s, p), "on the device", "DEV", "D_TAG", "D_PREC"),
        (hosted(s, p), host_exact(s, p), "on the host", "HOST", "H_TAG", "H_PREC"),
    ):
        f = scene.at(frame, p)
        if there and exact:
            found.append(f"an exact copy {tier}")
        elif there and scene.at(tag, f) == scene.at("WANT", p):
            found.append(f"a copy at {8 if scene.at(level, f) == INT8 else 4} bits {tier}")
        elif there:
            found.append(
                f"bytes {tier} that aren't what its reader expects ({other(scene.at(tag, f), scene.at('WANT', p))})"
            )
    if not found and scene.at("TODO", p) == 1:
        return f"{scene.name} is still to be computed"
    if not found:
        told = ", and was declared evicted" if scene.at("EVICTED", p) == 1 else ""
        return f"{scene.name} has no copy{told}"
    return f"{scene.name} has {joined(found)}"


def _content(scene: Scene) -> str:
    quoting = scene.quoting()
    tail = (
        f", and {joined(quoting)} {'quotes' if len(quoting) == 1 else 'quote'} it"
        if quoting
        else ", and nobody quotes it"
    )
    return copies(scene) + tail


def _losses(scene: Scene) -> str:
    r = scene.slot
    each = [
        f"{name} {scene.at('SPENT', k * NR + r)}"
        for k, name in enumerate(scene.policies)
        if scene.at("SPENT", k * NR + r)
    ]
    return f"{scene.session} has lost {scene.at('R_LOSS', r)} permille" + (
        f" ({joined(each)})" if each else ""
    )


def _frames(scene: Scene) -> str:
    s = scene.s
    runs = sum(bool(running(s, r)) for r in range(NR))
    needs = [f"session {r} needs {missing_frames(s, r)}" for r in range(NR) if waiting(s, r)]
    waits = joined(needs) if needs else "no session waits"
    free = free_or_pending(s)
    kept = sum(scene.at("D_PAGE", f) == -3 for f in range(16))
    fence = f", {kept} of them behind the fence" if kept else ""
    return f"{counted(runs, 'session')} {'runs' if runs == 1 else 'run'}, {waits}, and {free} device frames are free{fence}"


def _evidence(scene: Scene) -> str:
    p = scene.page
    if scene.at("CERT", p):
        return f"the certificate of {scene.name} is of {_TARGETS[scene.at('CERT', p) - 1]}, and nobody deletes or degrades on it"
    if scene.at("OWNED", p) == 0:
        return f"{scene.session} isn't open"
    unseen = scene.at("LIFE", p) - scene.at("SEEN", p)
    return f"{scene.name} was last read {counted(unseen, 'step')} ago, and nobody acts on a certificate of it"


def _served(scene: Scene) -> str:
    n = scene.at("R_N", scene.slot)
    can = sum(bool(served(scene.s, scene.slot * PAGES + i)) for i in range(n))
    return f"{can} of the {counted(n, 'page')} of {scene.session} can be served from elsewhere, and nobody says more"


def _books(scene: Scene) -> str:
    filed = [
        f"device frame {f} in queue {scene.at('D_QUEUE', f) - 1}" for f in range(16) if scene.at("D_QUEUE", f)
    ]
    left = sum(scene.at("H_PAGE", f) <= ORPHAN for f in range(12))
    pins = sum(scene.at("H_PIN", f) for f in range(12))
    return (
        f"{joined(filed) if filed else 'no frame'} {'is' if len(filed) < 2 else 'are'} filed as evictable, {counted(pins, 'pin')} "
        f"{'is' if pins == 1 else 'are'} held, {left} of them of a session that has ended"
    )


def _boundary(scene: Scene) -> str:
    r = scene.slot
    group = (
        f"its recurrent group stands after {counted(scene.at('G_AT', r), 'page')}"
        if scene.at("GROUP", r)
        else "it has no other group"
    )
    return f"{scene.session} has {counted(scene.at('R_N', r), 'page')}, and {group}"


MATTERS: Final[Mapping[str, Callable[[Scene], str]]] = {
    "I10": _boundary,
    "I11": _books,
    "I13": _frames,
    "I15": _served,
    "I17": _evidence,
    "I18": _losses,
}
"""What matters for an invariant, said of a state; for the others it is what the page holds."""


def control(invariant: str, scene: Scene, latencies: Sequence[int]) -> str:
    """What matters for the invariant, in an arm that kept it."""
    if invariant == "I14":
        return f"the slowest step takes {counted(max(latencies, default=0), 'tick')}"
    return MATTERS.get(invariant, _content)(scene)


def clash(invariant: str, scene: Scene, record: Record, number: str) -> str:
    """What is so at the node ``number`` that broke the invariant, read off the state after it."""
    p, name = scene.page, scene.name
    said = {
        "I10": lambda: _boundary(scene) + f", while {number} goes on from {counted(record.detail, 'page')}",
        "I11": lambda: _books(scene),
        "I13": lambda: f"{ROUNDS_IDLE} rounds have ended by {number} and {_frames(scene)}",
        "I14": lambda: _late(scene, record, number),
        "I15": lambda: f"{number} counts {name}, of which no copy is there or on its way",
        "I17": lambda: _uncovered(scene, record, number),
        "I18": lambda: (
            f"with {number} {_losses(scene)}; the budget is {scene.config.ledger}, and "
            f"{scene.config.headroom} more is what can't be told from it"
        ),
    }
    if invariant in said:
        return said[invariant]()
    if invariant in ("I1", "I12"):
        if record.primitive == "step":
            return f"{number} asks for {name}, and {_content(scene)}"
        return f"after {number} {_content(scene)}"
    if invariant == "I2" and record.primitive.startswith("drop"):
        return f"{number} gives a frame of {name} back with a copy in flight on it"
    return _bytes(scene, record, number)


def _bytes(scene: Scene, record: Record, number: str) -> str:
    p, want = scene.page, scene.at("WANT", scene.page)
    d = scene.at("DEV", p)
    if record.primitive == "hit":
        x = next((x for x in range(8) if scene.at("X_KEY", x) > 0), 0)
        if not scene.at("X_FULL", x):
            return f"the entry that {number} takes was never filled"
        return f"{number} takes bytes for {scene.name} that aren't what its reader expects: {other(scene.at('X_TAG', x), want)}"
    if record.primitive == "write_scale":
        return f"{number} writes as in layout {record.detail}, and the pool has layout {scene.at('LAYOUT')}"
    if record.primitive == "trim":
        return f"{number} cuts at page {record.detail}, and the ring has run on to position {scene.config and record.detail}"
    if d >= 0 and scene.at("D_TAG", d) != want:
        return f"at {number} the bytes of {scene.name} aren't what its reader expects: {other(scene.at('D_TAG', d), want)}"
    return f"at {number} {copies(scene)}"


def _late(scene: Scene, record: Record, number: str) -> str:
    objective = (
        f"the objective is {scene.config.objective} ticks, and {scene.config.tolerance} more are tolerated"
    )
    if record.primitive == "step":
        return f"{number} takes {counted(record.detail, 'tick')}; {objective}"
    r = next((r for r in range(NR) if scene.at("RUN_ON", r) and scene.at("R_ACTIVE", r)), scene.slot)
    ticks = scene.at("R_N", r) * scene.config.page_cost + scene.config.step_cost
    return f"{number} finds no device frame, and computing {scene.session} again takes {counted(ticks, 'tick')}; {objective}"


def _uncovered(scene: Scene, record: Record, number: str) -> str:
    p, name = scene.page, scene.name
    if record.primitive == "spend":
        use = _USES[record.detail - 1]
        return f"{number} takes a certificate of {_TARGETS[scene.at('CERT', p) - 1]} for {use}"
    k = scene.policies.index(record.actor) if record.actor in scene.policies else 0
    unseen = scene.at("LIFE", p) - scene.at("SEEN", p)
    return f"at {number} {name} was last read {counted(unseen, 'step')} ago; the evidence holds for {counted(scene.at('MF_HORIZON', k), 'step')}"
