"""The portfolio of draws: every way is well formed and what it says, plans cover, novelty is remembered."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest

from fuzzkv.errors import UsageError
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import (
    ACT,
    ARRIVE,
    BOUNDS,
    EXTRA,
    FADE,
    FINISH,
    GROW,
    OPS,
    PRESSURE,
    QUEUE,
    STEP,
    TICK,
    Config,
    Event,
)
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.strategies import drawing, novelty
from fuzzkv.strategies.covering_arrays import covered, draws_of, enabled, masks_of
from fuzzkv.strategies.drawing import FRAMES, KINDS, MUTATE, PCT, SET, USUAL, WAY
from tests.broken import CAREFUL, TIDY_FREE, free
from tests.broken import does_nothing as nothing


def asking(*names: str) -> tuple[Policy, Policy]:
    """Two policies of which one asks for these events."""
    return replace(CAREFUL, workload=names), TIDY_FREE


def tables(policies: tuple[Policy, ...], strength: int = 2) -> drawing.Draws:
    return draws_of(policies, masks_of(len(policies), 0), strength)


def draws(policies: tuple[Policy, ...], count: int, seed: int = 1) -> list[tuple[list[int], list[Event]]]:
    """Plans and schedules, drawn in plain Python."""
    given = tables(policies)
    events = np.zeros((drawing.MAX_EVENTS, 3), dtype=np.int64)
    found = []
    with np.errstate(over="ignore"):
        for number in range(count):
            length = drawing.draw(seed, number, given, events)
            chosen = given.chosen.tolist()
            found.append((chosen[: drawing.NFACTORS], [tuple(e) for e in events[:length].tolist()]))
    return found


def well_formed(events: list[Event], slots: int) -> bool:
    return all(
        BOUNDS[op][0] <= a <= (slots - 1 if op == ACT else BOUNDS[op][1])
        and BOUNDS[op][2] <= b <= BOUNDS[op][3]
        for op, a, b in events
    )


def test_only_asked_events_are_drawn_and_all_of_them() -> None:
    plain = {op for _, events in draws(asking(), 150) for op, _, _ in events}
    assert plain == set(range(OPS.index(EXTRA[0])))
    some = {op for _, events in draws(asking("queue", "grow"), 150) for op, _, _ in events}
    assert some == plain | {QUEUE, GROW}
    every = [events for _, events in draws(asking(*EXTRA), 300)]
    assert {op for events in every for op, _, _ in events} == set(range(len(OPS)))
    assert all(well_formed(events, 2) and len(events) == drawing.MAX_EVENTS for events in every)


def test_an_unknown_event_is_told() -> None:
    with pytest.raises(UsageError, match=r"FKV034: careful: 'queeu': .* Did you mean 'queue'"):
        enabled(asking("queeu"))


def test_pressure_is_a_level_of_its_own_from_the_start() -> None:
    pressed: dict[int, list[Event]] = {}
    for chosen, events in draws(asking("pressure"), 200):
        if chosen[WAY] >= USUAL or chosen[FRAMES] > 0:
            pressed.setdefault(chosen[FRAMES], []).append(events[0])
    assert all(first[0] == ARRIVE for first in pressed[0]) and set(pressed) == {0, 1, 2, 3}
    for level, device, host in ((1, True, False), (2, False, True), (3, True, True)):
        assert all((op, a > 0, b > 0) == (PRESSURE, device, host) for op, a, b in pressed[level])


def test_a_length_is_pages_and_a_residue() -> None:
    grown = 0
    for chosen, events in draws(asking("grow", "queue"), 100):
        if chosen[KINDS + GROW] > 0:
            for one, other in pairwise(events):
                grown += one[0] in (ARRIVE, QUEUE) and other[:2] == (GROW, one[1])
    assert grown > 20


def test_the_even_way_draws_all_kinds_alike_acts_often_and_repeats_numbers() -> None:
    policies = asking("queue", "text")
    even = [events for chosen, events in draws(policies, 600) if chosen[WAY] < USUAL]
    counts = Counter(op for events in even for op, _, _ in events)
    total = sum(counts.values())
    assert 0.28 < counts[ACT] / total < 0.38
    # Those of sessions that aren't there become another kind, an opening.
    assert all(counts[op] / total > 0.04 for op in enabled(policies)) and len(even) > 150
    # Uniform numbers alone would meet the same time again less than twice in a schedule.
    same = [
        max(Counter(a for op, a, _ in events if op == TICK).values(), default=0)
        for events in even
        if sum(op == TICK for op, _, _ in events) >= 4
    ]
    assert np.mean(same) > 2


def test_actors_act_in_runs_where_there_are_change_points() -> None:
    def longest(events: list[Event]) -> int:
        return max(len(list(run)) for _, run in groupby(events, key=lambda e: (e[0] == ACT, e[1])))

    runs: dict[bool, list[float]] = {False: [], True: []}
    for chosen, events in draws((CAREFUL, TIDY_FREE), 300):
        if USUAL <= chosen[WAY] < MUTATE:
            runs[chosen[WAY] >= PCT].append(longest(events) / len(events))
    assert np.mean(runs[True]) > 1.3 * np.mean(runs[False])


def test_no_session_is_stepped_that_is_not_there() -> None:
    for _, events in draws((CAREFUL, TIDY_FREE), 100):
        alive: set[int] = set()
        for op, a, _ in events:
            if op in (STEP, FADE, FINISH):
                assert a in alive
            alive = alive | {a} if op == ARRIVE else alive - {a} if op == FINISH else alive


def test_every_cycle_of_plans_covers_and_no_two_are_the_same(defaults: tuple[Policy, ...]) -> None:
    for strength, total in ((2, 12), (3, 4)):
        given = tables(defaults, strength)
        levels, rows = given.levels, given.plans
        plans: list[list[int]] = []
        with np.errstate(over="ignore"):
            for number in range(2 * len(rows)):
                drawing.choose(3, number, given)
                plans.append(given.chosen[: drawing.NFACTORS].tolist())
        cycle = len(plans) // 2
        assert plans[:cycle] != plans[cycle:]
        names = tuple(levels.tolist())
        factors = [f for f, count in enumerate(names) if count > 1][:total]
        for half in (plans[:cycle], plans[cycle:]):
            first, second, third = factors[0], factors[1], factors[-1]
            group = (first, third) if strength == 2 else (first, second, third)
            wanted = int(np.prod([names[f] for f in group]))
            assert len({tuple(plan[f] for f in group) for plan in half}) == wanted
        reached, all_ = covered(names, strength, cycle)
        assert reached == all_ > covered(names, strength, cycle // 2)[0] > 0


def test_sets_are_drawn_by_their_level(compiled: BulkEngine) -> None:
    assert masks_of(3, 0) == (7, 3, 5, 6) and masks_of(1, 0) == (1,) and masks_of(3, 4) == (4,)
    assert compiled.levels[SET] == 4 and compiled.again(seed=1, only=2).levels[SET] == 1


def test_new_states_fill_the_pool_and_changes_of_it_are_drawn() -> None:
    engine = BulkEngine((CAREFUL, TIDY_FREE, free("idle", nothing)), Config(), seed=2)
    engine.search(400)
    tally = engine.tally()
    assert 0 < tally.freely < tally.drawn == 400 and tally.reached > 10
    # The same again, whatever the chunks.
    other = engine.again(seed=2)
    for count in (1, 7, 392):
        other.search(count)
    assert other.tally() == tally
    for found in tally.classes:
        assert well_formed(list(found.events), 3) and found.freely <= found.seen


def test_mutants_are_well_formed_and_new() -> None:
    given = tables((CAREFUL, TIDY_FREE))
    pool = novelty.empty_pool(drawing.MAX_EVENTS)
    kept = set()
    events = np.zeros((drawing.MAX_EVENTS, 3), dtype=np.int64)
    changed = 0
    with np.errstate(over="ignore"):
        for number in range(novelty.POOL + 3):
            length = drawing.draw(4, number, given, events)
            novelty.remember(events, length, pool)
            kept.add(tuple(map(tuple, events[:length].tolist())))
        count = pool.sums[novelty.COUNT]
        assert count == novelty.POOL and pool.sums[novelty.NEXT] == 3
        for number in range(300):
            length = drawing.mutate(number, given, pool.schedules, pool.lengths, count, events)
            drawn = [tuple(e) for e in events[:length].tolist()]
            assert 4 <= length <= drawing.MAX_EVENTS and well_formed(drawn, 2)
            changed += tuple(drawn) not in kept
    assert changed > 250
