"""The page-event log of a live run, row by row: who did it, at which event of the schedule, and what it says.

``fuzzkv/targets/vllm/engine/page_log.py`` lists the rows.  The log has a row for every step, arrival, abort and reset, which
places it in the schedule; a transfer that an event of the schedule ends is counted to the event before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fuzzkv.core.glossary import counted, joined

COUNTED_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "offer": ("stores",),
    "drop": ("stores",),
    "ready": ("stores",),
    "lost": ("stores",),
    "store+": ("stores",),
    "claim": ("loads",),
    "release": ("loads",),
    "load+": ("loads",),
    **{f"store{sign}": ("stores",) for sign in "-!~="},
    **{f"load{sign}": ("loads",) for sign in "-!~="},
    "hit": ("hits", "publish"),
    "publish": ("publish", "hits"),
    "evict": ("publish", "hits"),
    "preempt": ("preemptions",),
    "window": ("window_frees",),
}
"""The counters by which a row's policy is known: the one whose acting they prove.  ``window`` is a ``free`` of a request that
goes on."""
MARKS: Final = ("step", "arrive", "abort", "reset")


@dataclass(frozen=True)
class PageRow:
    """One row: its number in the log, its name (``window`` for a ``free`` of a request that goes on), its numbers, the event of
    the schedule, the engine step that was last begun (-1: none), and the policy whose act it is.
    """

    number: int
    what: str
    numbers: tuple[int, ...]
    event: int
    step: int
    actor: str

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Device block and host page of a transfer that begins."""
        return tuple(zip(self.numbers[1::2], self.numbers[2::2], strict=True))


def rows_of(
    log: Sequence[Sequence[int | str]],
    schedule: Sequence[Sequence[int | str]],
    exercised: Mapping[str, Sequence[str]],
) -> list[PageRow]:
    """The rows of a log; ``exercised`` has for each policy the counters that prove that it acted."""
    windows, events = _windows(log), _events(log, schedule)
    found, step = [], -1
    for number, (what, *numbers) in enumerate(log):
        name = "window" if number in windows else str(what)
        if name == "step":
            step = int(numbers[0])
        owners = [p for p, counters in exercised.items() if set(counters) & set(COUNTED_AS.get(name, ()))]
        actor = owners[0] if len(owners) == 1 else ""
        found.append(PageRow(number, name, tuple(int(n) for n in numbers), events[number], step, actor))
    return found


def _windows(log: Sequence[Sequence[int | str]]) -> set[int]:
    """The rows that free blocks of a request that goes on: it still holds some, or gives back the rest right after."""
    held: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    found, number = set(), 0
    while number < len(log):
        what, *numbers = log[number]
        request = int(numbers[0]) if numbers else -1
        if what in ("alloc", "hit"):
            held.setdefault(request, []).extend(int(n) for n in numbers[1:])
            if what == "alloc" and request not in groups:
                groups[request] = _run(log, number, "alloc", request)
        elif what == "free" and request >= 0:
            length = _run(log, number, "free", request)
            for row in log[number : number + length]:
                for block in row[1:]:
                    if block in held.get(request, []):
                        held[request].remove(int(block))
            preempted = number > 0 and list(log[number - 1]) == ["preempt", request]
            last = length if held.get(request) else length - groups.get(request, length)
            found |= set(range(number, number + (0 if preempted else max(0, last))))
            number += length - 1
        number += 1
    return found


def _run(log: Sequence[Sequence[int | str]], start: int, what: str, request: int) -> int:
    end = start
    while end < len(log) and log[end][0] == what and log[end][1] == request:
        end += 1
    return end - start


def _events(log: Sequence[Sequence[int | str]], schedule: Sequence[Sequence[int | str]]) -> list[int]:
    """The event of the schedule at which each row was logged; after the last one, how many there are."""
    marks = [n for n, row in enumerate(log) if row[0] in MARKS]
    at: dict[int, int] = {}
    for event, (op, a, *_) in enumerate(schedule):
        mark = {"fork": "arrive"}.get(str(op), str(op))
        for _ in range(int(a) if op == "step" else 1):
            if not marks or log[marks[0]][0] != mark:
                break
            at[marks.pop(0)] = event
    found, now = [], 0
    rest = marks[0] if marks else len(log)
    for n in range(len(log)):
        now = len(schedule) if n >= rest else at.get(n, now)
        found.append(now)
    return found


def said(row: PageRow) -> str:
    """A row as a sentence without its full stop."""
    first, rest = (row.numbers[0] if row.numbers else -1), row.numbers[1:]
    kind, whose = row.what[:-1], f"request {first}"
    sentence = {
        "step": f"engine step {first} begins",
        "arrive": f"{whose} arrives",
        "abort": f"{whose} is aborted",
        "finish": f"{whose} has all its tokens",
        "preempt": f"preempts {whose}" if row.actor else f"{whose} is preempted",
        "alloc": f"{whose} gets {_blocks(rest)}",
        "hit": f"{whose} shares cached {_blocks(rest)}",
        "free": f"{whose} gives back {_blocks(rest)}" if first >= 0 else f"{_blocks(rest)} come free",
        "window": f"gives back {_blocks(rest)} of {whose}, which goes on"
        if row.actor
        else f"{whose} gives back {_blocks(rest)} and goes on",
        "publish": f"enters block {first} in the prefix cache under key {rest[0] if rest else ''}",
        "evict": f"takes block {first} out of the prefix cache",
        "offer": f"will store {_keys(rest)} of {whose}",
        "drop": f"evicts {_keys(row.numbers)} from the host tier",
        "ready": f"can serve {_keys(row.numbers)} now",
        "lost": f"has lost {_keys(row.numbers)}: the store failed",
        "claim": f"will load {_keys(rest)} for {whose}",
        "release": f"has loaded {_keys(row.numbers)}",
    }
    if row.what == "reset":
        also = ", the connector's cache with it" if first else ""
        outcome = "" if rest and rest[0] else "; it answers that it didn't work"
        text = f"the prefix cache is to be reset{also}{outcome}"
    elif row.what in ("store+", "load+"):
        pairs = row.pairs
        device, host = _blocks([d for d, _ in pairs]), _numbered("host page", [h for _, h in pairs])
        text = (
            f"begins {kind} {first}, {device} to {host}"
            if kind == "store"
            else f"begins load {first}, {host} to {device}"
        )
    elif kind in ("store", "load"):
        ends = {
            "-": "has moved its bytes",
            "!": "fails",
            "~": "ends half done",
            "=": "is known to have ended",
        }
        text = f"{kind} {first} {ends[row.what[-1]]}"
    else:
        text = sentence.get(row.what, f"{row.what} {' '.join(map(str, row.numbers))}".strip())
    return (
        f"{row.actor} {text}"
        if row.actor and not text.startswith(("request", "store", "load", "block"))
        else text
    )


def _blocks(numbers: Sequence[int]) -> str:
    return _numbered("block", numbers)


def _keys(numbers: Sequence[int]) -> str:
    return _numbered("key", numbers)


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    if len(numbers) > 6:
        return f"{counted(len(numbers), noun)} ({numbers[0]} ... {numbers[-1]})"
    return f"{noun}{'' if len(numbers) == 1 else 's'} {joined([str(n) for n in numbers])}"
