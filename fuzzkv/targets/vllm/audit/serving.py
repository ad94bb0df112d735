"""The audit of a server with a content-addressed prefix cache: what becomes of an aborted branch's blocks.

A server has no handle on a session: each request brings its whole transcript, and blocks are reused by what
they hold. ``Server`` is what the audit needs of one; tests plant faulty ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fuzzkv.targets.vllm.audit.compare import LogitRow
from fuzzkv.targets.vllm.audit.scenarios import Scenario
from fuzzkv.targets.vllm.audit.ways import FORCED, Role

LONG: Final = 64
"""Tokens that a request has to generate if it is to outlive the one beside it."""
SOME: Final = 4
"""Steps that a branch's request needs to get beyond its prompt."""


@dataclass(frozen=True)
class ServedAnswer:
    """A finished request: its tokens, the logits that each was chosen from, and how much of its prompt came from
    the cache."""

    tokens: tuple[int, ...]
    rows: list[LogitRow]
    cached: int


class Server(Protocol):
    """One engine. Requests decode greedily, or the tokens that they are forced to."""

    def ask(self, prompt: Sequence[int], count: int, force: Sequence[int] = ()) -> ServedAnswer:
        """One request, run to its end, beside whatever else is running."""

    def begin(self, prompt: Sequence[int], force: Sequence[int]) -> Any:
        """Start a request that is forced to these tokens."""

    def advance(self, steps: int) -> None:
        """Run so many engine steps."""

    def abort(self, request: Any) -> None:
        """Abort a request, wherever it is."""

    def finish(self) -> None:
        """Run until no request is left."""

    def forget(self) -> None:
        """Empty the prefix cache. No request may be running."""


@dataclass(frozen=True)
class ServedWay:
    """What happens to the branch's request before the committed prompt comes. ``run`` returns the answer to it."""

    name: str
    role: Role
    run: Callable[[Server, Scenario, Sequence[int]], ServedAnswer]


def rebuilt(server: Server, sc: Scenario) -> ServedAnswer:
    """The committed prompt on an empty cache: the tokens that it decides are forced on all other runs."""
    server.forget()
    return server.ask(sc.committed, FORCED + 1)


def _ask(server: Server, prompt: Sequence[int], forced: Sequence[int]) -> ServedAnswer:
    return server.ask(prompt, len(forced), forced)


def _session(server: Server, sc: Scenario) -> None:
    """The turn before: the committed part, its end generated."""
    server.forget()
    half = len(sc.keep) - max(1, len(sc.keep) // 8)
    _ask(server, sc.keep[:half], sc.keep[half:])


def _begin_branch(server: Server, sc: Scenario, more: int = 0) -> Any:
    """The branch's request: half of it is in the prompt, the other half is generated, and ``more`` after it."""
    read = 0 if sc.stepwise else len(sc.branch) // 2
    generated = (*sc.branch[read:], *(sc.branch * more)[:more])
    return server.begin((*sc.keep, *sc.branch[:read]), generated)


def _finished(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    _session(server, sc)
    _begin_branch(server, sc)
    server.finish()
    return _ask(server, sc.committed, forced)


def _aborted_reading(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    """Aborted after one step: its prompt was read in part where it was long."""
    _session(server, sc)
    request = server.begin((*sc.keep, *sc.branch), sc.branch)
    server.advance(1)
    server.abort(request)
    return _ask(server, sc.committed, forced)


def _aborted_writing(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    _session(server, sc)
    request = _begin_branch(server, sc, LONG)
    server.advance(SOME + len(sc.branch))
    server.abort(request)
    return _ask(server, sc.committed, forced)


def _alive(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    _session(server, sc)
    request = _begin_branch(server, sc, LONG)
    server.advance(SOME + len(sc.branch) // 2)
    answer = _ask(server, sc.committed, forced)
    server.abort(request)
    server.finish()
    return answer


def _beside(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    """Rebuilt while another request takes a part of each step, so the prompt is computed in other chunks."""
    server.forget()
    other = tuple(reversed(sc.committed))
    request = server.begin(other[: len(other) // 2 + 5], other[:LONG])
    answer = _ask(server, sc.committed, forced)
    server.abort(request)
    server.finish()
    return answer


def _in_text(server: Server, sc: Scenario, forced: Sequence[int]) -> ServedAnswer:
    server.forget()
    return _ask(server, (*sc.keep, *sc.branch, *sc.step), forced)


SERVED: Final[tuple[ServedWay, ...]] = (
    ServedWay("rebuilt, beside a request", "twin", _beside),
    ServedWay("branch in the text", "control", _in_text),
    ServedWay("branch finished", "safe", _finished),
    ServedWay("branch aborted while read", "safe", _aborted_reading),
    ServedWay("branch aborted while written", "safe", _aborted_writing),
    ServedWay("branch still running", "safe", _alive),
)
"""All ways."""
