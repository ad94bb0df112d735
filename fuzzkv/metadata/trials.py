"""Runs that record what a policy observed before each act, and in which single acts can be refused.

An *act* is one call of a primitive by a policy's rule.  A run is made by the machine's Python interpreter; where calls have to be
heard or refused, the rule is read from the same source with the primitives that it calls bound to listening ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Literal

from fuzzkv.metadata.fields import FIELD_NAMES, Observer, View
from fuzzkv.semantics.layout import COLUMNS, NINV, NP, NR
from fuzzkv.semantics.ops.registry import OPERATIONS
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ACT, STEP, TICK, Config, Event
from fuzzkv.simulator.interpreters import begin, python_apply
from fuzzkv.simulator.start import first_state

_OBSERVERS = tuple(Observer(k) for k in range(4))
_NAME = {function: name for name, function in OPERATIONS.items()}
_PAGEWISE = frozenset(name for f, name in _NAME.items() if f.__code__.co_varnames[3:4] == ("p",))
_V_COUNT, _EVENT = COLUMNS["V_COUNT"], COLUMNS["EVENT"]

CallFate = Literal["let", "refuse", "pretend"] | tuple[int, ...]
"""What becomes of a call: it goes through, it is refused, the rule is told that it ran though it didn't, or it goes through with
other arguments.
"""
Hear = Callable[[Any, int, str, tuple[int, ...]], CallFate]
"""``hear(state, slot, primitive, arguments)`` before a call."""


@dataclass(frozen=True)
class Setting:
    """The constants of all traces of a composition: the machine's configuration and the policies, slot by slot.

    ``altered`` has, by slot, policies that stand in for those (``metadata.neighbours``).
    """

    config: Config
    policies: tuple[Policy, ...]
    altered: Mapping[int, Policy] = field(default_factory=dict)

    @property
    def full(self) -> int:
        """The mask of the whole set."""
        return (1 << len(self.policies)) - 1


@dataclass(frozen=True)
class Trace:
    """A schedule and, at its end, one act: the ``ordinal``-th call of a primitive by the policy in ``slot`` in the last
    event.
    """

    events: tuple[Event, ...]
    slot: int
    ordinal: int


@dataclass(frozen=True)
class Call:
    """One call that a rule made: primitive, arguments, whether it ran, and what its policy saw before it.

    One without a name stands for the moment at which the policy was called upon.
    """

    event: int
    slot: int
    primitive: str
    arguments: tuple[int, ...]
    ran: bool
    view: View

    def about(self, page: int) -> bool:
        """Whether it may be about a page: of its arguments the first is a page, a session or nothing of the kind."""
        return not self.arguments or self.arguments[0] == page or self.primitive not in _PAGEWISE


def _unheard(ran: bool) -> None:
    """Nobody is told what came of a call."""


def listening(policy: Policy, hear: Hear, heard: Callable[[bool], None] = _unheard) -> Policy:
    """The same policy with each call of a primitive told to ``hear`` before and to ``heard`` after it.

    What a rule in ordinary Python does through ``Cache`` isn't heard.
    """
    bound: dict[FunctionType, FunctionType] = {}

    def wrapped(name: str, primitive: Callable[..., Any]) -> Callable[..., bool]:
        def call(s: Any, g: Any, k: int, *arguments: int) -> bool:
            if not g:
                return False
            answer = hear(s, k, name, arguments)
            ran = answer == "pretend"
            if answer not in ("refuse", "pretend"):
                ran = bool(primitive(s, True, k, *(arguments if answer == "let" else answer)))
            heard(ran)
            return ran

        return call

    wrappers = {function: wrapped(name, function) for function, name in _NAME.items()}

    def text(function: FunctionType) -> FunctionType:
        if function in bound:
            return bound[function]
        space = dict(function.__globals__)
        found = FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, function.__closure__
        )
        found.__kwdefaults__ = function.__kwdefaults__
        found.__dict__.update(function.__dict__)
        bound[function] = found
        for name in function.__code__.co_names:
            value = space.get(name)
            if isinstance(value, FunctionType):
                if value in wrappers:
                    space[name] = wrappers[value]
                elif not value.__module__.startswith("fuzzkv.semantics."):
                    space[name] = text(value)
        return found

    rule: Any = policy.rule
    return replace(policy, rule=text(rule), free=True)


class Run:
    """A run of a schedule, event by event, on the machine; ``calls`` are those of the slots that are listened to.

    ``refuse`` names one call that is refused; ``last`` one after which its policy does no more in that event.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        listen: Sequence[int] = (),
        refuse: Trace | None = None,
        last: Trace | None = None,
    ) -> None:
        self.setting, self.calls = setting, list[Call]()
        self._last = last
        self.state = first_state(setting.config, setting.policies)
        self._refuse = refuse
        self._ordinals: dict[tuple[int, int], int] = {}
        self._before: tuple[int, int, str, tuple[int, ...], View] | None = None
        # Altered and listening rules are new functions each time: they are called from here, and the reader never meets them.
        self._apply = python_apply(setting.policies)
        self._rules = {k: policy.rule for k, policy in setting.altered.items()}
        self._listened = frozenset([*listen, *(trace.slot for trace in (refuse, last) if trace)])
        for k in self._listened:
            policy = setting.altered.get(k, setting.policies[k])
            self._rules[k] = listening(policy, self._hear, self._heard).rule

    def _hear(self, s: Any, k: int, name: str, arguments: tuple[int, ...]) -> CallFate:
        event = s[_EVENT]
        number = self._ordinals.get((event, k), 0)
        self._ordinals[event, k] = number + 1
        self._before = (event, k, name, arguments, _OBSERVERS[k].look(s))
        return "refuse" if self._refused(event, k, number) else "let"

    def _refused(self, event: int, k: int, number: int) -> bool:
        one, last = self._refuse, self._last
        if one is not None and (event, k, number) == (len(one.events) - 1, one.slot, one.ordinal):
            return True
        return last is not None and (event, k) == (len(last.events) - 1, last.slot) and number > last.ordinal

    def _heard(self, ran: bool) -> None:
        assert self._before is not None
        event, k, name, arguments, view = self._before
        self.calls.append(Call(event, k, name, arguments, ran, view))

    def go(self, events: Iterable[Event], mask: int, *, start: int = 0) -> Run:
        """Run some events for the policies of a mask; ``start`` is the number of the first."""
        s, apply, rules = self.state, self._apply, self._rules
        if start == 0:
            begin(self.setting.policies, mask)
        for e, (op, a, b) in enumerate(events, start):
            s[_EVENT] = e
            if op == ACT and mask >> a & 1 and a in rules:
                if a in self._listened:
                    # It may remember what it sees now, whether it does something or not.
                    self.calls.append(Call(e, a, "", (), False, _OBSERVERS[a].look(s)))
                rules[a](s, a)
            elif op != ACT or mask >> a & 1:
                apply(s, op, a, b, mask)
        return self


