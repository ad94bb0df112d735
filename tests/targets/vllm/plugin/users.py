"""Code that plugs into vLLM, written here: clean twins, and one mutant for each rule that it can break."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from types import SimpleNamespace
from typing import Any


class Oldest:
    """A clean cache policy: evicts what was used longest ago. Asks for nothing of the engine."""

    def __init__(self, cache_capacity: int) -> None:
        self.cache_capacity = cache_capacity
        self.chunks: dict[bytes, Any] = {}

    def get(self, key: bytes) -> Any:
        return self.chunks.get(key)

    def insert(self, key: bytes, chunk: Any) -> None:
        self.chunks[key] = chunk

    def remove(self, key: bytes) -> None:
        del self.chunks[key]

    def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
        for key in keys:
            if key in self.chunks:
                self.chunks[key] = self.chunks.pop(key)

    def on_store_miss(self, keys: Iterable[bytes], req_context: Any) -> None:
        self.touch(keys, req_context)

    def on_request_finished(
        self, key_groups: Sequence[Sequence[bytes]], new: Any, used: Any, req_context: Any
    ) -> None:
        for keys in key_groups:
            self.touch(keys, req_context)

    def free(self, protected: set[bytes]) -> list[bytes]:
        return [key for key, chunk in self.chunks.items() if chunk.ref_cnt == 0 and key not in protected]

    def take(self, keys: Iterable[bytes]) -> list[tuple[bytes, Any]]:
        return [(key, self.chunks.pop(key)) for key in keys]

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        free = self.free(protected)
        return self.take(free[:n]) if len(free) >= n else None

    def clear(self) -> None:
        self.chunks.clear()

    def mark_evictable(self, key: bytes) -> None: ...

    def mark_non_evictable(self, key: bytes) -> None: ...


def mutants_of_policies() -> dict[str, type[Oldest]]:
    """Rule to a policy that breaks this rule, and this one first."""

    class TrimsItself(Oldest):
        def insert(self, key: bytes, chunk: Any) -> None:
            super().insert(key, chunk)
            self.take(self.free(set())[: max(0, len(self.chunks) - self.cache_capacity + 1)])

    class EvictsOneMore(Oldest):
        def evict(self, n: int, protected: set[bytes]) -> Any:
            free = self.free(protected)
            return self.take(free[: n + 1]) if len(free) >= n else None

    class EvictsProtected(Oldest):
        def free(self, protected: set[bytes]) -> list[bytes]:
            return super().free(set())

    class EvictsRead(Oldest):
        def free(self, protected: set[bytes]) -> list[bytes]:
            return [key for key, chunk in self.chunks.items() if chunk.ref_cnt >= 0 and key not in protected]

    class EvictsInName(Oldest):
        def take(self, keys: Iterable[bytes]) -> list[tuple[bytes, Any]]:
            return [(key, self.chunks[key]) for key in keys]

    class NoneCosts(Oldest):
        def evict(self, n: int, protected: set[bytes]) -> Any:
            free = self.free(protected)
            if len(free) >= n:
                return self.take(free[:n])
            self.touch(free[:1], None)  # no membership changes: only what comes after does
            return None

    class GivesUp(Oldest):
        def evict(self, n: int, protected: set[bytes]) -> Any:
            free = self.free(protected)
            return self.take(free[:n]) if len(free) > n else None

    class KeepsFailed(Oldest):
        def remove(self, key: bytes) -> None: ...

    class TouchDrops(Oldest):
        def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
            for key in list(keys)[3:]:
                self.chunks.pop(key, None)

    class Counts(Oldest):
        def on_request_finished(self, key_groups: Any, new: Any, used: set[bytes], req_context: Any) -> None:
            for key in used & self.chunks.keys():
                self.chunks[key].ref_cnt += 1

    class ClearSpares(Oldest):
        def clear(self) -> None:
            self.chunks = {key: chunk for key, chunk in self.chunks.items() if chunk.ref_cnt > 0}

    class ClearRemembers(Oldest):
        def __init__(self, cache_capacity: int) -> None:
            super().__init__(cache_capacity)
            self.newest_first = False

        def on_request_finished(self, key_groups: Any, new: Any, used: Any, req_context: Any) -> None:
            self.newest_first = True

        def free(self, protected: set[bytes]) -> list[bytes]:
            free = super().free(protected)
            return free[::-1] if self.newest_first else free

    class WantsPresent(Oldest):
        def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
            for key in keys:
                self.chunks[key] = self.chunks.pop(key)

    return {
        "policy-get": TrimsItself,
        "policy-evict-exact": EvictsOneMore,
        "policy-evict-protected": EvictsProtected,
        "policy-evict-idle": EvictsRead,
        "policy-evict-truth": EvictsInName,
        "policy-evict-none": NoneCosts,
        "policy-evict-able": GivesUp,
        "policy-remove": KeepsFailed,
        "policy-keep": TouchDrops,
        "policy-owner": Counts,
        "policy-clear": ClearSpares,
        "policy-clear-forgets": ClearRemembers,
        "policy-returns": WantsPresent,
    }


class LookupResult(Enum):
    """The answers of vLLM's enumeration, by name."""

    MISS = auto()
    HIT = auto()
    HIT_PENDING = auto()
    RETRY = auto()


