"""A watch on a vLLM KV connector, on both its sides: matches, loads and sends, and the order of the calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.watching import Watch


@dataclass
class ConnectorLedger:
    """The state that both sides of one connector share.  ``matched``: the last answer a request got; ``loading``: requests that
    wait for an asynchronous load, with the blocks that it fills; ``held``: finished requests whose blocks are held;
    ``told``: requests told as finished to the worker's side; ``ended``: requests whose end was told.
    """

    matched: dict[str, int] = field(default_factory=dict)
    loading: dict[str, set[int]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    filling: set[int] = field(default_factory=set)
    asynchronous: set[str] = field(default_factory=set)
    empty: bool = False

    def clear(self) -> None:
        """Forget everything."""
        for each in (
            self.matched,
            self.loading,
            self.held,
            self.told,
            self.ended,
            self.filling,
            self.asynchronous,
        ):
            each.clear()
        self.empty = False


class ConnectorWatch(Watch):
    """Watches one side; give both sides of an engine the same ``ledger``.

    ``twice``: ask for each match a second time and compare, which a connector that starts look-ups by itself may
    notice.
    """

    returns = "connector-returns"

    def __init__(
        self, connector: Any, report: Report, ledger: ConnectorLedger, *, twice: bool = False
    ) -> None:
        super().__init__(connector, report)
        self.ledger, self.twice = ledger, twice
        self.bound = False
        names = ["bind_connector_metadata", "clear_connector_metadata", "start_load_kv", "wait_for_save"]
        names += ["get_finished", "get_block_ids_with_load_errors"]
        names += ["get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta"]
        names += [
            "request_finished",
            "request_finished_all_groups",
            "on_new_request",
            "update_connector_output",
        ]
        for name in names:
            self.around(name, getattr(self, f"_{name}"))
        self.around("reset_cache", self._reset_cache)

    def forget(self) -> None:
        """No request is known, and nothing is under way."""
        self.ledger.clear()

    def settled(self) -> None:
        """Say that the engine is idle: nothing may be awaited any more."""
        waiting = sorted({*self.ledger.loading, *self.ledger.held})
        self.report.check("connector-delivers", not waiting, "requests {} were never reported", waiting[:8])

    # the worker's side

    def _bind_connector_metadata(self, call: Callable[..., Any], metadata: Any) -> None:
        self.bound = True
        call(metadata)

    def _clear_connector_metadata(self, call: Callable[..., Any]) -> None:
        self.bound = False
        call()

    def _start_load_kv(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._is_bound("start_load_kv")
        call(*args, **kwargs)

    def _wait_for_save(self, call: Callable[..., Any]) -> None:
        self._is_bound("wait_for_save")
        call()

    def _get_finished(self, call: Callable[..., Any], finished_req_ids: set[str]) -> Any:
        ledger, check = self.ledger, self.report.check
        ledger.told |= set(finished_req_ids)
        sent, received = call(finished_req_ids)
        for ident in sorted(sent or ()):
            known = ident in ledger.told and ident in ledger.held
            check("connector-sent-known", known, "{} is reported as sent, but holds no blocks", ident)
            ledger.held.discard(ident)
        for ident in sorted(received or ()):
            known = ident in ledger.loading
            check(
                "connector-received-known", known, "{} is reported as received, but waits for nothing", ident
            )
            ledger.filling |= ledger.loading.pop(ident, set())
        return sent, received

    def _get_block_ids_with_load_errors(self, call: Callable[..., Any]) -> Any:
        failed = call()
        known = set().union(self.ledger.filling, *self.ledger.loading.values())
        strange = sorted(set(failed) - known)
        self.report.check(
            "connector-errors-known", not strange, "blocks {} failed, but nothing loads them", strange[:8]
        )
        self.ledger.filling.clear()
        return failed

    # the scheduler's side

    def _on_new_request(self, call: Callable[..., Any], request: Any) -> None:
        self.ledger.ended.discard(request.request_id)
        call(request)

    def _get_num_new_matched_tokens(
        self, call: Callable[..., Any], request: Any, num_computed_tokens: int, *rest: Any, **kwargs: Any
    ) -> Any:
        check, ident = self.report.check, request.request_id
        answer = call(request, num_computed_tokens, *rest, **kwargs)
        count, late = answer
        shaped = isinstance(late, bool) and (count is None or (type(count) is int and count >= 0))
        check(
            "connector-match-shape",
            shaped and (bool(count) or not late),
            "the match of {} is {}",
            ident,
            answer,
        )
        room = request.num_tokens - num_computed_tokens
        check(
            "connector-match-range",
            not count or count <= room,
            "{} has {} tokens left, {} match",
            ident,
            room,
            count,
        )
        if self.ledger.empty:
            check("connector-reset", not count, "{} matches {} tokens after a reset", ident, count)
        if self.twice and count is not None:
            again = call(request, num_computed_tokens, *rest, **kwargs)
            check(
                "connector-match-pure", again == answer, "{} matched {}, asked again {}", ident, answer, again
            )
        self.ledger.matched[ident] = count or 0
        (self.ledger.asynchronous.add if late else self.ledger.asynchronous.discard)(ident)
        return answer

    def _update_state_after_alloc(
        self, call: Callable[..., Any], request: Any, blocks: Any, num_external_tokens: int
    ) -> Any:
        ident = request.request_id
        most = self.ledger.matched.get(ident, 0)
        self._legal &= self.report.check(
            "engine-alloc-matched",
            num_external_tokens <= most,
            "{} gets {} of {}",
            ident,
            num_external_tokens,
            most,
        )
        result = call(request, blocks, num_external_tokens)
        if num_external_tokens and ident in self.ledger.asynchronous:
            self.ledger.loading[ident] = {int(block.block_id) for group in blocks.blocks for block in group}
        return result

    def _build_connector_meta(self, call: Callable[..., Any], scheduler_output: Any) -> Any:
        before = _outline(scheduler_output)
        metadata = call(scheduler_output)
        after = _outline(scheduler_output)
        changed = [name for name in before if before[name] != after.get(name)]
        self.report.check("connector-output-untouched", not changed, "{} changed", ", ".join(changed))
        return metadata

    def _update_connector_output(self, call: Callable[..., Any], connector_output: Any) -> None:
        # What the workers did since the reset may be there to be found from now on.
        self.ledger.empty = False
        call(connector_output)

    def _request_finished(self, call: Callable[..., Any], request: Any, block_ids: Any) -> Any:
        ident, check = request.request_id, self.report.check
        once = ident not in self.ledger.ended
        self._legal &= check("engine-finish-once", once, "the end of {} is told again", ident)
        answer = call(request, block_ids)
        shaped = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool)
        shaped = shaped and (answer[1] is None or isinstance(answer[1], dict))
        check(
            "connector-finished-shape", shaped, "the end of {} is answered with {}", ident, str(answer)[:80]
        )
        self.ledger.ended.add(ident)
        if shaped and answer[0]:
            self.ledger.held.add(ident)
        return answer

    _request_finished_all_groups = _request_finished

    def _reset_cache(self, call: Callable[..., Any]) -> Any:
        done = call()
        self.ledger.empty = bool(done)
        return done

    def _is_bound(self, name: str) -> None:
        self._legal &= self.report.check("engine-metadata", self.bound, "{} without metadata", name)


def _outline(output: Any) -> dict[str, Any]:
    """The fields of a scheduler's output that say what the step does, as plain data."""
    found: dict[str, Any] = {}
    for name in (
        "num_scheduled_tokens",
        "total_num_scheduled_tokens",
        "finished_req_ids",
        "preempted_req_ids",
    ):
        value = getattr(output, name, None)
        found[name] = (
            dict(value)
            if isinstance(value, dict)
            else set(value)
            if isinstance(value, (set, frozenset))
            else value
        )
    new = getattr(output, "scheduled_new_reqs", ())
    found["scheduled_new_reqs"] = [
        (r.req_id, tuple(map(tuple, r.block_ids)), r.num_computed_tokens) for r in new
    ]
    cached = getattr(output, "scheduled_cached_reqs", None)
    if cached is not None:
        blocks = [None if b is None else tuple(map(tuple, b)) for b in cached.new_block_ids]
        found["scheduled_cached_reqs"] = (list(cached.req_ids), blocks, list(cached.num_computed_tokens))
    return found


def watch_connector(
    connector: Any, report: Report, *, ledger: ConnectorLedger | None = None, twice: bool = False
) -> ConnectorWatch:
    """Check every call of one side of a KV connector.  A scheduler and a worker in one process share a ``ledger``."""
    return ConnectorWatch(connector, report, ConnectorLedger() if ledger is None else ledger, twice=twice)
