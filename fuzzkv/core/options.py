"""The options of ``fuzzkv hunt`` as one frozen value, and the parsers of their texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fuzzkv.errors import UsageError

ContractMode = Literal["observe", "enforce"]
CORPUS = Path("corpus")
"""Where a hunt files cases, unless told otherwise: in the working folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntOptions:
    """Options of a hunt.

    ``policies`` in the order given, as names or ``pkg.module:NAME``; ``max_examples`` schedules (None: the
    default budget of the hunt) and ``max_time`` seconds bound the search, not the confirmations;
    ``workers`` processes search, with covering arrays of ``strength`` 2 or 3; the search ends early once the
    estimated chance that its next schedule shows something new, with its sampling error, is below ``stop_risk``;
    before it the solver looks at every schedule of up to ``solver_depth`` events (0: it isn't asked);
    ``contract`` ``enforce`` runs the policies through the contract; ``confirm`` replays what was found on a
    real engine on ``device``, for ``confirm_time`` seconds in all; cases go to ``corpus``, reports to
    ``report_dir``; ``database`` is the folder of Hypothesis' example database, in which schedules that fail are remembered
    where Hypothesis generates them (None: nothing is).
    """

    policies: tuple[str, ...]
    seed: int = 0
    max_examples: int | None = None
    max_time: float | None = None
    workers: int = 1
    strength: int = 2
    stop_risk: float | None = None
    solver_depth: int = 4
    contract: ContractMode = "observe"
    confirm: bool = True
    confirm_time: float = 360.0
    device: str = "cpu"
    corpus: Path = CORPUS
    report_dir: Path | None = None
    database: Path | None = None


def parse_policies(text: str, option: str = "--policies") -> tuple[str, ...]:
    """``"offload, quant"`` to ``("offload", "quant")``. FKV002 for an empty list or a name given twice."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError(
            code="FKV002",
            value=f"{option} {text!r}",
            reason="it names no policy",
            cure="Give at least one, such as offload,quant,evict.",
        )
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                code="FKV002",
                value=f"{option} {text!r}",
                reason=f"{name!r} is named twice",
                cure="Name each policy once.",
            )
    return names


def parse_workers(text: str, available: int) -> int:
    """``"4"`` to 4 and ``"auto"`` to ``available``. FKV030 for anything else, or more than 256."""
    if text.strip() == "auto":
        return available
    if not text.strip().isdigit() or not 1 <= int(text) <= 256:
        raise UsageError(
            code="FKV030",
            value=f"--workers {text!r}",
            reason="it is not a number of processes",
            cure="Give a number from 1 to 256, or auto for one a core.",
        )
    return int(text)


def parse_seconds(text: str, option: str = "--max-time") -> float:
    """``"90"``, ``"90s"``, ``"1.5m"`` or ``"2h"`` to seconds. FKV030 for anything else, or zero."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(
            code="FKV030",
            value=f"{option} {text!r}",
            reason="it is not a positive time",
            cure="Write seconds, or a number with s, m or h, such as 90s or 10m.",
        )
    return seconds