class Shelf:
    """A clean offloading manager: chunks in places, the one stored longest ago goes first. Asks for nothing of the engine."""

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.empty()
        self.events: list[Any] = []

    def empty(self) -> None:
        self.places = list(range(self.frames))
        self.at: dict[bytes, int] = {}
        self.ready: set[bytes] = set()
        self.readers: dict[bytes, int] = {}

    def on_new_request(self, req_context: Any) -> Any:
        return SimpleNamespace(policy=SimpleNamespace(name="CHUNK_LEVEL"))

    def on_request_finished(self, req_context: Any) -> None: ...

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:
        if key not in self.at:
            return LookupResult.MISS
        return LookupResult.HIT if key in self.ready else LookupResult.HIT_PENDING

    def touch(self, keys: Iterable[bytes], req_context: Any) -> None: ...

    def prepare_load(self, keys: Iterable[bytes], req_context: Any) -> Any:
        keys = list(keys)
        for key in keys:
            self.readers[key] = self.readers.get(key, 0) + 1
        return SimpleNamespace(block_ids=[self.at[key] for key in keys])

    def complete_load(self, keys: Iterable[bytes], req_context: Any) -> None:
        for key in keys:
            self.readers[key] -= 1

    def may_go(self, offered: Sequence[bytes]) -> list[bytes]:
        return [k for k in self.at if k in self.ready and not self.readers.get(k) and k not in offered]

    def wanted(self, offered: Sequence[bytes]) -> list[bytes]:
        return [key for key in offered if key not in self.at]

    def prepare_store(self, keys: Iterable[bytes], req_context: Any) -> Any:
        offered = list(keys)
        store = self.wanted(offered)
        gone = self.may_go(offered)[: max(0, len(store) - len(self.places))]
        if len(store) > len(self.places) + len(gone):
            return None
        for key in gone:
            self.drop(key)
        for key in store:
            self.at[key] = self.places.pop()
        if gone:
            self.events.append(SimpleNamespace(keys=gone, removed=True))
        spec = SimpleNamespace(block_ids=[self.at[key] for key in store])
        return SimpleNamespace(keys_to_store=store, store_spec=spec, evicted_keys=gone)

    def drop(self, key: bytes) -> None:
        self.places.append(self.at.pop(key))
        self.ready.discard(key)
        self.readers.pop(key, None)

    def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
        keys = [key for key in keys if key in self.at and key not in self.ready]
        if success:
            self.ready |= set(keys)
            self.events.append(SimpleNamespace(keys=keys, removed=False))
        else:
            for key in keys:
                self.drop(key)

    def take_events(self) -> Iterable[Any]:
        yield from self.events
        self.events.clear()

    def on_schedule_end(self, context: Any) -> None: ...

    def has_pending_work(self) -> bool:
        return False

    def reset_cache(self) -> None:
        self.empty()


