"""Dependencies before they have words, and the chain of them that led to a breach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import networkx as nx

from fuzzkv.explain.graph import KINDS

Thing = tuple[str | int, ...]
"""What two nodes have in common: a page, a session, the link; its first part is its sort."""


@dataclass(frozen=True)
class ReadLink:
    """Node ``then`` depends on node ``first``: how, about what, on which tier, with which value read; ``cells`` are the
    numbers of the state (or the blocks of the log) that show it.
    """

    first: int
    then: int
    kind: str
    about: Thing
    where: str = ""
    value: int = 0
    cells: tuple[str, ...] = ()


FOLLOW: Final[Mapping[str, tuple[str, ...]]] = {
    "copied": ("carried", "copied", "wrote", "rewrote"),
    "carried": ("wrote", "copied", "rewrote", "freed", "expected", "stored", "offered"),
    "in-flight": ("wrote", "copied"),
    "rewrote": ("wrote", "copied"),
    "charged": ("charged",),
    "queued": ("queued",),
    "waited": ("queued", "dropped"),
    "fenced": ("deferred",),
    "aged": ("dropped",),
    "orphaned": ("pinned",),
    "published": ("carried",),
    "scaled": ("scaled",),
    "wrote": ("freed", "reused"),
    "freed": ("freed",),
    "failed": ("failed", "in-flight", "carried"),
    "expected": ("rewrote", "kept"),
    "loaded": ("carried",),
    "stored": ("carried",),
    "offered": ("forgot",),
    "reused": ("returned",),
}
"""Having come by one kind of dependency, which kinds are followed further back."""

ANYWHERE: Final = frozenset({"deferred", "queued", "freed", "pinned", "offered", "forgot"})
"""Kinds that are followed whatever they are about; the others only about the same thing."""
FROM_ALL: Final = frozenset({"waited", "expected", "published", "failed"})
"""Kinds from which the way goes on to other pages."""

ASIDE: Final = frozenset(
    {"opened", "withdrew", "aged", "asked", "freed", "idle", "read", "saw"}
    | {"queued", "charged", "unfilled"}
)
"""Kinds with which no story begins, unless there is no other."""
ONLY: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "I2": (frozenset({"in-flight"}),),
    "I13": (frozenset({"fenced", "idle", "opened"}),),
    "I14": (frozenset({"waited", "queued", "held", "charged"}),),
    "I17": (frozenset({"certified"}), frozenset({"aged", "read"})),
    "I18": (frozenset({"charged"}),),
}
"""Invariants whose story begins with the first of these sets of kinds that there is."""


def chain(links: Iterable[ReadLink], broke: int, invariant: str, page: Thing | None) -> list[ReadLink]:
    """The dependencies that led to the node that broke an invariant about a page, the earliest first."""
    into: dict[int, list[ReadLink]] = {}
    for link in links:
        into.setdefault(link.then, []).append(link)
    near = [x for x in into.get(broke, ()) if page is None or x.about[0] != "page" or x.about == page]
    told = [[x for x in near if x.kind in kinds] for kinds in ONLY.get(invariant, ())]
    plain = [x for x in near if x.kind not in ASIDE]
    open_ = _latest(next((found for found in [*told, plain, near] if found), []))
    found: dict[ReadLink, None] = {}
    while open_:
        link = open_.pop()
        if link in found:
            continue
        found[link] = None
        wanted = FOLLOW.get(link.kind, ())
        earlier = [x for x in into.get(link.first, ()) if x.kind in wanted and _goes_on(x, link)]
        earlier = _latest(earlier)
        # A copy brings what its source held when it began, unless that was changed on the way.
        begun = max((x.first for x in earlier if x.kind == "carried"), default=None)
        open_ += [x for x in earlier if begun is None or x.kind in ("carried", "freed") or x.first > begun]
    return in_order(found)


def _latest(links: Sequence[ReadLink]) -> list[ReadLink]:
    """Links of one node without those about bytes that were rewritten since."""
    made = {(x.about, x.where): x.first for x in links if x.kind == "rewrote"}
    old = ("wrote", "copied")
    return [x for x in links if x.kind not in old or x.first > made.get((x.about, x.where), -1)]


def in_order(links: Iterable[ReadLink]) -> list[ReadLink]:
    """Links by the later node, then by the earlier one."""
    return sorted(links, key=lambda x: (x.then, x.first, KINDS.index(x.kind), x.about))


def _goes_on(earlier: ReadLink, later: ReadLink) -> bool:
    """Whether an earlier dependency is about what the later one is about; what lies in a frame may come from another page."""
    if later.kind == "rewrote" and earlier.where != later.where:
        return False
    if later.about[0] in ("block", "host"):
        return _shares(earlier.about, later.about) or earlier.kind in ANYWHERE
    same = (
        earlier.about == later.about
        or "frame" in (earlier.about[0], later.about[0])
        or later.about[0] == "entry"
    )
    return same or earlier.kind in ANYWHERE or later.kind in FROM_ALL


def _shares(about: Thing, other: Thing) -> bool:
    """Whether two moves of blocks between device and host have a place in common, and none in which they differ."""
    one = dict(zip(about[::2], about[1::2], strict=True))
    two = dict(zip(other[::2], other[1::2], strict=True))
    common = one.keys() & two.keys()
    return bool(common) and all(one[sort] == two[sort] for sort in common)


def completed(
    links: Sequence[ReadLink],
    found: Sequence[ReadLink],
    broke: int,
    actors: Callable[[int], str],
    policies: Sequence[str],
) -> tuple[list[ReadLink], list[str]]:
    """The chain with the shortest way from each policy that has no part in it yet; and the policies from which none leads
    there.
    """
    graph = nx.MultiDiGraph()
    graph.add_node(broke)
    for link in links:
        graph.add_edge(link.first, link.then, of=link)
    whole, apart = list(found), []
    for policy in policies:
        inside = {broke, *(n for x in whole for n in (x.first, x.then))}
        if any(actors(n) == policy for n in inside):
            continue
        way = _way(graph, [n for n in graph if actors(n) == policy and n <= broke], inside)
        if way:
            whole += [x for x in way if x not in whole]
        else:
            apart.append(policy)
    return in_order(whole), apart


def _way(graph: nx.MultiDiGraph, sources: Sequence[int], goals: Iterable[int]) -> list[ReadLink]:
    best: list[int] = []
    back = graph.reverse(copy=False)
    for goal in sorted(set(goals) & set(graph), reverse=True):
        paths = nx.single_source_shortest_path(back, goal)
        for source in sorted(sources, reverse=True):
            if source in paths and (not best or len(paths[source]) < len(best)):
                best = paths[source][::-1]
    steps = pairwise(best)
    return [min((d["of"] for d in graph[a][b].values()), key=lambda x: KINDS.index(x.kind)) for a, b in steps]
