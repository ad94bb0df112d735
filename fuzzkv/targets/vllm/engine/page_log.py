"""The page-event log of a run and the counters beside it. Standard library only.

An entry is ``(what, number, ...)``. Requests are numbered in their order of arrival, keys of pages in their order of appearance,
transfers from 0, device blocks and host pages as the engine numbers them: two runs of one schedule give the same log.

==============  ==================================================================================
``step n``      engine step n begins
``alloc r b*``  request r gets blocks
``hit r b*``    request r shares cached blocks
``free r b*``   blocks lose one reference (r: -1 where nobody's)
``publish b k`` block b can be found under key k
``evict b``     block b can't be found any more
``preempt r``   request r loses its blocks
``offer r k*``  keys that the host tier accepts for request r
``drop k*``     keys that the host tier evicts for that
``ready k*``    stored keys that can be loaded now
``lost k*``     keys whose store failed
``claim r k*``  keys that request r is about to load
``release k*``  keys whose load has ended
``store+ j d h ...``, ``load+``     a transfer begins: pairs of device block and host page
``store- j``, ``load-``             its bytes moved
``store! j``, ``load! j``           an attempt failed, nothing copied; ``store~``, ``load~`` half of it copied
``store= j``, ``load= j``           the engine is told
``arrive r``, ``abort r``, ``finish r``, ``reset n``   requests; reset_prefix_cache (1: the connector's cache too) worked or not
==============  ==================================================================================
"""

from __future__ import annotations

from collections import Counter

Entry = tuple[int | str, ...]


class Journal:
    """Entries and counters of one run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.counters: Counter[str] = Counter()
        self.request = -1
        """The request on whose behalf the engine is acting; -1: nobody's."""
        self._keys: dict[bytes, int] = {}

    def add(self, what: str, *numbers: int) -> None:
        """Append an entry."""
        self.entries.append((what, *numbers))

    def count(self, name: str, by: int = 1) -> None:
        """Raise a counter."""
        self.counters[name] += by

    def key(self, key: bytes) -> int:
        """The number of a page's key."""
        return self._keys.setdefault(key, len(self._keys))

    def clear(self) -> None:
        """Forget everything, for the next run."""
        self.entries, self.counters, self.request, self._keys = [], Counter(), -1, {}
