"""The oracles of a live run on toys: each finds its mutant and is silent on the twin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.content.canary import Canary
from fuzzkv.targets.vllm.content.oracles import (
    Answer,
    ContentWatcher,
    FailedLoads,
    inert_tier,
    repeated,
    token_violations,
)
from fuzzkv.targets.vllm.engine.models import build
from fuzzkv.targets.vllm.engine.page_log import Journal
from fuzzkv.targets.vllm.history import LiveHistory
from tests.targets.vllm.test_canary import A, B, Pool, layout


class Toy:
    """An engine with two requests: what the watcher reads of one."""

    def __init__(self) -> None:
        self.pool = Pool(Canary(build("tiny").path, layout()))
        self.journal = Journal()
        self.host: list[Any] = []
        self.keys: dict[int, tuple[bytes, ...]] = {}
        self.requests = [self._request(A), self._request(B)]
        self.tables: list[tuple[int, ...]] = [(1, 2, 3), (4, 5, 6)]
        self.states = ["RUNNING", "RUNNING"]
        self.pool.fill(A, (1, 2, 3))
        self.pool.fill(B, (4, 5, 6))

    @staticmethod
    def _request(tokens: tuple[int, ...]) -> Any:
        return SimpleNamespace(prompt=tokens[:70], tokens=tokens[70:], adapter=0)

    def unfinished(self) -> list[int]:
        return [0, 1]

    def status(self, number: int) -> str:
        return self.states[number]

    def computed(self, number: int) -> int:
        return 80

    def blocks_of(self, number: int, group: int = 0) -> tuple[int, ...]:
        return self.tables[number]

    def hashes(self) -> dict[int, tuple[bytes, ...]]:
        return self.keys

    def host_bytes(self) -> Any:
        return self.host

    def watch(self, **more: Any) -> ContentWatcher:
        watcher = ContentWatcher([self.pool.canary], lambda e: e.pool.pages, **more)
        watcher.begin(self, None)
        return watcher


@pytest.fixture(scope="module")
def made() -> Toy:
    return Toy()


@pytest.fixture
def toy(made: Toy) -> Toy:
    made.journal.clear()
    made.host, made.keys = [], {}
    made.states[:] = ["RUNNING", "RUNNING"]
    made.pool.fill(A, (1, 2, 3))
    made.pool.fill(B, (4, 5, 6))
    return made


def test_a_clean_run_is_silent(toy: Toy) -> None:
    watcher = toy.watch()
    assert list(watcher.after_step(toy)) == []
    assert list(watcher.end(toy)) == []
    assert toy.journal.counters["pages_checked"] == 6


def test_a_foreign_page_is_told(toy: Toy) -> None:
    watcher = toy.watch()
    for layer in toy.pool.pages:
        layer[5] = layer[2]
    (violation,) = watcher.after_step(toy)
    assert (violation.invariant, violation.action, violation.request, violation.page) == (
        "I2",
        "foreign",
        1,
        5,
    )


def test_what_follows_from_a_wrong_page_is_not_told(toy: Toy) -> None:
    watcher = toy.watch()
    toy.pool.pages[1][4] = 0
    toy.pool.pages[1][5] = 0
    toy.pool.pages[1][1] = 0
    found = [(v.action, v.request, v.page) for v in watcher.after_step(toy)]
    assert found == [("context", 0, 1), ("context", 1, 4)]


def test_a_wrong_page_is_told_once_while_it_grows(toy: Toy) -> None:
    watcher = toy.watch()
    for page in toy.pool.pages:
        page[6] = page[2]
    assert len(list(watcher.after_step(toy))) == 1
    for page in toy.pool.pages:
        page[6] = page[1]
    assert list(watcher.after_step(toy)) == []


@pytest.mark.parametrize("before", [None, 1, 4])
def test_a_failed_load_that_is_served_is_told_as_one(toy: Toy, before: int | None) -> None:
    watcher = toy.watch()
    for layer in toy.pool.pages:
        layer[5] = 0 if before is None else layer[before]
    toy.journal.entries += [("load+", 0, 5, 9), ("load!", 0), ("load=", 0)]
    (violation,) = watcher.after_step(toy)
    assert (violation.invariant, violation.action, violation.page) == ("I16", "unfilled", 5)
    assert "load into page 5 failed" in violation.text


def test_a_failed_load_that_was_computed_anew_is_silent(toy: Toy) -> None:
    watcher = toy.watch()
    toy.journal.entries += [("load+", 0, 5, 9), ("load!", 0), ("load=", 0)]
    assert list(watcher.after_step(toy)) == []


def test_who_waits_for_a_load_is_not_looked_at(toy: Toy) -> None:
    watcher = toy.watch()
    toy.states[1] = "WAITING_FOR_REMOTE_KVS"
    for layer in toy.pool.pages:
        layer[5] = 0
    assert list(watcher.after_step(toy)) == []


def test_a_store_that_kept_the_page_is_silent_and_one_that_kept_another_is_told(toy: Toy) -> None:
    watcher = toy.watch()
    assert list(watcher.after_step(toy)) == []
    toy.host = [np.array(layer[:4]) for layer in toy.pool.pages]
    toy.journal.entries += [("store+", 0, 2, 2), ("store-", 0), ("store+", 1, 4, 1), ("store-", 1)]
    (violation,) = watcher.after_step(toy)
    assert (violation.invariant, violation.action, violation.request, violation.page) == (
        "I4",
        "miscopied",
        1,
        1,
    )
    assert "block 0 of request 1 (device page 4) in host page 1" in violation.text
    assert toy.journal.counters["host_pages_checked"] == 2


def test_a_page_that_changed_unseen_says_nothing_of_its_store(toy: Toy) -> None:
    """A request that comes and ends within a step."""
    watcher = toy.watch()
    list(watcher.after_step(toy))
    for layer in toy.pool.pages:
        layer[6] = layer[2]
    toy.states[1] = "WAITING"
    assert list(watcher.after_step(toy)) == []
    toy.host = [np.array(layer[:7]) for layer in toy.pool.pages]
    toy.journal.entries += [("store+", 0, 6, 6), ("store-", 0)]
    assert list(watcher.after_step(toy)) == []


def test_a_store_under_way_and_a_page_that_is_filled_anew_say_nothing(toy: Toy) -> None:
    watcher = toy.watch()
    list(watcher.after_step(toy))
    toy.host = [np.zeros_like(layer[:4]) for layer in toy.pool.pages]
    toy.journal.entries += [("store+", 0, 2, 2), ("store-", 0), ("store+", 1, 4, 2)]
    assert list(watcher.after_step(toy)) == []


def cached(toy: Toy) -> ContentWatcher:
    """Request 1 has ended, and its full blocks stay in the prefix cache."""
    watcher = toy.watch()
    toy.keys = {4: (b"x",), 5: (b"y",)}
    assert list(watcher.after_step(toy)) == []
    toy.states[1] = "FINISHED"
    return watcher


def test_a_cached_page_that_is_overwritten_is_told_before_it_is_hit(toy: Toy) -> None:
    watcher = cached(toy)
    toy.pool.pages[1][5] = toy.pool.pages[1][1]
    (violation,) = watcher.after_step(toy)
    assert (violation.invariant, violation.action, violation.page) == ("I8", "overwritten", 5)
    assert "block 1 of request 1, and its layer 1 was overwritten" in violation.text


@pytest.mark.parametrize("keys", [{}, {5: (b"other",)}])
def test_a_page_that_lost_its_key_may_change(toy: Toy, keys: dict[int, tuple[bytes, ...]]) -> None:
    watcher = cached(toy)
    toy.keys = keys
    toy.pool.pages[1][5] = 0
    assert list(watcher.after_step(toy)) == []


def test_a_cached_page_that_stays_is_silent(toy: Toy) -> None:
    watcher = cached(toy)
    assert list(watcher.after_step(toy)) == []
    toy.pool.fill(B, (4, 5, 6))
    assert list(watcher.after_step(toy)) == []


def test_every_other_step(toy: Toy) -> None:
    watcher = toy.watch(every=2)
    toy.pool.pages[0][5] = 0
    assert list(watcher.after_step(toy)) == []
    assert len(list(watcher.after_step(toy))) == 1


def test_failed_loads_are_read_from_the_log() -> None:
    log: list[Any] = [("load+", 0, 3, 10, 4, 11), ("load+", 1, 6, 12), ("load!", 0)]
    failed = FailedLoads()
    failed.read(log)
    assert failed.pages == {3, 4}
    log += [("load-", 0), ("load~", 1)]
    failed.read(log)
    assert failed.pages == {6}, "tried again, and done"
    log.append(("alloc", 2, 6))
    failed.read(log)
    assert failed.pages == set(), "given to another"


ANSWER = Answer((5, 6, 7, 8), (1.0, 0.000005, 1.0, 1.0))


def history(*tokens: int, **more: Any) -> LiveHistory:
    return LiveHistory(tokens=(tokens,), prompts=((1, 2),), **more)


@pytest.mark.parametrize("made", [(5, 6, 7, 8), (5, 6), (), (-1,), (5, 6, -1)])
def test_the_same_tokens_are_silent(made: tuple[int, ...]) -> None:
    assert token_violations(history(*made), [ANSWER]).failures == ()


def test_other_tokens_are_told() -> None:
    compared = token_violations(history(5, 6, 9, 8), [ANSWER])
    (violation,) = compared.failures
    assert (violation.action, violation.invariant, violation.request) == ("token", "I3", 0)
    assert (
        "token 2 of request 0 is 9, alone it is 7 (gap 1.0000); its pages were not checked" in violation.text
    )
    (violation,) = token_violations(history(5, 6, 9, 8, counters={"pages_checked": 9}), [ANSWER]).failures
    assert violation.invariant == "I5" and "none of its pages" in violation.text


def test_other_tokens_after_a_wrong_page_have_its_invariant() -> None:
    known = (Failure("I16", "unfilled", request=0), Failure("I2", "foreign", request=0))
    (violation,) = token_violations(history(5, 9, failures=known), [Answer((5, 6), (1.0, 1.0))]).failures
    assert violation.invariant == "I16"


def test_a_numeric_tie_is_counted_and_not_told() -> None:
    compared = token_violations(history(5, 9, 9, 9), [ANSWER])
    assert (compared.failures, compared.ties, compared.tokens) == ((), 1, 4)


def test_a_request_without_an_answer_is_skipped() -> None:
    assert token_violations(history(5, 9), [None]).tokens == 0


def stored(**counters: int) -> LiveHistory:
    prompt = tuple(range(70))
    return LiveHistory(prompts=(prompt,) * 4, adapters=(0, 0, 0, 1), counters=counters)


def test_repeated_blocks_are_counted_with_their_adapter() -> None:
    assert repeated(stored()) == 4


def test_a_tier_that_never_serves_is_inert() -> None:
    violation = inert_tier([stored(stored_pages=6)])
    assert violation is not None and (violation.invariant, violation.action) == ("I15", "inert")


@pytest.mark.parametrize(
    "counters", [{}, {"stored_pages": 6, "loaded_pages": 1}, {"stored_pages": 6, "hits": 4}]
)
def test_tiers_that_serve_or_need_not_are_silent(counters: dict[str, int]) -> None:
    assert inert_tier([stored(**counters)]) is None


def test_nothing_asked_again_is_no_inert_tier() -> None:
    once = LiveHistory(prompts=(tuple(range(70)),), counters={"stored_pages": 6})
    assert inert_tier([once]) is None


def test_pages_keep_their_dtype(toy: Toy) -> None:
    assert toy.pool.pages[0].dtype == np.uint8
