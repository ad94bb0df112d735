"""The exhaustive search finds what trying every schedule finds, and merges only states whose futures are the same."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzkv.contract.facts import hosted
from fuzzkv.contract.layout import COLUMNS, SIZES
from fuzzkv.contract.policy import Policy, Rule
from fuzzkv.contract.primitives import begin_load, begin_store, drop_device, promise, quantise
from fuzzkv.contract.schedule import ACT, ARRIVE, FINISH, STEP, TICK, Config, Event
from fuzzkv.contract.vocabulary import *
from fuzzkv.errors import UsageError
from fuzzkv.machine import fingerprint, nodes
from fuzzkv.machine.callbacks import Rules
from fuzzkv.machine.columns import columns_of
from fuzzkv.machine.core import core_texts
from fuzzkv.machine.explored import BYTES, LEAST, RESERVE, Explored, store_size
from fuzzkv.machine.explorer import Explorer, module
from fuzzkv.machine.outcome import ending
from fuzzkv.machine.readers import python_apply
from fuzzkv.machine.scope import Scope, default_ticks, form_of
from fuzzkv.machine.start import first_state
from fuzzkv.oracles.verdict import Kind, findings, smallest_failing
from fuzzkv.policies.registry import resolve

MEMORY = RESERVE + LEAST


def promises(s: State, k: Int) -> None:
    """Quotes the first page as exact."""
    promise(s, True, k, 0)


def stores(s: State, k: Int) -> None:
    """Copies the first page to the host, and back over what has become of it."""
    begin_store(s, True, k, 0)
    begin_load(s, True, k, 0)


def gives_up(s: State, k: Int) -> None:
    """Gives up the device copy of the first page."""
    drop_device(s, True, k, 0)


def shrinks(s: State, k: Int) -> None:
    """Rewrites the first page, and remembers that it did when it sees a host copy."""
    quantise(s, True, k, 0, INT4)
    put_if(s, hosted(s, 0), MARK, k * NP, 1)


def watches_the_clock(s: State, k: Int) -> None:
    """Acts only while the run is young."""
    promise(s, get(s, NOW, 0) < 9, k, 0)


def _policy(name: str, rule: Rule) -> Policy:
    return replace(resolve(["evict"])[0], name=name, rule=rule, parameters={})


TINY = tuple(
    _policy(name, rule)
    for name, rule in (
        ("stores", stores),
        ("shrinks", shrinks),
        ("promises", promises),
        ("gives-up", gives_up),
    )
)


def every_class(
    policies: tuple[Policy, ...], mask: int, scope: Scope, config: Config, depth: int
) -> dict[Kind, int]:
    """The classes of one set and their shortest lengths, from trying every schedule in the Python reader."""
    names = tuple(policy.name for policy in policies)
    arms = [sub for sub in range(mask + 1) if sub & mask == sub]
    apply = python_apply(policies)
    found: dict[Kind, int] = {}

    def go(states: dict[int, list[int]], used: list[int], length: int) -> None:
        for op, a, b in scope.events(mask, config.page_cost):
            then = np.array(used)
            if length == depth or not nodes.spend(np.array(used), then, scope.limits, op, a):
                continue
            after = {arm: list(state) for arm, state in states.items()}
            for arm, state in after.items():
                if op != ACT or arm >> a & 1:
                    apply(state, op, a, b, arm)
            if not any(any(state[V_COUNT : V_COUNT + NINV]) for state in after.values()):
                go(after, then.tolist(), length + 1)
                continue
            outcomes = {arm: ending(state, names) for arm, state in after.items()}
            if mask in smallest_failing(outcomes):
                for finding in findings(outcomes, mask):
                    if not finding.consequence:
                        found[finding.kind] = min(length + 1, found.get(finding.kind, 99))

    first = first_state(config, policies)
    go(dict.fromkeys(arms, first), [0] * (nodes.U_STEPS + NR), 0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "depth"),
    [
        (Scope(pages=1, requests=1, sessions=1, steps=2, ticks=1, tick_sizes=(8,)), 5),
        (Scope(pages=2, requests=2, sessions=2, steps=1, ticks=1, tick_sizes=(8,), faults=1), 3),
    ],
    ids=["one session", "two sessions and faults"],
)
def test_it_finds_what_trying_every_schedule_finds(scope: Scope, depth: int) -> None:
    policies, config = TINY[:3], Config(device_frames=3, host_frames=2)
    explorer = Explorer(policies, config, scope, memory=MEMORY)
    safe: set[int] = set()
    kinds = 0
    for mask in sorted(range(1 << len(policies)), key=lambda mask: (mask.bit_count(), mask)):
        wanted = every_class(policies, mask, scope, config, depth)
        shown = explorer.explore(mask, safe=safe, depth=depth)
        assert shown.relative
        assert {
            Kind(w.mask, w.invariant, w.actor, w.primitive): len(w.events) for w in shown.witnesses
        } == wanted
        if not wanted:
            safe.add(mask)
        kinds += len(wanted)
    assert kinds >= 2 and safe


def test_a_policy_that_fails_alone_hides_no_conflict() -> None:
    # Alone, 'gives-up' loses a page that a reader then asks for; with 'promises' it breaks the promise at once.
    policies = (TINY[2], TINY[3])
    explorer = Explorer(
        policies, Config(), Scope(pages=1, requests=1, sessions=1, steps=1, ticks=0), memory=MEMORY
    )
    alone = explorer.explore(2, safe={0})
    assert [(w.invariant, w.primitive, len(w.events)) for w in alone.witnesses] == [("I1", "read", 3)]
    pair = explorer.explore(3, safe={0, 1})
    assert pair.ending == "exhausted" and pair.acted == 3
    assert [(w.invariant, w.actor, w.events) for w in pair.witnesses] == [
        ("I1", "gives-up", ((ARRIVE, 0, 1), (ACT, 0, 0), (ACT, 1, 0))),
        ("I12", "promises", ((ARRIVE, 0, 1), (ACT, 1, 0), (ACT, 0, 0))),
    ]


@pytest.fixture(scope="module")
def pair() -> Explorer:
    """offload and quant in a small scope."""
    policies, config = resolve(["offload", "quant"]), Config()
    scope = Scope(
        pages=2, requests=1, sessions=1, steps=2, ticks=2, tick_sizes=default_ticks(policies, config)
    )
    return Explorer(policies, config, scope, memory=MEMORY)


def test_the_same_search_gives_the_same_result(pair: Explorer) -> None:
    heard: list[int] = []
    one = pair.explore(2, tell=lambda explored: heard.append(explored.depth))
    other = pair.explore(2)
    assert replace(one, seconds=0.0) == replace(other, seconds=0.0)
    assert one.ending == "exhausted" and one.relative and heard == sorted(heard) and heard[-1] == one.depth
    assert one.states == 1 + one.children - one.merged


@pytest.mark.slow
def test_bounds_end_it(pair: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    shallow = pair.explore(3, depth=4)
    assert (shallow.ending, shallow.depth) == ("depth", 4)
    assert pair.explore(3, seconds=0.0).ending == "time"
    monkeypatch.setattr(pair, "capacity", 3_000)
    small = pair.explore(3)
    assert small.ending == "memory" and 2_900 < small.states <= small.capacity == 3_000


def test_an_interrupt_keeps_what_was_found(pair: Explorer) -> None:
    def stop(explored: Explored) -> None:
        if explored.depth == 5:
            raise KeyboardInterrupt

    broken = pair.explore(3, tell=stop)
    assert broken.ending == "interrupted" and broken.depth == 5 and broken.states > 100


@given(st.integers(MEMORY, 1 << 36))
def test_the_store_fits_the_memory(memory: int) -> None:
    count, table = store_size(memory)
    assert count * BYTES + 4 * table <= memory - RESERVE
    assert count <= 0.75 * table and table & (table - 1) == 0
    # At least half of what is there is used for something, up to the number that a parent can have.
    assert count * (BYTES + 4 * 4) * 2 > min(memory - RESERVE, 2**31)


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="FKV030"):
        store_size(MEMORY - 1)


def test_a_rule_that_looks_at_absolute_time_is_taken_exactly() -> None:
    policies = (_policy("watches", watches_the_clock),)
    scope = Scope(pages=1, requests=1, sessions=1, steps=1, ticks=2)
    explored = Explorer(policies, Config(), scope, memory=MEMORY).explore(1)
    assert not explored.relative and explored.ending == "exhausted" and explored.acted == 1


def test_free_policies_are_refused() -> None:
    free = replace(TINY[0], free=True)
    with pytest.raises(UsageError, match="FKV038"):
        Explorer((free,), Config(), Scope(), memory=MEMORY)


@pytest.mark.parametrize("wrong", [{"pages": 9}, {"requests": 3}, {"tick_sizes": (33,)}, {"steps": -1}])
def test_a_scope_is_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="FKV030"):
        Scope(**wrong)  # type: ignore[arg-type]


# What is merged.

DEFAULTS = resolve(["offload", "quant", "evict"])
CONFIG = Config(device_frames=10, host_frames=8)
WIDE = Scope(pages=6, requests=2, sessions=9, faults=9, tick_sizes=(3, 8, 12))
FORM, PLACES = form_of(DEFAULTS, 7, CONFIG, WIDE, exact=False)
EVENTS = WIDE.events(7, CONFIG.page_cost)
histories = st.lists(st.sampled_from(EVENTS), max_size=40).map(lambda e: [(ARRIVE, 0, 6), *e])


FRAMES = {
    device: [name for name, size in SIZES.items() if name.startswith(letter) and size == count]
    for device, letter, count in ((True, "D_", ND), (False, "H_", NH))
}
"""The columns of frames, on the device and on the host."""
_RAW = {COLUMNS[name] + i for names in FRAMES.values() for name in names for i in range(SIZES[name])}
NAMELESS = np.array([place for place in PLACES if place not in _RAW], dtype=np.int64)
"""Without columns of frames that are taken as they are."""


def look(state: np.ndarray, places: np.ndarray = PLACES) -> tuple[int, ...]:
    """The fingerprint of a state of the whole set, and who has acted."""
    mark = np.zeros(2, dtype=np.uint64)
    did = module().imprint(state, 7, FORM, places, mark)
    return int(mark[0]), int(mark[1]), int(did)


def begin() -> np.ndarray:
    """The first state of an exploration."""
    state = np.array(first_state(CONFIG, DEFAULTS), dtype=np.int64)
    state[fingerprint._NOW] = fingerprint.BASE
    return state


@pytest.fixture(scope="module")
def row() -> np.ndarray:
    """The addresses of the default rules."""
    return np.asarray(Rules(DEFAULTS, ()).row)


def play(state: np.ndarray, events: list[Event], row: np.ndarray) -> np.ndarray:
    """Run events for the whole set."""
    for op, a, b in events:
        module().apply(state, op, a, b, 7, row)
    return state


@settings(max_examples=60, deadline=None)
@given(histories, st.randoms(use_true_random=False), st.lists(st.sampled_from(EVENTS), max_size=20))
def test_frames_go_by_other_names(
    row: np.ndarray, before: list[Event], random: object, after: list[Event]
) -> None:
    state = play(begin(), before, row)
    other = state.copy()
    for count, page, device in ((CONFIG.device_frames, DEV, True), (CONFIG.host_frames, HOST, False)):
        order = list(range(1, count))
        random.shuffle(order)  # type: ignore[attr-defined]
        names = [0, *order]
        for p in range(NP):
            if state[page + p] >= 0:
                other[page + p] = names[state[page + p]]
        for f in range(count):
            for name in FRAMES[device]:
                other[COLUMNS[name] + names[f]] = state[COLUMNS[name] + f]
        for j in range(NJ):
            end = J_SRC if (state[J_KIND + j] == STORE) == device else J_DST
            if state[J_KIND + j] in (STORE, LOAD):
                other[end + j] = names[state[end + j]]
    if not module().failed(state):
        assert look(state, NAMELESS) == look(other, NAMELESS)
        for event in after:
            play(state, [event], row)
            play(other, [event], row)
            assert module().failed(state) == module().failed(other)
            if module().failed(state):
                break
            assert look(state, NAMELESS) == look(other, NAMELESS)


@settings(max_examples=40, deadline=None)
@given(histories, st.integers(0, 1000))
def test_time_is_relative(row: np.ndarray, events: list[Event], wait: int) -> None:
    late = begin()
    late[fingerprint._NOW] += wait
    assert look(play(begin(), events, row)) == look(play(late, events, row))


def test_what_is_over_is_forgotten(row: np.ndarray) -> None:
    busy = [(ARRIVE, 0, 6), (STEP, 0, 1), (TICK, 12, 0), (ACT, 1, 0), (TICK, 8, 0), (FINISH, 0, 0)]
    named = np.zeros(0, dtype=np.int64)
    # Who has acted is all that is known of it afterwards in the columns that are looked at by name.
    once = look(play(begin(), busy, row), named)
    assert once == look(play(begin(), [*busy, *busy], row), named)
    assert once[2] == 2 and look(play(begin(), busy[:1] + busy[-1:], row), named) == look(begin(), named)


@settings(max_examples=60, deadline=None)
@given(
    histories,
    st.sampled_from(
        [
            "ATT",
            "LIFE",
            "SEEN",
            "LAST",
            "GAP",
            "HITS",
            "RELEVANT",
            "EVICTED",
            "PAID",
            "BUSY",
            "DUE",
            "QUOTE",
            "MARK",
        ]
    ),
    st.integers(0, 5),
)
def test_what_counts_makes_a_difference(row: np.ndarray, events: list[Event], column: str, page: int) -> None:
    state = play(begin(), events, row)
    other = state.copy()
    other[COLUMNS[column] + page] += 1
    if state[OWNED + page] == 1 and not module().failed(state):
        assert look(state) != look(other)


@settings(max_examples=100, deadline=None)
@given(histories, st.sampled_from(EVENTS), st.integers(0, 7))
def test_an_event_that_is_not_run_changes_nothing(
    row: np.ndarray, before: list[Event], event: Event, mask: int
) -> None:
    state = play(begin(), before, row)
    op, a, b = event
    if not module().matters(state, mask, FORM, op, a, b):
        after = state.copy()
        module().apply(after, op, a, b, mask, row)
        assert look(state) == look(after)


def test_pages_are_not_exchanged(row: np.ndarray) -> None:
    # Two pages that differ in their hits and nothing else; the rule takes the lower one, whichever that is.
    state = play(begin(), [(ARRIVE, 0, 3), (TICK, 12, 0)], row)
    state[HITS] = 1
    other = state.copy()
    other[HITS], other[HITS + 1] = 0, 1
    for s in (state, other):
        play(s, [(ACT, 1, 0)], row)
    assert state[HOST] >= 0 and other[HOST] >= 0
    assert (state[HITS], other[HITS]) == (1, 0)


def test_sliced_columns_are_read_by_policies_alone() -> None:
    # A column that a new text of the contract reads can't be left out for policies that don't read it themselves.
    # 'carry' copies any column onto itself, page to page; what only rules call counts as read by those rules.
    texts = core_texts()
    readers: dict[str, set[str]] = {name: set() for name in fingerprint.SLICED}
    for name, function in texts.items():
        reads, _ = columns_of([function], apart=texts.keys() - {name})
        for column in reads & readers.keys():
            readers[column] |= {function.__name__} - {"carry"}
    condemning = {"check_evidence", "permit_condemn"}
    assert readers == {
        "R_STEPS": set(),
        "RELEVANT": {"read"},
        "ATT": set(),
        "LIFE": {"read", "step", "certify", "spend", *condemning},
        "SEEN": condemning,
        "LAST": {"step"},
        "GAP": set(),
        "HITS": set(),
    }


def test_columns_of_a_text() -> None:
    reads, writes = columns_of([shrinks], apart=core_texts())
    assert writes == {"MARK"} and reads == {"HOST", "H_FILL"}
    deep, written = columns_of([shrinks])
    assert {"D_PREC", "QUOTE"} <= deep and {"D_PREC", "ACTED", "MARK"} <= written