def mutants_of_managers() -> dict[str, Callable[[int], Shelf]]:
    """Rule to a manager that breaks this rule, and this one first."""

    class HitsTooSoon(Shelf):
        def lookup(self, key: bytes, req_context: Any) -> LookupResult:
            return LookupResult.HIT if key in self.at else LookupResult.MISS

    class PendsForever(Shelf):
        def lookup(self, key: bytes, req_context: Any) -> LookupResult:
            found = super().lookup(key, req_context)
            return LookupResult.HIT_PENDING if found is LookupResult.MISS else found

    class DropsSilently(Shelf):
        def prepare_store(self, keys: Iterable[bytes], req_context: Any) -> Any:
            output = super().prepare_store(keys, req_context)
            if output is not None:
                output.evicted_keys = output.evicted_keys[1:]
            return output

    class ForgetsPin(Shelf):
        def prepare_load(self, keys: Iterable[bytes], req_context: Any) -> Any:
            return SimpleNamespace(block_ids=[self.at[key] for key in keys])

        def complete_load(self, keys: Iterable[bytes], req_context: Any) -> None: ...

    class EvictsUnstored(Shelf):
        def may_go(self, offered: Sequence[bytes]) -> list[bytes]:
            return [key for key in self.at if not self.readers.get(key) and key not in offered]

    class SwapsPlaces(Shelf):
        def prepare_load(self, keys: Iterable[bytes], req_context: Any) -> Any:
            spec = super().prepare_load(keys, req_context)
            return SimpleNamespace(block_ids=spec.block_ids[::-1])

    class StoresStrange(Shelf):
        def wanted(self, offered: Sequence[bytes]) -> list[bytes]:
            wanted = super().wanted(offered)
            return [*wanted, b"strange!"] if len(wanted) == 2 and self.frames > 2 else wanted

    class StoresTwice(Shelf):
        def wanted(self, offered: Sequence[bytes]) -> list[bytes]:
            return list(offered)

    class Backwards(Shelf):
        def wanted(self, offered: Sequence[bytes]) -> list[bytes]:
            return super().wanted(offered)[::-1]

    class SharesPlace(Shelf):
        def drop(self, key: bytes) -> None:
            place = self.at[key]
            super().drop(key)
            self.places.append(place)

    class EvictsOffered(Shelf):
        def may_go(self, offered: Sequence[bytes]) -> list[bytes]:
            return super().may_go(())

    class NeverReady(Shelf):
        def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
            super().complete_store(list(keys)[:2], req_context, success)

    class KeepsFailed(Shelf):
        def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
            super().complete_store(keys, req_context)

    class LeaksPlace(Shelf):
        def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
            places = list(self.places)
            super().complete_store(keys, req_context, success)
            if not success:
                self.places = places

    class NeverUnpins(Shelf):
        def complete_load(self, keys: Iterable[bytes], req_context: Any) -> None: ...

    class TellsTwice(Shelf):
        def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
            super().complete_store(keys, req_context, success)
            self.events += [event for event in self.events if not event.removed]

    class TouchDrops(Shelf):
        def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
            for key in list(keys)[:1]:
                if key in self.ready and not self.readers.get(key):
                    self.drop(key)

    class ResetSpares(Shelf):
        def reset_cache(self) -> None:
            kept, ready = dict(self.at), set(self.ready)
            self.empty()
            self.at, self.ready = kept, ready
            self.places = [place for place in self.places if place not in kept.values()]

    class ResetRemembers(Shelf):
        def __init__(self, frames: int) -> None:
            super().__init__(frames)
            self.offers: set[bytes] = set()

        def wanted(self, offered: Sequence[bytes]) -> list[bytes]:
            known = [key for key in super().wanted(offered) if key in self.offers]
            self.offers |= set(offered)
            return known

    class ForgetsFinished(Shelf):
        def on_request_finished(self, req_context: Any) -> None:
            req_context.kv_transfer_params = {"gone": True}

        def complete_store(self, keys: Iterable[bytes], req_context: Any, success: bool = True) -> None:
            if req_context.kv_transfer_params:
                raise KeyError(req_context.req_id)
            super().complete_store(keys, req_context, success)

    class AlwaysBusy(Shelf):
        def has_pending_work(self) -> bool:
            return True

    class AlwaysLater(Shelf):
        def lookup(self, key: bytes, req_context: Any) -> LookupResult:
            return LookupResult.MISS if key in self.at and key not in self.ready else LookupResult.RETRY

    class SaysYes(Shelf):
        def lookup(self, key: bytes, req_context: Any) -> Any:
            return SimpleNamespace(name="YES")

    class Fragile(Shelf):
        def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
            for key in keys:
                self.at[key] = self.at.pop(key)

    return {
        "manager-hit-ready": HitsTooSoon,
        "manager-pending": PendsForever,
        "manager-told": DropsSilently,
        "manager-load-pin": ForgetsPin,
        "manager-store-pin": EvictsUnstored,
        "manager-load-places": SwapsPlaces,
        "manager-store-offered": StoresStrange,
        "manager-store-once": StoresTwice,
        "manager-store-order": Backwards,
        "manager-store-places": SharesPlace,
        "manager-evicted": EvictsOffered,
        "manager-stored": NeverReady,
        "manager-failed": KeepsFailed,
        "manager-room": LeaksPlace,
        "manager-room again": NeverUnpins,
        "manager-events": TellsTwice,
        "manager-touch": TouchDrops,
        "manager-reset": ResetSpares,
        "manager-reset-forgets": ResetRemembers,
        "manager-late": ForgetsFinished,
        "manager-idle": AlwaysBusy,
        "manager-answer": AlwaysLater,
        "manager-shape": SaysYes,
        "manager-returns": Fragile,
    }
