"""A watch on a KV connector: each rule has a mutant that breaks it, and a clean twin breaks none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fuzzkv.targets.vllm.plugin.connector import ConnectorLedger, watch_connector
from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.rules import rules_of


class Store:
    """A clean connector of one process: half of each prompt matches once it was saved, and ends hold blocks for a step."""

    def __init__(self) -> None:
        self.saved: set[str] = set()
        self.loading: list[str] = []
        self.sending: list[str] = []

    def bind_connector_metadata(self, metadata: Any) -> None: ...

    def clear_connector_metadata(self) -> None: ...

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...

    def wait_for_save(self) -> None: ...

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        sent, received = {r for r in self.sending if r in finished_req_ids}, set(self.loading)
        self.sending = [r for r in self.sending if r not in sent]
        self.loading.clear()
        return sent, received

    def get_block_ids_with_load_errors(self) -> set[int]:
        return set()

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        count = max(0, request.num_tokens // 2 - num_computed_tokens) if request.prompt in self.saved else 0
        return count, count > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens:
            self.loading.append(request.request_id)

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        return SimpleNamespace()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        self.saved.add(request.prompt)
        self.sending.append(request.request_id)
        return True, None

    def on_new_request(self, request: Any) -> None: ...

    def update_connector_output(self, connector_output: Any) -> None: ...

    def reset_cache(self) -> bool:
        self.saved.clear()
        return True


def mutants() -> dict[str, type[Store]]:
    class NoneLater(Store):
        def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
            return super().get_num_new_matched_tokens(request, num_computed_tokens)[0], True

    class TooMany(Store):
        def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
            count, late = super().get_num_new_matched_tokens(request, num_computed_tokens)
            return (request.num_tokens + 1, late) if count else (count, late)

    class AskedOnce(Store):
        def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
            answer = super().get_num_new_matched_tokens(request, num_computed_tokens)
            self.saved.discard(request.prompt)
            return answer

    class Meddles(Store):
        def build_connector_meta(self, scheduler_output: Any) -> Any:
            scheduler_output.num_scheduled_tokens.pop("a", None)
            return SimpleNamespace()

    class SendsEarly(Store):
        def get_finished(self, finished_req_ids: set[str]) -> Any:
            sent, received = super().get_finished(finished_req_ids)
            return sent | {"stranger"}, received

    class ReceivesStrangers(Store):
        def get_finished(self, finished_req_ids: set[str]) -> Any:
            sent, received = super().get_finished(finished_req_ids)
            return sent, received | {"stranger"}

    class WrongErrors(Store):
        def get_block_ids_with_load_errors(self) -> set[int]:
            return {99}

    class Vague(Store):
        def request_finished(self, request: Any, block_ids: list[int]) -> Any:
            return super().request_finished(request, block_ids)[0]

    class NeverSends(Store):
        def get_finished(self, finished_req_ids: set[str]) -> Any:
            return set(), super().get_finished(finished_req_ids)[1]

    class ResetKeeps(Store):
        def reset_cache(self) -> bool:
            return True

    class Raises(Store):
        def wait_for_save(self) -> None:
            raise RuntimeError("nothing to save")

    return {
        "connector-match-shape": NoneLater,
        "connector-match-range": TooMany,
        "connector-match-pure": AskedOnce,
        "connector-output-untouched": Meddles,
        "connector-sent-known": SendsEarly,
        "connector-received-known": ReceivesStrangers,
        "connector-errors-known": WrongErrors,
        "connector-finished-shape": Vague,
        "connector-delivers": NeverSends,
        "connector-reset": ResetKeeps,
        "connector-returns": Raises,
    }


def drive(connector: Store, report: Report) -> Store:
    """Three requests with one prompt as vLLM would run them, a reset before the third."""
    watch = watch_connector(connector, report, ledger=ConnectorLedger(), twice=True)
    for name in ("a", "b", "c"):
        if name == "c":
            connector.reset_cache()
        request = SimpleNamespace(request_id=name, num_tokens=64, prompt="p")
        connector.on_new_request(request)
        count, _ = connector.get_num_new_matched_tokens(request, 0)
        blocks = SimpleNamespace(blocks=[[SimpleNamespace(block_id=i) for i in range(4)]])
        connector.update_state_after_alloc(request, blocks, count or 0)
        output = SimpleNamespace(
            num_scheduled_tokens={name: 1},
            finished_req_ids=set(),
            preempted_req_ids=None,
            scheduled_new_reqs=[],
        )
        step(connector, connector.build_connector_meta(output), set())
        connector.request_finished(request, [0, 1, 2, 3])
        step(connector, connector.build_connector_meta(output), {name})
    watch.settled()
    return connector


def step(connector: Store, metadata: Any, finished: set[str]) -> None:
    connector.bind_connector_metadata(metadata)
    connector.start_load_kv(None)
    connector.wait_for_save()
    connector.get_finished(finished)
    connector.get_block_ids_with_load_errors()
    connector.clear_connector_metadata()
    connector.update_connector_output(None)


def test_a_clean_connector_breaks_no_rule_and_every_rule_is_tested() -> None:
    report = Report()
    drive(Store(), report)
    assert not report.failures
    assert {rule.id for rule in rules_of("KVConnector")} - set(report.checked) == {"connector-returns"}


def test_every_rule_has_a_mutant() -> None:
    assert set(mutants()) == {rule.id for rule in rules_of("KVConnector")}


@pytest.mark.parametrize("rule", mutants())
def test_a_broken_connector_is_found(rule: str) -> None:
    report = Report(strict=True)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the breach, or the mutant's own error
        drive(mutants()[rule](), report)
    assert report.failures[0].action == rule


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("engine-finish-once", lambda c, r: (c.request_finished(r, []), c.request_finished(r, []))),
        ("engine-metadata", lambda c, r: c.start_load_kv(None)),
        ("engine-alloc-matched", lambda c, r: c.update_state_after_alloc(r, SimpleNamespace(blocks=[]), 16)),
    ],
)
def test_an_engine_that_calls_wrongly_is_found(rule: str, wrong: Callable[[Any, Any], Any]) -> None:
    report = Report()
    connector = Store()
    watch_connector(connector, report)
    wrong(connector, SimpleNamespace(request_id="a", num_tokens=64, prompt="p"))
    assert [v.action for v in report.failures] == [rule] and report.failures[0].text.startswith("engine: ")


def test_a_stopped_watch_gives_the_methods_back() -> None:
    connector, report = Store(), Report()
    watch_connector(connector, report).stop()
    connector.start_load_kv(None)
    assert not report.checked and not vars(connector).keys() & {"start_load_kv", "get_finished"}