def broken(s: Sequence[int]) -> frozenset[str]:
    """The invariants that are broken in a state."""
    if not any(s[_V_COUNT : _V_COUNT + NINV]):
        return frozenset()
    return frozenset(f"I{i}" for i in range(1, NINV) if s[_V_COUNT + i])


def audits(s: Sequence[int]) -> list[list[Event]]:
    """Ways to go on with the workload alone: at once a step that asks about each page of each open session, and all of
    them after the link has come to rest.
    """
    owned = COLUMNS["OWNED"]
    steps: list[Event] = [(STEP, p // (NP // NR), p % (NP // NR)) for p in range(NP) if s[owned + p]]
    return [*([step] for step in steps), [(TICK, 24, 0), *steps]]


def clean_after(setting: Setting, s: Sequence[int]) -> bool:
    """Whether nothing is broken, and nothing will be whatever is asked next, if no policy acts any more."""
    if broken(s):
        return False
    apply = python_apply(setting.policies)
    for way in audits(s):
        later = list(s)
        for op, a, b in way:
            apply(later, op, a, b, 0)
        if broken(later):
            return False
    return True


def differing(one: Sequence[Call], other: Sequence[Call]) -> frozenset[str] | None:
    """The fields in which two sequences of calls differ before some call; ``None`` if the policy could tell them apart by
    what is private: another call, another result, another private view.
    """
    if len(one) != len(other):
        return None
    found: set[str] = set()
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        same = (a.primitive, a.arguments) == (b.primitive, b.arguments) and a.view[0] == b.view[0]
        # What came of the act in question itself is known afterwards only.
        if not same or (a.ran != b.ran and i < len(one) - 1):
            return None
        found |= {name for name, x, y in zip(FIELD_NAMES, a.view[1], b.view[1], strict=True) if x != y}
    return frozenset(found)
