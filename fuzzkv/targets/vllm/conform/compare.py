"""Compares an engine's own state with the model's at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fuzzkv.semantics.layout import ND
from fuzzkv.targets.vllm.conform.bookkeeping import Books
from fuzzkv.targets.vllm.conform.differences import STATE


@dataclass
class Look:
    """One look at an engine; ``looking`` says what the rows are."""

    refs: list[int] = field(default_factory=list)
    free: int = -1
    tables: dict[int, list[int]] = field(default_factory=dict)
    index: set[tuple[int, int]] = field(default_factory=set)
    host: dict[int, int] | None = None
    flight: set[int] = field(default_factory=set)

    def take(self, what: str, numbers: Sequence[int]) -> None:
        """Read one row."""
        pairs = list(zip(numbers[::2], numbers[1::2], strict=False))
        if what == "refs":
            self.refs = list(numbers)
        elif what == "free":
            self.free = numbers[0]
        elif what == "table":
            self.tables[numbers[0]] = list(numbers[1:])
        elif what == "index":
            self.index = set(pairs)
        elif what == "host":
            self.host = dict(pairs)
        elif what == "flight":
            self.flight = set(numbers)


def compare(books: Books, look: Look) -> None:
    """Note every difference. Raises ``Stop`` at the first that nothing explains."""
    before, books.standing = books.standing, set()
    books.lasting = before
    _tables(books, look)
    _references(books, look)
    _index(books, look)
    _host(books, look)
    _flight(books, look)
    books.lasting = set()


def _tables(books: Books, look: Look) -> None:
    for request in sorted(set(look.tables) | {r for r, held in books.held.items() if held}):
        blocks = look.tables.get(request, [])
        frames: list[int] = []
        if request in books.slots and books.slots[request] not in books.lingering:
            frames = [f for f in books.mirror.frames_of(books.slots[request]) if f >= 0]
        if [books.frame.get(b, -1) for b in blocks] != frames:
            books.differ(
                STATE, "table", f"request {request} has blocks {blocks}, in the model frames {frames}"
            )


def _references(books: Books, look: Look) -> None:
    mirror = books.mirror
    entries = list(mirror.device_entries().values())
    for block, count in enumerate(look.refs, 1):
        frame = books.frame.get(block, -1)
        own = (
            mirror.at("D_REF", frame) - entries.count(frame) - books.lingering_pages(frame)
            if frame >= 0
            else 0
        )
        if own != count:
            books.differ(STATE, "references", f"block {block} has {count} references, {own} in the model")
    # Frames that only lingering sessions have are free in the engine.
    behind = sum(
        mirror.at("D_PAGE", f) >= 0 and mirror.at("D_REF", f) - entries.count(f) == books.lingering_pages(f)
        for f in range(ND)
    )
    if mirror.free() + behind != look.free:
        books.differ(STATE, "free", f"{look.free} blocks are free, {mirror.free() + behind} in the model")


def _index(books: Books, look: Look) -> None:
    there = books.mirror.device_entries()
    ours = {pair for x, pair in books.entries.items() if there.get(x) == books.frame.get(pair[0], -1)}
    theirs = look.index - books.twins
    if ours != theirs or len(ours) != len(there):
        text = f"the index has {sorted(theirs - ours)} more (block, key) than the model, and lacks {sorted(ours - theirs)}"
        books.differ(STATE, "index", text)


def _host(books: Books, look: Look) -> None:
    if look.host is None:
        return
    entries = books.mirror.store_entries()
    for key in sorted(set(look.host) | set(books.stored)):
        engine = look.host.get(key, -1)
        x = books.stored.get(key, -1)
        model = int(entries[x]) if x in entries else -1
        if engine == 1 and key not in books.heard:
            books.differ(
                STATE, "host-early", f"key {key} can be loaded, and nobody said that its store ended"
            )
        if engine == model:
            continue
        jobs = [job for job in books.jobs.values() if job.store and key in job.keys]
        books.differ(
            STATE, "host", f"key {key} on the host: {_word(engine)}, in the model {_word(model)}",
            engine=engine, model=model, begun=int(bool(jobs)), moved=int(any(job.moved for job in jobs)),
            offered=int(any(key in o.keys and not o.begun for o in books.offers)), heard=int(key in books.heard),
        )  # fmt: skip
    if len(entries) != len(books.stored):
        books.differ(
            STATE, "host-entries", f"{len(entries)} stored pages in the model, {len(books.stored)} keys"
        )


def _flight(books: Books, look: Look) -> None:
    ours = {number for number, job in books.jobs.items() if not job.moved}
    copies = len(books.mirror.copies())
    pages = sum(len(books.jobs[number].pages) for number in ours)
    if ours != look.flight or pages != copies:
        books.differ(
            STATE,
            "flight",
            f"transfers {sorted(look.flight)} are under way, in the model {sorted(ours)} ({copies} copies)",
        )


def _word(state: int) -> str:
    return {-1: "not there", 0: "coming", 1: "there"}.get(state, str(state))
