"""The exhaustive search finds what trying every schedule finds, and merges only states whose futures are the same."""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzzkv.core.results import FailureClass
from fuzzkv.errors import UsageError
from fuzzkv.modelcheck import counters, fingerprint, nodes
from fuzzkv.modelcheck.by_name import frames_by_name
from fuzzkv.modelcheck.explorer import Explorer, module
from fuzzkv.modelcheck.projection import form_of
from fuzzkv.modelcheck.results import BYTES, LEAST, RESERVE, Explored, store_size
from fuzzkv.modelcheck.scope import Scope, default_ticks, extras_of
from fuzzkv.oracles.conflict import findings, smallest_failing
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.facts import hosted
from fuzzkv.semantics.layout import COLUMNS, SIZES
from fuzzkv.semantics.ops.primitives import begin_load, begin_store, drop_device, promise, quantise
from fuzzkv.semantics.policy import Policy, Rule
from fuzzkv.semantics.schedule import (
    ACT,
    ARRIVE,
    BOUNDS,
    FINISH,
    OPS,
    QUEUE,
    STEP,
    TICK,
    VERIFY,
    Config,
    Event,
)
from fuzzkv.semantics.vocabulary import *
from fuzzkv.simulator.bulk.callbacks import Rules
from fuzzkv.simulator.bulk.core import core_texts
from fuzzkv.simulator.columns import columns_of
from fuzzkv.simulator.interpreters import python_apply
from fuzzkv.simulator.outcome import ending
from fuzzkv.simulator.start import first_state
from tests.field import (
    design_s8,
    lmcache_4991,
    mlxvlm_1715,
    trtllm_11879,
    vllm_46971,
    vllm_48412,
    vllm_50702,
)

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
) -> dict[FailureClass, int]:
    """The classes of one set and their shortest lengths, from trying every schedule in the Python interpreter."""
    names = tuple(policy.name for policy in policies)
    arms = [sub for sub in range(mask + 1) if sub & mask == sub]
    apply = python_apply(policies)
    found: dict[FailureClass, int] = {}

    def go(states: dict[int, list[int]], used: list[int], length: int) -> None:
        for op, a, b in scope.events(mask, config.page_cost, extras_of(policies)):
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
                for finding in findings(outcomes, mask, names):
                    if not finding.consequence:
                        found[finding.failure_class] = min(length + 1, found.get(finding.failure_class, 99))

    first = first_state(config, policies)
    go(dict.fromkeys(arms, first), [0] * nodes.U_SIZE, 0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "scope", "depth"),
    [
        pytest.param(
            TINY[:3],
            Scope(pages=1, requests=1, sessions=1, steps=2, ticks=1, tick_sizes=(8,)),
            5,
            marks=pytest.mark.thorough,
        ),
        (TINY[:3], Scope(pages=1, requests=1, sessions=1, steps=2, ticks=1, tick_sizes=(8,)), 4),
        (TINY[:3], Scope(pages=2, requests=2, sessions=2, steps=1, ticks=1, tick_sizes=(8,), faults=1), 3),
        (design_s8.REPORT.policies, Scope(pages=1, requests=1, sessions=1, steps=1, ticks=0), 5),
    ],
    ids=["one session, deeper", "one session", "two sessions and faults", "text taken back"],
)
def test_it_finds_what_trying_every_schedule_finds(
    policies: tuple[Policy, ...], scope: Scope, depth: int
) -> None:
    config = Config(device_frames=3, host_frames=2)
    explorer = Explorer(policies, config, scope, memory=MEMORY)
    safe: set[int] = set()
    kinds = 0
    for mask in sorted(range(1 << len(policies)), key=lambda mask: (mask.bit_count(), mask)):
        wanted = every_class(policies, mask, scope, config, depth)
        shown = explorer.explore(mask, safe=safe, depth=depth)
        assert shown.relative
        assert {w.failure_class: len(w.events) for w in shown.witnesses} == wanted
        if not wanted:
            safe.add(mask)
        kinds += len(wanted)
    assert kinds >= 1 and safe


