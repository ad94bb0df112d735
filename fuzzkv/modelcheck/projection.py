"""The projection under which states of a policy set are compared: what its rules, the events and the contract can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fuzzkv.modelcheck import counters
from fuzzkv.modelcheck import fingerprint as fp
from fuzzkv.modelcheck.by_name import frames_by_name
from fuzzkv.modelcheck.scope import Scope
from fuzzkv.semantics.layout import COLUMNS, NR, PAGES, SIZES
from fuzzkv.semantics.ops.generation import extend
from fuzzkv.semantics.ops.index import expire, publish
from fuzzkv.semantics.ops.rewind import fork
from fuzzkv.semantics.ops.transfers import receive, run_ahead, spill
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, GROW, OPS, QUEUE, Config
from fuzzkv.simulator.bulk.core import core_texts
from fuzzkv.simulator.columns import EVERY, called_by, columns_of
from fuzzkv.simulator.interpreters import text_of
from fuzzkv.simulator.linker import unique_name
from fuzzkv.strategies.covering_arrays import enabled

_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=1)
def _contract() -> frozenset[str]:
    """The names of the functions of the contract."""
    return frozenset(core_texts())


_ENTER = frozenset(unique_name(f) for f in (publish, spill))
"""What brings an entry into the index."""
_LEAVE = frozenset(unique_name(f) for f in (expire, receive, run_ahead))
"""With these something counts that is left in an empty frame: scales, what an entry or a slow peer still names, who wrote it
last.  Then it matters which frame is taken next.
"""


class _Seen:
    """The columns that count for a set: ``own`` are read by its rules themselves, ``deep`` by what they call as well,
    ``changing`` written by them or the events of the scope, ``reads`` read by any of these.
    """

    def __init__(self, rules: Sequence[Callable[..., Any]], codes: Iterable[int]) -> None:
        contract = _contract()
        looked, moved = columns_of([text_of(OPS[code]) for code in codes if code != ACT])
        self.own = _NONE.union(*(columns_of([rule], apart=contract)[0] for rule in rules))
        self.deep = _NONE.union(*(columns_of([rule])[0] for rule in rules))
        self.changing = moved.union(*(columns_of([rule])[1] for rule in rules))
        self.reads = looked | self.deep
        self.called = _NONE.union(*(called_by(rule) for rule in rules))
        self.index = bool(self.called & _ENTER)
        self.by_name = any(frames_by_name(rule, contract) for rule in rules)
        self.sliced = {name for name in counters.SLICED if name in self.deep}
        self.sliced.update(source for name in self.sliced.copy() for source in counters.SLICED[name])

    def counts(self, name: str) -> bool:
        """Whether what is in a column can make a difference."""
        if name in counters.SLICED:
            return name in self.sliced
        if name in counters.REPORTS or name == "ACTED":
            return name in self.own and name in self.changing
        if name.startswith("X_") and not self.index:
            return False
        if name == "D_DMA" and unique_name(run_ahead) not in self.called:
            # Who wrote a frame last is asked only by a step that ran ahead.
            return name in self.own
        return name in self.changing and name in self.reads

    def lists(self) -> tuple[list[str], ...]:
        """The columns of sessions, pages, device and host frames that ``imprint`` takes with what they belong to.

        Of the sessions' and pages' columns only the contract's texts are known to leave alone what is over; those that a
        rule looks at itself are taken as they are.  What the workload keeps up for the rules alone is an exception.
        """
        sessions = ["R_STEPS"] if "R_STEPS" in self.sliced else []
        sessions += [name for name in counters.OF_SESSION if self.counts(name) and name not in self.own]
        pages = [name for name in counters.SLICED if name in self.sliced and name != "R_STEPS"]
        pages += [name for name in counters.OF_PAGE if self.counts(name) and name not in self.own]
        device = [name for name in counters.BESIDE_DEVICE if self.counts(name)]
        return sessions, pages, device, [name for name in counters.BESIDE_HOST if self.counts(name)]

    def places(self, apart: set[str]) -> list[str]:
        """The columns that are taken as they are, without those in ``apart``."""
        plain = [
            name
            for name in COLUMNS
            if self.counts(name) and name not in counters.HANDLED and name not in apart
        ]
        if self.own & set(counters.TAGGED):
            plain += [
                name for name in counters.TAGGED if name == "R_EPOCH" or name in self.own & {"WANT", "R_TEXT"}
            ]
        return plain + ["ACTED"] * ("ACTED" in self.own)


def form_of(
    policies: Sequence[Policy], top: int, config: Config, scope: Scope, *, exact: bool
) -> tuple[Any, Any]:
    """How states of the policies in ``top`` are compared: the array of ``fingerprint.imprint``, and the places that it
    takes as they are.  The events are those that any of the policies asks for.
    """
    rules = [policy.rule for k, policy in enumerate(policies) if top >> k & 1]
    codes = enabled(policies)
    seen = _Seen(rules, codes)
    lists = seen.lists()
    if exact:
        whole = [
            name
            for name in COLUMNS
            if name in seen.changing
            and ((name not in counters.REPORTS and name != "ACTED") or name in seen.own)
        ]
    else:
        whole = seen.places({name for names in lists for name in names} | set(counters.SLICED))
    places = [COLUMNS[name] + i for name in whole for i in range(SIZES[name])]
    # A branch may fill the other place; with text that grows a session may come to any length.
    forks = unique_name(fork) in seen.called
    grows = forks or unique_name(extend) in seen.called or GROW in codes or QUEUE in codes
    form = np.zeros(fp.F_HEAD + sum(len(names) for names in lists), dtype=np.int64)
    form[: fp.F_SESSIONS] = (
        PAGES if grows else scope.pages,
        NR if forks else scope.requests,
        config.device_frames,
        config.host_frames,
        int(exact),
        len(policies),
        int(seen.by_name or bool(seen.called & _LEAVE)),
        int("RELEVANT" in seen.sliced),
        int(seen.index),
        int(seen.deep == EVERY),
    )
    at = fp.F_HEAD
    for head, names in zip(range(fp.F_SESSIONS, fp.F_END), lists, strict=True):
        form[head] = at
        form[at : at + len(names)] = [COLUMNS[name] for name in names]
        at += len(names)
    form[fp.F_END] = at
    return form, np.array(places, dtype=np.int64)
