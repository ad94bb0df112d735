"""Oracles of cached bytes that no request holds: a store's bytes on the host, compared with the block that its key
described when the store began (I4), and pages that the device's prefix cache offers (I8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.content.canary import Canary
from fuzzkv.targets.vllm.content.layout import Bytes
from fuzzkv.targets.vllm.content.naming import Known

Entry = tuple[int | str, ...]
Keys = Sequence[bytes]


class StoredPages:
    """Follows stores through the page-event log. ``checked`` counts host pages that were compared."""

    def __init__(self, canary: Canary) -> None:
        self.canary, self.checked = canary, 0
        self._jobs: dict[int, list[tuple[int, int, Known | None]]] = {}
        self._read = 0

    def read(self, entries: Sequence[Entry], host: Sequence[Bytes]) -> list[Failure]:
        """Take in what was added to the log since the last call: what is wrong in host pages whose store has ended. ``host`` is one
        array a layer, (host pages, page bytes). Call it before the device's pages are looked at again, so that what is known of
        them is from before the store.
        """
        ended: list[int] = []
        for what, *numbers in entries[self._read :]:
            if what == "store+":
                job, *pairs = (int(n) for n in numbers)
                pages = zip(pairs[::2], pairs[1::2], strict=True)
                self._jobs[job] = [(d, h, self.canary.known(d)) for d, h in pages]
            elif what == "store-":
                ended.append(int(numbers[0]))
        self._read = len(entries)
        # A host page that another store is filling by now says nothing.
        taken = {h for job, pages in self._jobs.items() if job not in ended for _, h, _ in pages}
        # Nor does one that was filled twice since: after a reset of the tier, late stores end in pages that are given out anew.
        last = {h: job for job in ended for _, h, _ in self._jobs.get(job, ())}
        found = []
        for job in ended:
            for device, page, known in self._jobs.pop(job, ()):
                if known is None or known.identity[1] < 0 or page in taken or last[page] != job:
                    continue
                self.checked += 1
                layer = self._wrong(known, page, host)
                if layer >= 0:
                    found.append(self._told(job, device, page, known, layer, host))
        return found

    def _wrong(self, known: Known, page: int, host: Sequence[Bytes]) -> int:
        adapter, number, *_ = known.identity
        for layer, rows in enumerate(host):
            if not self.canary.reader.same_block(rows[page], layer, adapter, number):
                return layer
        return -1

    def _told(
        self, job: int, device: int, page: int, known: Known, layer: int, host: Sequence[Bytes]
    ) -> Failure:
        block = known.start // self.canary.layout.block
        first = self.canary.read(host[0][page], known.identity[0])[0]
        holds = "nothing" if first == (-1, -1) else f"token {first[0]} at {first[1]}" if first else "neither"
        text = (
            f"store {job} should have kept block {block} of request {known.request} (device page {device}) in host page {page}; "
            f"layer {layer} is another's, and its first slot reads {holds}"
        )
        return Failure("I4", "miscopied", request=known.request, page=page, text=text)


class CachedPages:
    """Pages that can be found by their key and that nobody holds: their bytes may not change while they keep it."""

    def __init__(self, canary: Canary) -> None:
        self.canary = canary
        self._keys: dict[int, tuple[bytes, ...]] = {}
        self._held: dict[int, Known] = {}

    def look(self, pages: Sequence[Bytes], keys: Mapping[int, Keys], held: Collection[int]) -> list[Failure]:
        """After the canary's own look: what was spoiled since the last one. ``keys``: those of every block that has some; ``held``:
        pages that running requests read (a page counts from when it was seen right under its key)."""
        same = {page for page, mine in keys.items() if self._keys.get(page) == tuple(mine)}
        found = [
            self._told(page, layer)
            for page in sorted(self.canary.unseen & self._held.keys() & same)
            if (layer := self._wrong(page, pages)) >= 0
        ]
        kept = {p: k for p, k in self._held.items() if p in same and p not in self.canary.unseen}
        for page in keys:
            known = self.canary.known(page)
            if page in held and known is not None and known.identity[1] >= 0:
                kept[page] = known
        self._held, self._keys = kept, {page: tuple(mine) for page, mine in keys.items()}
        return found

    def _wrong(self, page: int, pages: Sequence[Bytes]) -> int:
        adapter, number, *_ = self._held[page].identity
        for layer, rows in zip(self.canary.layers, pages, strict=True):
            if not self.canary.reader.same_block(rows[page], layer, adapter, number):
                return layer
        return -1

    def _told(self, page: int, layer: int) -> Failure:
        known = self._held[page]
        text = (
            f"page {page} is in the prefix cache as block {known.start // self.canary.layout.block} of request {known.request}, "
            f"and its layer {layer} was overwritten there"
        )
        return Failure("I8", "overwritten", page=page, text=text)