def test_a_policy_that_fails_alone_hides_no_conflict() -> None:
    # Alone, 'gives-up' loses a page that a reader then asks for; with 'promises' it breaks the promise at once.
    policies = (TINY[2], TINY[3])
    explorer = Explorer(
        policies, Config(), Scope(pages=1, requests=1, sessions=1, steps=1, ticks=0), memory=MEMORY
    )
    alone = explorer.explore(2, safe={0})
    [witness] = alone.witnesses
    assert witness.failure_class == FailureClass(("gives-up",), "I1", "read") and len(witness.events) == 3
    pair = explorer.explore(3, safe={0, 1})
    assert pair.ending == "exhausted" and pair.acted == 3
    assert [(w.failure_class.invariant, w.failure_class.actor, w.events) for w in pair.witnesses] == [
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


@given(st.integers(MEMORY, 1 << 36), st.sampled_from([nodes.U_EXTRA, nodes.U_SIZE]))
def test_the_store_fits_the_memory(memory: int, counters: int) -> None:
    count, table = store_size(memory, counters)
    assert count * (BYTES + counters) + 4 * table <= memory - RESERVE
    assert count <= 0.75 * table and table & (table - 1) == 0
    # At least half of what is there is used for something, up to the number that a parent can have.
    assert count * (BYTES + counters + 4 * 4) * 2 > min(memory - RESERVE, 2**31)


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


@pytest.mark.parametrize(
    "wrong", [{"pages": 9}, {"requests": 3}, {"tick_sizes": (33,)}, {"steps": -1}, {"extra": 100}]
)
def test_a_scope_is_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="FKV030"):
        Scope(**wrong)  # type: ignore[arg-type]


def test_what_policies_ask_for_is_counted() -> None:
    scope = Scope(pages=2, requests=1, sessions=1, steps=1, ticks=0, extra=2)
    codes = extras_of(vllm_46971.REPORT.policies)
    assert codes == (VERIFY,) and extras_of(TINY) == ()
    assert scope.budgets(codes) == {
        "arrive": 1,
        "step": 1,
        "act": None,
        "fade": None,
        "finish": None,
        "verify": 2,
    }
    assert scope.reach(codes) == 4 and scope.reach(()) == 2
    every = {OPS[op] for op, _, _ in scope.events(1, 8, range(QUEUE, len(OPS)))}
    assert every == set(OPS) - {"fail", "late"}
    # A session that waits is one of the sessions.
    used, then = np.zeros(nodes.U_SIZE, dtype=int), np.zeros(nodes.U_SIZE, dtype=int)
    assert nodes.spend(used, then, scope.limits, QUEUE, 0)
    assert not nodes.spend(then, used, scope.limits, ARRIVE, 0)
    assert all(low <= a <= high for op, a, _ in scope.events(1, 8, codes) for low, high, _, _ in [BOUNDS[op]])


# What is merged.

CONFIG = Config(device_frames=10, host_frames=8)
WIDE = Scope(pages=6, requests=2, sessions=9, faults=9, extra=9, tick_sizes=(3, 8, 12))


class Sample:
    """Some policies, and how their states are looked at."""

    def __init__(self, *policies: Policy) -> None:
        self.policies = policies
        self.mask = (1 << len(policies)) - 1
        self.form, self.places = form_of(policies, self.mask, CONFIG, WIDE, exact=False)
        self.events = WIDE.events(self.mask, CONFIG.page_cost, extras_of(policies))
        self.row = np.asarray(Rules(policies, ()).row)

    def begin(self) -> np.ndarray:
        """The first state of an exploration."""
        state = np.array(first_state(CONFIG, self.policies), dtype=np.int64)
        state[fingerprint._NOW] = fingerprint.BASE
        return state

    def look(self, state: np.ndarray) -> tuple[int, ...]:
        """The fingerprint of a state of the whole set, and who has acted."""
        mark = np.zeros(2, dtype=np.uint64)
        did = module().imprint(state, self.mask, self.form, self.places, mark)
        return int(mark[0]), int(mark[1]), int(did)

    def play(self, state: np.ndarray, events: list[Event]) -> np.ndarray:
        """Run events for the whole set."""
        for op, a, b in events:
            module().apply(state, op, a, b, self.mask, self.row)
        return state

    def same(
        self, state: np.ndarray, other: np.ndarray, after: list[Event], *, renamed: bool = False
    ) -> None:
        """Two states look the same, and go on looking the same until both fail.

        Where frames are ``renamed`` they look the same as long as nothing names a frame but its page.
        """
        if module().failed(state):
            return
        assert self.look(state) == self.look(other)
        for event in after:
            self.play(state, [event])
            self.play(other, [event])
            assert module().failed(state) == module().failed(other)
            if module().failed(state):
                break
            ordered = module().orderly(state, self.form)
            assert ordered == module().orderly(other, self.form)
            if ordered or not renamed:
                assert self.look(state) == self.look(other)


