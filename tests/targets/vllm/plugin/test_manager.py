"""A watch on a manager: whose fault a breach is, what a wrong engine comes to, and what a watch leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.targets.vllm.plugin.manager import watch_manager
from fuzzkv.targets.vllm.plugin.parts import PlainContext, key
from fuzzkv.targets.vllm.plugin.record import MOST, Report
from fuzzkv.targets.vllm.plugin.rules import rules_of
from tests.targets.vllm.plugin.users import Shelf

A, B = PlainContext("a"), PlainContext("b")


def stored(manager: Any) -> None:
    manager.on_new_request(A)
    manager.prepare_store([key(0)], A)
    manager.complete_store({key(0)}, A)


def late_store(manager: Any) -> None:
    stored(manager)
    manager.on_request_finished(A)
    manager.prepare_store([key(1)], A)


def double_end(manager: Any) -> None:
    stored(manager)
    manager.complete_store({key(0)}, A)


def stale_end(manager: Any) -> None:
    manager.on_new_request(A)
    manager.prepare_store([key(0)], A)
    manager.reset_cache()
    manager.complete_store({key(0)}, A)


def blind_load(manager: Any) -> None:
    stored(manager)
    manager.prepare_load([key(0), key(5)], A)


def unread_end(manager: Any) -> None:
    stored(manager)
    manager.complete_load([key(0)], A)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("engine-request-open", late_store),
        ("engine-request-open", lambda m: m.lookup(key(0), B)),
        ("engine-complete-known", double_end),
        ("engine-complete-known", stale_end),
        ("engine-complete-known", unread_end),
        ("engine-load-known", blind_load),
    ],
)
def test_an_engine_that_calls_wrongly_is_found(rule: str, wrong: Callable[[Any], Any]) -> None:
    manager, report = Shelf(4), Report(strict=True)
    watch_manager(manager, report)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the breach, or what the call came to
        wrong(manager)
    assert [v.action for v in report.failures] == [rule]


def test_what_the_engine_never_completes_is_told_when_it_is_idle() -> None:
    manager, report = Shelf(4), Report()
    watch = watch_manager(manager, report)
    manager.on_new_request(A)
    manager.prepare_store([key(0), key(1)], A)
    manager.complete_store({key(0)}, A)
    manager.prepare_load([key(0)], A)
    watch.settled()
    assert {v.action for v in report.failures} == {"engine-completes"}
    assert [v.text.split(" (")[0] for v in report.failures] == [
        "engine: k0 still has 1 loads under way",
        "engine: k1 still has a store under way",
    ]


def test_after_an_illegal_call_a_failure_is_not_the_managers() -> None:
    manager, report = Shelf(4), Report()
    watch_manager(manager, report)
    manager.on_new_request(A)
    with pytest.raises(KeyError):
        manager.complete_load([key(3)], A)
    assert [v.action for v in report.failures] == ["engine-complete-known"]


def test_the_end_of_a_transfer_that_the_manager_tore_is_not_the_engines() -> None:
    class Tears(Shelf):
        def may_go(self, offered: Any) -> list[bytes]:
            return [k for k in self.at if k not in offered]

    manager, report = Tears(1), Report()
    watch_manager(manager, report)
    manager.on_new_request(A)
    manager.prepare_store([key(0)], A)
    manager.prepare_store([key(1)], A)
    manager.complete_store({key(0)}, A)
    assert [v.action for v in report.failures] == ["manager-store-pin"]


def test_managers_of_several_tiers_may_find_what_they_were_not_told() -> None:
    for sole in (True, False):
        manager, report = Shelf(4), Report()
        watch_manager(manager, report, sole=sole)
        manager.on_new_request(A)
        manager.at[key(7)] = 3
        manager.ready.add(key(7))
        manager.lookup(key(7), A)
        assert bool(report.failures) is sole


def test_a_report_keeps_a_few_breaches_of_a_rule_and_counts_all() -> None:
    manager, report = Shelf(4), Report(lambda: (3, 9))
    watch_manager(manager, report)
    for _ in range(2 * MOST):
        manager.lookup(key(0), B)
    assert len(report.failures) == MOST and report.broken["engine-request-open"] == 2 * MOST
    assert (report.failures[0].event, report.failures[0].stamp) == (3, 9)


def test_a_stopped_watch_gives_back_what_was_there() -> None:
    manager, report = Shelf(4), Report()
    calls: list[bytes] = []
    own = manager.lookup

    def tap(k: bytes, context: Any) -> Any:
        calls.append(k)
        return own(k, context)

    manager.lookup = tap  # type: ignore[method-assign]
    watch_manager(manager, report).stop()
    manager.lookup(key(1), A)
    assert calls == [key(1)] and not report.checked and set(vars(manager)) & {"lookup", "touch"} == {"lookup"}


def test_an_object_whose_methods_cannot_be_replaced() -> None:
    class Tight:
        __slots__ = ()

        def lookup(self) -> None: ...

    with pytest.raises(UsageError) as caught:
        watch_manager(Tight(), Report())
    assert caught.value.code == "FKV120"


def test_every_duty_of_the_engine_is_tried_somewhere() -> None:
    here = {"engine-request-open", "engine-complete-known", "engine-load-known", "engine-completes"}
    with_connectors = {"engine-finish-once", "engine-metadata", "engine-alloc-matched"}
    assert {rule.id for rule in rules_of("engine")} == here | with_connectors
