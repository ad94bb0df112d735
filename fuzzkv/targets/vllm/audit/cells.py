"""The raw cells of an audit: each compares one way of keeping a cache with a rebuilt one, on one scenario.

A cell is plain data (``docs/audit.md`` has the schema); what it comes to is judged later, when the noise of
all rebuilt pairs is known. Written over the protocols, so a planted cache runs through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fuzzkv.targets.vllm.audit.compare import LogitRow, compare, decimal
from fuzzkv.targets.vllm.audit.scenarios import Scenario
from fuzzkv.targets.vllm.audit.serving import SERVED, Server, rebuilt
from fuzzkv.targets.vllm.audit.ways import FORCED, WAYS, Reached, Refused, Sessions, decide, greedy, rebuild

Cell = dict[str, Any]
SENTENCE: Final = 24
"""Tokens at most of a sentence that is shown."""


def session_cells(sessions: Sessions, kind: str, sc: Scenario) -> Iterator[Cell]:
    """All ways of one class of cache on one scenario."""
    fresh = rebuild(sessions, kind, sc.committed)
    forced, want = greedy(sessions, fresh, FORCED)
    in_text: list[LogitRow] | None = None
    for way in WAYS:
        head = {"cache": kind, "way": way.name, "role": way.role, "rebuilt": len(sc.keep)}
        try:
            reached = way.run(sessions, kind, sc)
        except Refused as refusal:
            yield {**head, "refused": str(refusal), "left": _left(sessions, kind, sc, way.run)}
            continue
        attended = sessions.lengths(reached.cache)
        rows = decide(sessions, reached, forced)
        if way.role == "control":
            in_text = rows
        yield {
            **head,
            "retained": reached.before,
            "attended": attended,
            "committed": len(sc.committed),
            **compare(rows, want).as_json(),
            **_beside(rows, in_text),
        }


def served_cells(server: Server, sc: Scenario) -> Iterator[Cell]:
    """All ways of a server on one scenario."""
    fresh = rebuilt(server, sc)
    forced, in_text = fresh.tokens, None
    for way in SERVED:
        answer = way.run(server, sc, forced)
        if way.role == "control":
            in_text = answer.rows
        yield {
            "cache": "prefix",
            "way": way.name,
            "role": way.role,
            "rebuilt": fresh.cached,
            "retained": [answer.cached],
            "common": 0 if way.role in ("control", "twin") else sc.common,
            "committed": len(sc.committed),
            **compare(answer.rows, fresh.rows).as_json(),
            **_beside(answer.rows, in_text),
        }
    server.forget()


def sentences(
    sessions: Sessions, kind: str, sc: Scenario, way: Callable[[Sessions, str, Scenario], Reached]
) -> tuple[list[int], list[int]]:
    """What the model goes on to say on the retained cache, and on the rebuilt one."""
    said, _ = greedy(sessions, way(sessions, kind, sc), SENTENCE)
    meant, _ = greedy(sessions, rebuild(sessions, kind, sc.committed), SENTENCE)
    return said, meant


class _Watched:
    """Sessions that remember the last cache they made, to look at it after a refusal."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.last: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sessions, name)

    def new(self, kind: str) -> Any:
        self.last = self._sessions.new(kind)
        return self.last


def _left(
    sessions: Sessions, kind: str, sc: Scenario, run: Callable[[Sessions, str, Scenario], Reached]
) -> list[int]:
    """What each layer holds after a refusal: unequal where it came half-way."""
    watched = _Watched(sessions)
    try:
        run(watched, kind, sc)
    except Refused:
        return sessions.lengths(watched.last)
    return []


def _beside(rows: Sequence[LogitRow], in_text: Sequence[LogitRow] | None) -> dict[str, str]:
    """How far the run is from one in which the branch stands in the text."""
    if in_text is None:
        return {}
    return {"from_text": decimal(compare(rows, in_text).most)}
