"""Writes an engine's own state into the page-event log before and after every step, to be compared with the model
afterwards. Runs inside an engine instance (``fuzzkv.targets.vllm.conform.observing:watch_pages`` among its watchers).

==================  =====================================================================================
``at:refs n*``      reference counts of blocks 1, 2, ...
``at:free n``       blocks that the pool says are free
``at:table r b*``   the blocks of request r, in order
``at:index b k *``  pairs: block b can be found under key k
``at:host k n *``   pairs: the host has key k, ready (1) or not (0)
``at:flight j*``    transfers whose bytes have not moved
``at:tokens r n *`` pairs: request r has n tokens computed
``at:end``          the look is complete
``at:poll``         the step's forward pass is over, and the tier is asked what has ended: a store that vLLM waited for ended before this
==================  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.engine.internals import LiveEngine
from fuzzkv.targets.vllm.engine.page_log import Journal
from fuzzkv.targets.vllm.engine.transfer_channel import Transfer
from fuzzkv.targets.vllm.schedule import LiveSchedule

LOOK: Final = "at:"
"""What the names of looked-at rows begin with."""


class PageWatcher:
    """Writes down where every page is; breaks nothing and judges nothing."""

    def begin(self, engine: LiveEngine, schedule: LiveSchedule) -> None:
        """Nothing has happened yet."""

    def before_step(self, engine: LiveEngine) -> None:
        """Arrivals, aborts and resets lie behind."""
        look(engine)

    def after_step(self, engine: LiveEngine) -> Iterable[Failure]:
        """A step lies behind."""
        look(engine)
        return ()

    def end(self, engine: LiveEngine) -> Iterable[Failure]:
        """Everything has ended."""
        look(engine)
        return ()


def watch_pages(engine: LiveEngine) -> PageWatcher:
    """The watcher of an engine. From now on its log says when the tier is asked what has ended."""
    poll = engine.link.poll

    def polled() -> list[Transfer]:
        engine.journal.add("at:poll")
        return poll()

    engine.link.poll = polled  # type: ignore[method-assign]
    return PageWatcher()


def look(engine: LiveEngine) -> None:
    """Append what the engine says to its journal."""
    journal = engine.journal
    journal.add("at:refs", *engine.references()[1 : engine.total() + 1])
    journal.add("at:free", engine.free_count())
    for name, blocks in sorted(engine.tables().items()):
        request = name.partition("/")[0]
        if request.startswith("r") and blocks:
            journal.add("at:table", int(request[1:]), *blocks)
    index = sorted((b, journal.key(k)) for k, blocks in engine.index().items() for b in blocks)
    journal.add("at:index", *[n for pair in index for n in pair])
    if engine.manager is not None:
        journal.add("at:host", *[n for pair in host_keys(engine.manager, journal) for n in pair])
    journal.add("at:flight", *[transfer.job for transfer in engine.link.pending()])
    tokens = [(r, engine.computed(r)) for r in engine.unfinished()]
    journal.add("at:tokens", *[n for pair in tokens for n in pair])
    journal.add("at:end")


def host_keys(manager: Any, journal: Journal) -> list[tuple[int, int]]:
    """The keys that the host tier's cache policy has, each with 1 if it can be loaded, asked through vLLM's CachePolicy interface."""
    return sorted(
        (number, int(status.is_ready))
        for key, number in known_keys(journal).items()
        if (status := manager._policy.get(key)) is not None
    )


def known_keys(journal: Journal) -> Mapping[bytes, int]:
    """All keys that a run has named so far."""
    return journal._keys
