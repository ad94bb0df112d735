"""Logs of a real engine go through the model without a difference that isn't known; faults planted in them come out, each."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from fuzzkv.core.results import Failure
from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.conform.chains import Chains, TooManyTexts
from fuzzkv.targets.vllm.conform.conformance import chosen, conformance, exit_code, report, sets_of
from fuzzkv.targets.vllm.conform.differences import CLASSES, INVARIANT, Difference
from fuzzkv.targets.vllm.conform.known import BY_NAME, GAPS, explained
from fuzzkv.targets.vllm.conform.model_mirror import DEVICE_KEYS, SPILL, STORE_KEYS, Mirror, tokens_of_page
from fuzzkv.targets.vllm.conform.observing import LOOK
from fuzzkv.targets.vllm.conform.small_configs import MOST, configured, draw
from fuzzkv.targets.vllm.conform.translate import Translated, translate
from fuzzkv.targets.vllm.history import LiveHistory, Row
from fuzzkv.targets.vllm.pool.engine_pool import EngineDied
from fuzzkv.targets.vllm.schedule import LiveSchedule
from tests.targets.vllm.conform.recorded import SCHEDULES, late_stores, places, recorded, with_log

NAMES = sorted(recorded())
TIERED = [name for name in NAMES if "offload" in name]


def run_of(name: str) -> tuple[LiveHistory, int]:
    schedule, history = recorded()[name]
    return history, schedule.pool


def without(name: str, what: str) -> list[Translated]:
    """Each row of this name left out of the log."""
    history, frames = run_of(name)
    found = []
    for i in places(history, what):
        found.append(translate(with_log(history, [*history.log[:i], *history.log[i + 1 :]]), frames))
    return found


def changed(name: str, what: str, change: Callable[[Row], Row], every: int = 1) -> list[Translated]:
    """Each row of this name changed, or each of so many."""
    history, frames = run_of(name)
    found = []
    for i in places(history, what)[::every]:
        row = change(history.log[i])
        if row != history.log[i]:
            found.append(translate(with_log(history, [*history.log[:i], row, *history.log[i + 1 :]]), frames))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_s_log_is_explained(name: str) -> None:
    history, frames = run_of(name)
    result = translate(history, frames)
    assert result.unexplained == ()
    assert result.cut == ""
    assert result.looks > 5 and result.events > 5


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("sharing on vllm:offload-lru+vllm:prefix-cache", "preempt-sharing"),
        ("waiting on vllm:offload-lru", "preempt-waiting"),
        ("afterwards on vllm:offload-lru", "stores-after-end"),
        ("brief on vllm:offload-lru", "stores-outlive"),
    ],
)
def test_what_is_met_seldom_is_explained_by_its_own_gap(name: str, gap: str) -> None:
    history, frames = run_of(name)
    assert gap in [d.gap for d in translate(history, frames).differences]


# -- faults planted in a log: each comes out, in every place ------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_free_comes_out(name: str) -> None:
    results = without(name, "free")
    assert results and all(result.unexplained for result in results)


@pytest.mark.parametrize("name", NAMES)
def test_a_double_free_comes_out(name: str) -> None:
    history, frames = run_of(name)
    for i in places(history, "free"):
        rows = [*history.log[: i + 1], history.log[i], *history.log[i + 1 :]]
        assert translate(with_log(history, rows), frames).unexplained


@pytest.mark.parametrize("name", TIERED)
def test_a_load_of_another_page_comes_out(name: str) -> None:
    assert all(r.unexplained for r in changed(name, "claim", lambda row: (*row[:-1], int(row[-1]) + 90)))
    assert all(r.unexplained for r in changed(name, "load+", lambda row: (*row[:-1], int(row[-1]) + 1)))


def test_a_load_of_a_page_that_was_never_stored_comes_out() -> None:
    history, frames = run_of("shared on vllm:offload-lru")
    loaded = set(history.log[places(history, "claim")[0]][2:])
    for i in places(history, "offer"):
        if not loaded & set(history.log[i][2:]):
            continue
        gone = {("store+", 0), ("store-", 0), ("store=", 0)}
        rows = [
            row[:1] if row[0] == LOOK + "host" else row
            for row in history.log
            if row[:2] not in gone and row != history.log[i] and row[0] != "ready"
        ]
        assert any(d.what == "fetch" for d in translate(with_log(history, rows), frames).unexplained)


def test_a_store_that_ends_after_its_block_was_reused_comes_out() -> None:
    results = [translate(late, run_of(name)[1]) for name in TIERED for late in late_stores(run_of(name)[0])]
    assert len(results) >= 2
    assert all((r.unexplained[0].kind, r.unexplained[0].what) == (INVARIANT, "I2") for r in results)


@pytest.mark.parametrize(
    "what",
    ["alloc", "publish", "evict", "preempt", "hit", "store-", "load-", "store+", "load+", "ready", "drop"],
)
def test_a_page_event_that_is_missing_comes_out(what: str) -> None:
    results = [result for name in NAMES for result in without(name, what)]
    assert all(result.unexplained for result in results)
    assert results


def another(row: Row) -> Row:
    """A look that says something else in its last number."""
    if not row[1:]:
        return row
    last = int(row[-1])
    return (*row[:-1], 1 - last if row[0] == LOOK + "host" else last + 1)


@pytest.mark.parametrize("what", ["refs", "free", "table", "index", "host", "flight"])
def test_an_engine_that_says_something_else_of_itself_comes_out(what: str) -> None:
    results = [result for name in NAMES for result in changed(name, LOOK + what, another, every=9)]
    assert results and all(result.unexplained for result in results)


def test_a_name_without_translation_is_told() -> None:
    history, frames = run_of(NAMES[0])
    result = translate(with_log(history, [("teleport", 1), *history.log]), frames)
    assert [(d.kind, d.what) for d in result.unexplained] == [("no word", "teleport")]


def test_a_row_about_what_there_is_not_is_told() -> None:
    history, frames = run_of(NAMES[0])
    for row in (("free", 7, 1), ("load+", 5, 11, 0), ("publish", 11, 3), ("drop", 3), ("step",)):
        result = translate(with_log(history, [*history.log[:8], row, *history.log[8:]]), frames)
        assert len(result.unexplained) == 1


# -- the known gaps are narrow ------------------------------------------------------------------------------

EXAMPLES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "waiting": ({"sessions": 2, "blocks": 0}, {"blocks": 1}),
    "partial-block": ({"residue": 5}, {"residue": 0}),
    "shared-prefix": ({"branch": 1, "behind": 1}, {"behind": 0}),
    "several-pages": ({"pages": 2}, {"pages": 1}),
    "two-indexes": ({"on_device": 1, "on_store": 0}, {"on_store": 1}),
    "several-blocks-a-key": ({"entry": 1, "same_tag": 1, "same_frame": 0, "listed": 1}, {"same_tag": 0}),
    "publish-waiting": ({"todo": 1, "filled": 1}, {"filled": 0}),
    "abort-while-loading": ({"untold_loads": 1}, {"untold_loads": 0}),
    "stores-outlive": ({"stores": 1, "loads": 0, "late_offer": 0}, {"loads": 1}),
    "stores-after-end": ({"stores": 0, "loads": 0, "late_offer": 1}, {"loads": 1}),
    "stores-outlive-preemption": ({"stores": 1, "loads": 0, "late_offer": 0}, {"loads": 1}),
    "preempt-waiting": ({"running": 0, "filled": 1, "loads": 0}, {"filled": 0}),
    "preempt-sharing": ({"preempted": 1, "alone": 0, "shared": 1}, {"alone": 1}),
    "host-frame-before-copy": ({"engine": 0, "model": -1, "offered": 1, "begun": 0}, {"engine": 1}),
    "late-news": ({"engine": 0, "model": 1, "moved": 1, "heard": 0}, {"heard": 1}),
    "retried-copy": ({"begun": 1, "ended": 0}, {"ended": 1}),
}


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_gap_explains_its_own_and_not_its_neighbour(name: str) -> None:
    gap = BY_NAME[name]
    facts, other = EXAMPLES[name]
    assert explained(Difference(gap.kind, gap.what, "", facts=facts)).gap == name
    assert explained(Difference(gap.kind, gap.what, "", facts={**facts, **other})).gap != name
    assert gap.kind in CLASSES and gap.reason.endswith(".") and gap.reason.count(".") == 1


def test_what_no_gap_is_about_stays_unexplained() -> None:
    assert explained(Difference(INVARIANT, "I4", "")).gap == ""
    assert len(BY_NAME) == len(GAPS)


# -- the parts ----------------------------------------------------------------------------------------------


def test_the_mirror_replays_a_session_through_the_contract() -> None:
    mirror = Mirror(4)
    assert mirror.open(0, 1, [0, 0, 0], 2)
    assert mirror.missing(0) == 3 and not mirror.running(0)
    assert mirror.do("admit", 0) and mirror.running(0) and mirror.free() == 1
    assert mirror.do("publish", 0, DEVICE_KEYS) and mirror.do("spill", 0, STORE_KEYS, 0)
    assert mirror.step(0) and mirror.copies() == [(SPILL, 0)]
    assert mirror.end_copies([0], SPILL) == 1 and list(mirror.store_entries().values()) == [True]
    assert mirror.grow(0, 2, 0) and mirror.at("R_RES", 0) == 0
    assert mirror.finish(0) and mirror.free() == 4 and mirror.broken() == {}
    assert mirror.open(1, 1, [0], 0) and mirror.do("hit", 8, DEVICE_KEYS)


def test_tokens_of_a_page_grow_with_those_of_a_block() -> None:
    small = [tokens_of_page(n, 32) for n in range(1, 33)]
    assert small == [*sorted(small[:-1]), 0] and set(small) == {0, 1, 2, 3}


def test_chains_name_pages_by_what_was_before() -> None:
    chains = Chains([range(64), [*range(32), *range(50, 82)], range(100, 132)], 32)
    assert chains.text(0) == chains.text(1) != chains.text(2)
    assert (chains.branch(0, 0), chains.branch(1, 0)) == (0, 0)
    assert chains.branch(0, 1) != chains.branch(1, 1)
    many = Chains([[n] for n in range(9)], 32)
    with pytest.raises(TooManyTexts):
        [many.text(r) for r in range(9)]


def test_small_schedules_are_drawn_from_the_seed_within_the_size() -> None:
    for policies in sets_of(chosen(["vllm:offload-lru", "vllm:preempt", "vllm:prefix-cache"])):
        drawn = [draw(Random(7), policies) for _ in range(2)]
        assert drawn[0] == drawn[1]
        for schedule in (draw(Random(n), policies) for n in range(20)):
            assert len(schedule.events) <= MOST and schedule.pool <= configured(policies).pages


def test_policies_without_translation_are_refused() -> None:
    with pytest.raises(UsageError, match="FKV001"):
        chosen(["vllm:lora"])


# -- the way of a run, over an engine that plays logs back -----------------------------------------------------


class Played:
    """An engine that answers every schedule with a recorded run of its set."""

    def __init__(self, history: LiveHistory | None) -> None:
        self.history, self.runs = history, 0

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        self.runs += 1
        if self.history is None:
            raise EngineDied("hung", "no answer")
        return self.history

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_run_counts_and_judges() -> None:
    history, _ = run_of("shared on plain")
    (row,) = conformance((), lambda config: Played(history), seed=0, seconds=60, most=2)
    assert row.schedules == 2 and row.unexplained == [] and row.events > 10
    assert exit_code([row]) == 0
    told = report([row], engine="e", seed=0)
    assert told["explained"] == sum(gap["met"] for gap in told["gaps"]) > 0
    assert exit_code([]) == 3


@pytest.mark.parametrize("died", [False, True])
def test_what_is_not_explained_is_shrunk_and_told(died: bool) -> None:
    history, _ = run_of("shared on plain")
    broken = with_log(history, [row for row in history.log if row[0] != "free"])
    (row,) = conformance((), lambda config: Played(None if died else broken), seed=0, seconds=60, most=9)
    assert exit_code([row]) == 1 and len(row.unexplained) == row.schedules == 3
    assert row.unexplained[0]["schedule"]["events"] == []
    assert row.unexplained[0]["what"] == ("hung" if died else "abort")


def test_what_the_engine_s_own_checks_find_is_told() -> None:
    history, frames = run_of(NAMES[0])
    odd = LiveHistory(**{**history.__dict__, "failures": (Failure("I11", "leak"),)})
    assert [d.what for d in translate(odd, frames).unexplained] == ["violation"]


# -- a real engine ------------------------------------------------------------------------------------------


@pytest.mark.engine
def test_an_engine_conforms_and_a_spoilt_one_does_not(live: object) -> None:
    from fuzzkv.targets.vllm.conform.observing import watch_pages
    from fuzzkv.targets.vllm.engine.driver import Driver

    poll = live.link.poll  # type: ignore[attr-defined]
    driver = Driver(live, [watch_pages(live)])  # type: ignore[arg-type]
    pool, events = SCHEDULES["reused"]
    schedule = LiveSchedule(pool, 256, events)
    try:
        clean = translate(driver.run(schedule), pool)
        live.link.obeys_wait = False  # type: ignore[attr-defined]
        late = translate(driver.run(schedule), pool)
    finally:
        live.link.obeys_wait, live.link.poll = True, poll  # type: ignore[attr-defined]
    assert (clean.unexplained, clean.cut) == ((), "")
    assert [(d.kind, d.what) for d in late.unexplained] == [(INVARIANT, "I2")]