@lru_cache
def usual() -> Sample:
    """The default policies."""
    return Sample(*resolve(["offload", "quant", "evict"]))


def index_and_scales() -> Sample:
    """An index, scales beside frames, lookups, and drafts of some."""
    return Sample(*vllm_50702.REPORT.policies, vllm_46971.DRAFTS)


def rings_and_rewinds() -> Sample:
    """Rings that are cut, text that is taken back, a tier of files."""
    return Sample(*mlxvlm_1715.REPORT.twins, design_s8.ROLLBACK, lmcache_4991.REPORT.policies[0])


@pytest.fixture(
    scope="module",
    params=[
        usual,
        pytest.param(index_and_scales, marks=pytest.mark.slow),
        pytest.param(rings_and_rewinds, marks=pytest.mark.slow),
    ],
)
def sample(request: pytest.FixtureRequest) -> Sample:
    """Policies of several kinds."""
    return request.param()  # type: ignore[no-any-return]


def histories(sample: Sample, data: st.DataObject, most: int) -> list[Event]:
    """Some events of the wide scope, after a session has opened."""
    return [(ARRIVE, 0, 6), *data.draw(st.lists(st.sampled_from(sample.events), max_size=most))]


FRAMES = {
    device: [name for name, size in SIZES.items() if name.startswith(letter) and size == count]
    for device, letter, count in ((True, "D_", ND), (False, "H_", NH))
}
"""The columns of frames, on the device and on the host."""


@settings(max_examples=60, deadline=None)
@given(st.data(), st.randoms(use_true_random=False))
def test_frames_go_by_other_names(sample: Sample, data: st.DataObject, random: object) -> None:
    state = sample.play(sample.begin(), histories(sample, data, 40))
    if not module().orderly(state, sample.form):
        return
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
    sample.same(state, other, histories(sample, data, 20), renamed=True)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 1000))
def test_time_is_relative(sample: Sample, data: st.DataObject, wait: int) -> None:
    events = histories(sample, data, 40)
    late = sample.begin()
    late[fingerprint._NOW] += wait
    assert sample.look(sample.play(sample.begin(), events)) == sample.look(sample.play(late, events))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 5))
def test_epochs_are_relative(sample: Sample, data: st.DataObject, by: int) -> None:
    # The same events after other sessions that left nothing behind.
    early, late = sample.begin(), sample.begin()
    late[R_EPOCH] += by
    events = histories(sample, data, 40)
    if "R_EPOCH" in {name for name in COLUMNS if COLUMNS[name] in sample.places}:
        return
    sample.same(early, late, events)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_what_is_over_is_never_looked_at(sample: Sample, data: st.DataObject, value: int) -> None:
    state = sample.play(sample.begin(), histories(sample, data, 40))
    other = state.copy()
    for name, over in (
        *((name, state[R_ACTIVE : R_ACTIVE + NR] == 0) for name in counters.OF_SESSION),
        *((name, state[OWNED : OWNED + NP] == 0) for name in counters.OF_PAGE),
    ):
        base, size = COLUMNS[name], SIZES[name]
        if base not in sample.places and name not in ("TODO", "R_TODO"):
            other[base : base + size][over] = value
    sample.same(state, other, histories(sample, data, 20))


