"""What a run on a live engine gave: plain data. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LiveViolation:
    """One rule that was broken: ``invariant`` (``I11``), ``what`` (a short machine word: ``foreign``, ``leak``, ``stuck``), the event
    and engine step it was seen after, the request and page it concerns (-1: none), and a sentence."""

    invariant: str
    what: str
    event: int
    step: int
    request: int
    page: int
    text: str


@dataclass(frozen=True)
class LiveHistory:
    """``tokens`` a request (-1 at the end if aborted), ``margins`` the logit gap of best and second at each token, ``log`` the
    page-event log (no times, no ids that vary between runs), ``counters``, ``violations``, engine ``steps``."""

    tokens: tuple[tuple[int, ...], ...]
    margins: tuple[tuple[float, ...], ...]
    log: tuple[tuple[int | str, ...], ...]
    counters: Mapping[str, int]
    violations: tuple[LiveViolation, ...]
    steps: int
