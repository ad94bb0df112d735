"""A watch on a vLLM ``OffloadingManager``: which blocks it holds, who reads them, what it tells, and how vLLM calls it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fuzzkv.targets.vllm.plugin.record import Report
from fuzzkv.targets.vllm.plugin.watching import Watch

Key = Any


@dataclass
class StoredBlock:
    """A block in the manager: the place of its bytes (-1: not known), whether its store is complete, how many loads read it."""

    place: int
    ready: bool = False
    loads: int = 0


class ManagerWatch(Watch):
    """The ledger: each block whose store was prepared and that wasn't told as gone since.

    ``sole``: nobody else puts blocks in or takes them out; False for managers of several tiers, which promote by
    themselves, and then what a lookup finds isn't checked.
    """

    returns = "manager-returns"

    def __init__(self, manager: Any, report: Report, *, sole: bool = True) -> None:
        super().__init__(manager, report)
        self.sole = sole
        self.held: dict[Key, StoredBlock] = {}
        self.failed: set[Key] = set()
        self.open: set[str] = set()
        self.untold: dict[Key, list[bool]] = {}
        self.events = False
        self.dropped: set[Key] = set()
        self.torn: set[Key] = set()
        self._late = False
        for name in (
            "on_new_request",
            "on_request_finished",
            "lookup",
            "touch",
            "prepare_load",
            "complete_load",
            "prepare_store",
            "complete_store",
            "take_events",
            "reset_cache",
        ):
            self.around(name, getattr(self, f"_{name}"))

    def forget(self) -> None:
        """The manager is empty, and no request is open."""
        for ledger in (self.held, self.failed, self.open, self.untold, self.dropped, self.torn):
            ledger.clear()

    def settled(self) -> None:
        """Say that the engine is idle: every transfer that was prepared must have been completed."""
        for key, held in self.held.items():
            done = held.ready and not held.loads
            what = f"{held.loads} loads" if held.ready else "a store"
            self.report.check(
                "engine-completes", done, "{} still has {} under way", key, what, page=held.place
            )

    def _on_new_request(self, call: Callable[..., Any], req_context: Any) -> Any:
        answer = call(req_context)
        kind = getattr(getattr(answer, "policy", None), "name", "")
        self.report.check(
            "manager-shape",
            kind in ("CHUNK_LEVEL", "REQUEST_LEVEL"),
            "on_new_request gave a {}",
            type(answer).__name__,
        )
        self.open.add(req_context.req_id)
        return answer

    def _on_request_finished(self, call: Callable[..., Any], req_context: Any) -> Any:
        self.open.discard(req_context.req_id)
        return call(req_context)

    def _lookup(self, call: Callable[..., Any], key: Key, req_context: Any) -> Any:
        self._is_open(req_context, "lookup")
        answer = call(key, req_context)
        self.judge(key, getattr(answer, "name", ""))
        return answer

    def judge(self, key: Key, answer: str) -> None:
        """Whether a lookup may say this of a block."""
        check, held = self.report.check, self.held.get(key)
        known = answer in ("MISS", "HIT", "HIT_PENDING", "RETRY")
        check("manager-shape", known, "lookup gave {}", answer or "something that is no LookupResult")
        if not self.sole:
            return
        ready, gone = held is not None and held.ready, answer in ("MISS", "RETRY")
        if key in self.failed:
            check("manager-failed", gone, "lookup of {}, whose store failed, gave {}", key, answer)
        elif key in self.dropped:
            check("manager-reset", gone, "lookup of {} after a reset gave {}", key, answer)
        elif answer == "HIT":
            check("manager-hit-ready", ready, "{} is a hit, but {}", key, self._state(key))
        if answer == "HIT_PENDING":
            check("manager-pending", held is not None, "{} is pending, but {}", key, self._state(key))
        if ready:
            still = answer in ("HIT", "RETRY")
            check("manager-told", still, "{} was stored and not told as gone, yet {}", key, answer)

    def _touch(self, call: Callable[..., Any], keys: Iterable[Key], req_context: Any) -> Any:
        keys = list(keys)
        result = call(keys, req_context)
        self._recheck("manager-touch", req_context)
        return result

    def _prepare_load(self, call: Callable[..., Any], keys: Collection[Key], req_context: Any) -> Any:
        keys, check = list(keys), self.report.check
        self._is_open(req_context, "prepare_load")
        for key in keys:
            held = self.held.get(key)
            known = not self.sole or (held is not None and held.ready)
            self._legal &= check(
                "engine-load-known", known, "prepare_load of {}, but {}", key, self._state(key)
            )
        spec = call(keys, req_context)
        places = _places(spec)
        if places is not None and self._legal and self.sole:
            meant = [self.held[key].place for key in keys]
            check(
                "manager-load-places", places == meant, "{} lie at {}, the load reads {}", keys, meant, places
            )
        for key in keys:
            self.held.setdefault(key, StoredBlock(-1, ready=True)).loads += 1
        return spec

    def _complete_load(self, call: Callable[..., Any], keys: Collection[Key], req_context: Any) -> Any:
        keys = list(keys)
        for key in keys:
            held = self.held.get(key)
            reads = (held is not None and held.loads > 0) or key in self.torn
            self._legal &= self.report.check(
                "engine-complete-known", reads, "complete_load of {}, which no load reads", key
            )
            self.torn.discard(key)
            if held is not None and held.loads:
                held.loads -= 1
        return self._completed(call, keys, req_context)

    def _prepare_store(self, call: Callable[..., Any], keys: Collection[Key], req_context: Any) -> Any:
        offered, check = list(keys), self.report.check
        self._is_open(req_context, "prepare_store")
        output = call(offered, req_context)
        if output is None:
            self._recheck("manager-told", req_context)
            return None
        store, evicted = list(output.keys_to_store), list(output.evicted_keys)
        for i, key in enumerate(evicted):
            held = self.held.get(key)
            real = (held is not None or not self.sole) and key not in evicted[:i] and key not in offered
            check("manager-evicted", real, "told {} as evicted, {}", key, self._state(key))
            if held is None:
                continue
            check(
                "manager-store-pin", held.ready, "evicted {}, whose store is under way", key, page=held.place
            )
            check("manager-load-pin", not held.loads, "evicted {}, which a load reads", key, page=held.place)
            if held.loads or not held.ready:
                self.torn.add(key)  # its transfer will still be completed, and that is no fault of the engine
            del self.held[key]
            self.untold.setdefault(key, []).append(True)
        among = set(store) <= set(offered) and len(set(store)) == len(store)
        check("manager-store-offered", among, "offered {}, to store are {}", offered, store)
        twice = [key for key in store if key in self.held and self.sole]
        check("manager-store-once", not twice, "{} is there already and is to be stored again", twice)
        order = [key for key in offered if key in set(store)]
        check("manager-store-order", store == order, "offered {}, to store in the order {}", order, store)
        places = _places(output.store_spec)
        for key in [key for key, held in self.held.items() if held.ready and held.place in set(places or ())]:
            self._ask(
                "manager-told", key, True, req_context
            )  # its place is given away: perhaps it went untold
        self._take_in(store, places)
        return output

    def _take_in(self, store: list[Key], places: list[int] | None) -> None:
        if places is not None:
            used = {held.place: key for key, held in self.held.items()}
            clash = sorted({p for i, p in enumerate(places) if p in used or p in places[:i] or p < 0})
            if not self.sole:
                clash = []  # what promotions took and gave back isn't known
            self.report.check(
                "manager-store-places",
                len(places) == len(store) and not clash,
                "{} blocks go to {}, of which {} are taken",
                len(store),
                places,
                clash,
                page=clash[0] if clash else -1,
            )
        for i, key in enumerate(store):
            self.held[key] = StoredBlock(places[i] if places is not None and i < len(places) else -1)
            self.failed.discard(key)
            self.dropped.discard(key)

    def _complete_store(
        self, call: Callable[..., Any], keys: Collection[Key], req_context: Any, success: bool = True
    ) -> Any:
        keys = list(keys)
        stored = []
        for key in keys:
            held = self.held.get(key)
            pending = held is not None and not held.ready
            if key in self.torn:
                self.torn.discard(key)
                continue
            self._legal &= self.report.check(
                "engine-complete-known", pending, "complete_store of {}, but {}", key, self._state(key)
            )
            if pending:
                stored.append(key)
        result = self._completed(call, keys, req_context, success)
        for key in stored:
            if success:
                self.held[key].ready = True
                self.untold.setdefault(key, []).append(False)
            else:
                del self.held[key]
                self.failed.add(key)
            self._ask("manager-stored" if success else "manager-failed", key, success, req_context)
        return result

    def _completed(self, call: Callable[..., Any], keys: list[Key], req_context: Any, *success: bool) -> Any:
        self._late = req_context.req_id not in self.open
        result = call(keys, req_context, *success)
        if self._late:
            self.report.check("manager-late", True, "")
        self._late = False
        return result

    def _returns(self, name: str) -> str:
        return "manager-late" if self._late else self.returns

    def _take_events(self, call: Callable[..., Any]) -> Iterator[Any]:
        events = list(call() or ())
        self.events |= bool(events)
        for event in events:
            for key in event.keys:
                due = self.untold.get(key, [])
                right = bool(due) and due.pop(0) is bool(event.removed)
                word = "removed" if event.removed else "stored"
                right = right or (not self.sole)
                self.report.check("manager-events", right, "told {} as {}, which it wasn't", key, word)
        if self.events and self.sole:
            missed = [key for key, due in self.untold.items() if due]
            self.report.check("manager-events", not missed, "never told what became of {}", missed)
        self.untold.clear()
        return iter(events)

    def _reset_cache(self, call: Callable[..., Any]) -> Any:
        result = call()
        self.dropped |= {*self.held, *self.failed}
        self.held.clear()
        self.failed.clear()
        self.untold.clear()
        return result

    def _is_open(self, req_context: Any, name: str) -> None:
        ident = req_context.req_id
        self._legal &= self.report.check(
            "engine-request-open", ident in self.open, "{} for request {}, which isn't open", name, ident
        )

    def _ask(self, rule: str, key: Key, there: bool, req_context: Any) -> None:
        """Look a block up by ourselves, if the request may still be asked for."""
        if self.sole and req_context.req_id in self.open:
            answer = getattr(self.own("lookup")(key, req_context), "name", "")
            right = answer in ("HIT" if there else "MISS", "RETRY")
            self.report.check(rule, right, "lookup of {} gives {}", key, answer)

    def _recheck(self, rule: str, req_context: Any) -> None:
        for key, held in self.held.items():
            if held.ready:
                self._ask(rule, key, True, req_context)

    def _state(self, key: Key) -> str:
        held = self.held.get(key)
        if held is None:
            return "it isn't there" + (", its store failed" if key in self.failed else "")
        return f"it is there with {held.loads} loads" if held.ready else "its store is under way"


def _places(spec: Any) -> list[int] | None:
    """The places that a spec names; None for a spec of another kind."""
    ids = getattr(spec, "block_ids", None)
    return None if ids is None else [int(i) for i in ids]


def watch_manager(manager: Any, report: Report, *, sole: bool = True) -> ManagerWatch:
    """Check every call of ``manager``, which has to be empty now.  A scheduler's connector has it as ``manager``."""
    return ManagerWatch(manager, report, sole=sole)