def test_what_is_over_is_forgotten() -> None:
    sample = usual()
    busy = [(ARRIVE, 0, 6), (STEP, 0, 1), (TICK, 12, 0), (ACT, 1, 0), (TICK, 8, 0), (FINISH, 0, 0)]
    # Who has acted is all that is known of it afterwards.
    once = sample.look(sample.play(sample.begin(), busy))
    assert once == sample.look(sample.play(sample.begin(), [*busy, *busy]))
    assert once[2] == 2
    assert sample.look(sample.play(sample.begin(), busy[:1] + busy[-1:])) == sample.look(sample.begin())


@settings(max_examples=60, deadline=None)
@given(
    st.data(),
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
            "WANT",
            "TODO",
        ]
    ),
    st.integers(0, 5),
)
def test_what_counts_makes_a_difference(data: st.DataObject, column: str, page: int) -> None:
    sample = usual()
    state = sample.play(sample.begin(), histories(sample, data, 40))
    other = state.copy()
    other[COLUMNS[column] + page] += 1
    if state[OWNED + page] == 1 and not module().failed(state):
        assert sample.look(state) != sample.look(other)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 7))
def test_an_event_that_is_not_run_changes_nothing(sample: Sample, data: st.DataObject, mask: int) -> None:
    state = sample.play(sample.begin(), histories(sample, data, 40))
    op, a, b = data.draw(st.sampled_from(sample.events))
    if not module().matters(state, mask, sample.form, op, a, b):
        after = state.copy()
        module().apply(after, op, a, b, mask, sample.row)
        assert sample.look(state) == sample.look(after)


def test_pages_are_not_exchanged() -> None:
    # Two pages that differ in their hits and nothing else; the rule takes the lower one, whichever that is.
    sample = usual()
    state = sample.play(sample.begin(), [(ARRIVE, 0, 3), (TICK, 12, 0)])
    state[HITS] = 1
    other = state.copy()
    other[HITS], other[HITS + 1] = 0, 1
    for s in (state, other):
        sample.play(s, [(ACT, 1, 0)])
    assert state[HOST] >= 0 and other[HOST] >= 0
    assert (state[HITS], other[HITS]) == (1, 0)


def counts_frames(s: State, k: Int) -> None:
    """Takes the first frame that holds a page."""
    found = -1
    for f in each(ND):
        found = ite(and_(found < 0, get(s, D_PAGE, f) >= 0), f, found)
    quantise(s, found >= 0, k, get(s, D_PAGE, ite(found < 0, 0, found)), INT4)


def keeps_a_frame(s: State, k: Int) -> None:
    """Remembers where its page lay."""
    put_if(s, True, NOTE, k, get(s, DEV, 0))


def orders_frames(s: State, k: Int) -> None:
    """Prefers the page that lies lower."""
    promise(s, get(s, DEV, 0) < get(s, DEV, 1), k, 0)


def follows_a_page(s: State, k: Int) -> None:
    """Looks at the frame of a page."""
    d = get(s, DEV, 0)
    f = ite(d < 0, 0, d)
    quantise(s, and_(d >= 0, get(s, D_PREC, f) == EXACT), k, 0, INT4)


def test_rules_that_tell_frames_apart() -> None:
    contract = frozenset(core_texts())
    for rule in (
        counts_frames,
        keeps_a_frame,
        orders_frames,
        *(p.rule for p in trtllm_11879.REPORT.policies),
    ):
        assert frames_by_name(rule, contract)
    for rule in (follows_a_page, *(p.rule for p in resolve(["offload", "quant", "evict"]))):
        assert not frames_by_name(rule, contract)
    for policies, named in ((trtllm_11879.REPORT.policies, 1), (vllm_48412.REPORT.policies, 0)):
        form, _ = form_of(policies, 3, CONFIG, WIDE, exact=False)
        assert form[fingerprint.F_NAMED] == named


def test_sliced_columns_are_read_by_policies_alone() -> None:
    # A column that a new text of the contract reads can't be left out for policies that don't read it themselves.
    # 'carry' copies any column onto itself, page to page; what only rules call counts as read by those rules.
    texts = core_texts()
    readers: dict[str, set[str]] = {name: set() for name in counters.SLICED}
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
