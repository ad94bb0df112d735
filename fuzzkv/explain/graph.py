"""The dependency graph of a run: what happened, and what of it rests on what happened before.

Nodes are numbered in the order in which they ran.  An edge runs from the earlier node to the one that depends on it; its
``kind`` says how, its ``about`` what they have in common, its two nodes are its witness.  A graph is a networkx
``MultiDiGraph`` whose nodes carry an :class:`HistoryNode` and whose edges carry a :class:`Tie` (attribute ``of``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from fuzzkv.explain.stage import Stage

KINDS: tuple[str, ...] = (
    *("wrote", "copied", "rewrote", "stored", "loaded", "carried", "in-flight", "unfilled", "dropped"),
    *("promised", "withdrew", "declared", "charged", "queued", "waited", "returned", "reused", "freed"),
    *("fenced", "held", "deferred", "aged", "read", "certified", "published", "offered", "claimed"),
    *("forgot", "pinned", "orphaned", "filed", "laid-out", "scaled", "expected", "boundary", "ring"),
    *("kept", "cached", "asked", "idle", "failed", "opened", "saw"),
)
"""How a node can depend on an earlier one."""


@dataclass(frozen=True)
class HistoryNode:
    """One thing that happened.

    ``event`` is its event of the schedule, ``time`` its tick of virtual time or its engine step, ``actor`` a policy or
    empty, ``what`` the primitive or the row of the log, ``text`` a sentence without its full stop, ``pages`` the names of
    the pages (or blocks) that it touches, ``lane`` whose it is where no policy acts, ``short`` a word or two.
    """

    number: int
    event: int
    time: int
    actor: str
    what: str
    text: str
    pages: tuple[str, ...] = ()
    lane: str = "engine"
    short: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **{key: value for key, value in vars(self).items() if key != "short"},
            "pages": list(self.pages),
        }


@dataclass(frozen=True)
class Tie:
    """A dependency: node ``then`` rests on node ``first``.  ``because`` is a clause with ``{first}`` and ``{then}`` for their
    numbers; ``cells`` names what was read, where the run was watched number by number.
    """

    first: int
    then: int
    kind: str
    about: str
    because: str
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class CausalChain:
    """The part of a graph that led to a breach: ``broke`` is the node that breaks, ``ties`` in order, ``listed`` the nodes to
    list; ``apart`` the policies from whose acts no path leads there.
    """

    broke: int
    listed: tuple[int, ...]
    ties: tuple[Tie, ...]
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A case explained.

    ``names`` binds all names of the run, ``bound`` those that the text uses; ``clash`` says what is so where the invariant
    asks for something else; ``controls`` are lines, one an arm; ``refusing`` and ``guard`` are the solver's lines, ``None``
    where nobody asked for them; ``unit`` is that of an act's time; ``stage`` is where pages are meanwhile, for a figure.
    """

    case: str
    headline: str
    invariant: str
    rule: str
    names: tuple[tuple[str, str], ...]
    graph: Any = field(repr=False)
    chain: CausalChain
    clash: str
    controls: tuple[str, ...]
    refusing: tuple[str, ...] | None = None
    guard: tuple[str, ...] | None = None
    unit: str = "tick"
    stage: Stage = field(repr=False, default=Stage((), (), ()))

    def act(self, number: int) -> HistoryNode:
        """The act of a node."""
        found: HistoryNode = self.graph.nodes[number]["of"]
        return found

    @property
    def numbers(self) -> dict[int, int]:
        """Listed node -> its number in the text, from 1."""
        return {node: i for i, node in enumerate(self.chain.listed, 1)}

    @property
    def bound(self) -> list[tuple[str, str]]:
        """The names that what is printed uses, and what they stand for."""
        said = [self.act(n).text for n in self.chain.listed]
        words = set(re.findall(r"\w+", " ".join([*said, *self.sentences(), self.clash, *self.controls])))
        return [(name, what) for name, what in self.names if name in words]

    @property
    def because(self) -> str:
        """What the invariant asks, and what is so instead."""
        return f"{self.invariant} asks that {self.rule}; {self.clash}"

    def sentences(self) -> list[str]:
        """One sentence for every dependency of the chain."""
        return sentences(self.chain.ties, self.numbers)


def make_graph(acts: Iterable[HistoryNode], ties: Iterable[Tie]) -> Any:
    """The graph of acts and their dependencies."""
    graph = nx.MultiDiGraph()
    for act in acts:
        graph.add_node(act.number, of=act)
    for tie in ties:
        graph.add_edge(tie.first, tie.then, key=f"{tie.kind} {tie.about}", of=tie)
    return graph


def all_ties(graph: Any) -> list[Tie]:
    """Every dependency, by the later node."""
    found = [data["of"] for _, _, data in graph.edges(data=True)]
    return sorted(found, key=lambda tie: (tie.then, tie.first, tie.kind, tie.about))


def _rank(tie: Tie) -> tuple[int, str]:
    return KINDS.index(tie.kind), tie.about


def sentences(ties: Sequence[Tie], numbers: dict[int, int]) -> list[str]:
    """Each pair of nodes in one sentence; what says the same thing of several pages is said once."""
    pairs: dict[tuple[int, int], list[Tie]] = {}
    for tie in ties:
        pairs.setdefault((tie.first, tie.then), []).append(tie)
    lines = []
    for (first, then), of in sorted(pairs.items(), key=lambda item: (item[0][1], item[0][0])):
        a, b = f"({numbers[first]})", f"({numbers[then]})"
        clauses = list(dict.fromkeys(tie.because.format(first=a, then=b) for tie in sorted(of, key=_rank)))
        lines.append(f"{a} comes before {b}, because {', and '.join(clauses)}.")
    return lines
