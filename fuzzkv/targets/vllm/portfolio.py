"""How a hunt draws live schedules: a portfolio of ways, from one seed.

``uniform``: every event by weight.  ``swarm``: a few of the kinds of events only.  ``bursts``: a few stretches, each with
its own favourite events, because pressure comes in runs.  ``returns`` (with a host tier): a prompt comes again after its
pages have left the device, while transfers are held, and then there is trouble.  ``changed``: small changes of schedules
that reached something new.  Which schedule comes next depends on the seed and on what the ones before reached, never on time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzzkv.strategies.portfolio import Portfolio
from fuzzkv.strategies.space import ScheduleSpace
from fuzzkv.targets.vllm.policies import LivePolicy, compose
from fuzzkv.targets.vllm.schedule import (
    ADAPTERS,
    ARRIVE,
    BOUNDS,
    HOLD,
    LONGEST,
    NEXT,
    RESET,
    STEP,
    Event,
    LiveSchedule,
)
from fuzzkv.targets.vllm.strategy import CHUNKS, MOODS, POOLS, TROUBLE, USUAL, WEIGHTS, live_space


@dataclass(frozen=True)
class Form:
    """What matters to a set of policies: transfers of a host tier, adapters, pools, chunks."""

    tier: bool = True
    adapters: int = 0
    pools: tuple[int, ...] = POOLS
    chunks: tuple[int, ...] = CHUNKS

    @property
    def ops(self) -> tuple[str, ...]:
        """The events that are drawn."""
        return self.space.names

    @property
    def space(self) -> ScheduleSpace[LiveSchedule]:
        """The schedules that are drawn."""
        return live_space(tier=self.tier, adapters=self.adapters)


def form_of(policies: Sequence[LivePolicy]) -> Form:
    """Which events matter to a set."""
    config = compose(policies)
    return Form(tier=config.tier is not None, adapters=min(config.adapters, ADAPTERS))


class EnginePortfolio(Portfolio[LiveSchedule]):
    """Draws schedules of a form.  ``seed`` is any text; the same one draws the same schedules."""

    def __init__(self, form: Form, seed: str) -> None:
        super().__init__(form.space, seed)
        self.form = form

    def draw(self) -> LiveSchedule:
        """The next schedule."""
        ways: list[Callable[[], LiveSchedule]] = [self._uniform, self._swarm, self._bursts, self._bursts]
        if self.form.tier:
            ways.append(self._returns)
        if self.kept:
            ways += [self.changed] * 4
        return self.random.choice(ways)()

    def event(self, ops: Sequence[str]) -> Event:
        """One event of these kinds, by weight."""
        op = self.random.choices(ops, [WEIGHTS[op] for op in ops])[0]
        return self._of(op)

    def _of(self, op: str) -> Event:
        a, b, c = (self.random.randint(low, high) for low, high in BOUNDS[op])
        if op == NEXT:
            b = b % (self.form.adapters + 1)
        if op == ARRIVE and self.random.random() < 0.6:
            a %= 4  # prompts that share a beginning meet more often
        return op, a, b, c

    def _machine(self) -> tuple[int, int]:
        return self.random.choice(self.form.pools), self.random.choice(self.form.chunks)

    def _uniform(self) -> LiveSchedule:
        length = self.random.randint(*USUAL)
        return LiveSchedule(*self._machine(), tuple(self.event(self.form.ops) for _ in range(length)))

    def _swarm(self) -> LiveSchedule:
        others = [op for op in self.form.ops if op not in (STEP, ARRIVE)]
        some = self.random.sample(others, self.random.randint(1, max(1, len(others) // 2)))
        length = self.random.randint(*USUAL)
        return LiveSchedule(*self._machine(), tuple(self.event((STEP, ARRIVE, *some)) for _ in range(length)))

    def _bursts(self) -> LiveSchedule:
        events: list[Event] = []
        for _ in range(self.random.randint(2, 4)):
            mood = [op for op in self.random.choice(MOODS) if op in self.form.ops]
            same = self.random.randrange(8) if self.random.random() < 0.5 else None
            for _ in range(self.random.randint(3, 10)):
                op, a, b, c = self._of(self.random.choice(mood))
                if op == ARRIVE and same is not None:
                    a = same
                events.append((op, a, b, c))
        return LiveSchedule(*self._machine(), tuple(events))

    def _returns(self) -> LiveSchedule:
        rng = self.random
        prompt, size = rng.randrange(8), rng.randint(8, 20)
        leave: list[Event] = [(RESET, 0, 0, 0)]
        if rng.random() < 0.5:
            leave = [self._of(op) for op in (ARRIVE, ARRIVE, STEP, STEP)]
        events: list[Event] = [
            (ARRIVE, prompt, size, rng.randint(1, 4)),
            (STEP, 8, 0, 0),
            *leave,
            (HOLD, 1, 0, 0),
        ]
        again: Event = (ARRIVE, prompt, size + rng.randint(0, 3), rng.randint(1, 8))
        rest = [again, *(self._of(op) for op in (ARRIVE, STEP))]
        if rng.random() < 0.5:
            rest.reverse()
        trouble = [op for op in TROUBLE if op in self.form.ops]
        rest += [self._of(rng.choice(trouble)) for _ in range(rng.randint(3, 12))]
        return LiveSchedule(*self._machine(), (*events, *rest))

    def changed(self) -> LiveSchedule:
        """A small change of a schedule that was kept."""
        base = self.random.choice(self.kept)
        events = list(base.events)
        pool, chunk = base.pool, base.chunk
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randint(0, len(events))
            way = self.random.randrange(7)
            if way == 0:
                pool = self.random.choice(self.form.pools)
            elif way == 1:
                chunk = self.random.choice(self.form.chunks)
            elif way == 2 and events:
                events[at % len(events)] = self.event(self.form.ops)
            elif way == 3 and events:
                at %= len(events)
                del events[at : at + self.random.randint(1, 3)]
            elif way == 4 and events:
                op = events[at % len(events)][0]
                events[at % len(events)] = self._of(op)
            elif way == 5:
                other = self.random.choice(self.kept).events
                cut = self.random.randint(0, len(other))
                events = [*events[:at], *other[cut : cut + self.random.randint(1, 12)], *events[at:]]
            else:
                events.insert(at, self.event(self.form.ops))
        return LiveSchedule(pool, chunk, tuple(events[:LONGEST]))
