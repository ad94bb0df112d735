"""The oracles of a live run: bytes of blocks while it runs, tokens and host tier when it is over.

``ContentWatcher``
    reads the pages that every running request may read, after each step, with the canary, what the host tier has stored, and what
    the prefix cache offers. A page that a failed or short load should have filled, and that is read all the same, is I16.
``token_violations``
    compares the tokens of a run with those of an isolated control (or of another arm). A first difference where the control's
    own two best logits nearly tie is a numeric tie and no violation.
``inert_tier``
    a tier that was filled, was asked for the same prefixes again, and never served one (I15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.content.canary import Canary
from fuzzkv.targets.vllm.content.layout import Bytes, find_layout
from fuzzkv.targets.vllm.content.naming import Held, PageMismatch
from fuzzkv.targets.vllm.content.stored import CachedPages, StoredPages
from fuzzkv.targets.vllm.engine.models import adapter, build
from fuzzkv.targets.vllm.history import LiveHistory

NOISE: Final = 1e-5
"""Nats. A difference of tokens counts only where the control's best logit leads by more. Measured on the CPU build over 9,894 tokens
of 797 requests (float32 and fp8 caches; busy batches, chunks and preemption against each request alone): no gap moved by more than
the 5e-7 of its own rounding, and no token differed. Measure again for another device."""

ENCODINGS: Final[Mapping[str, str]] = {"auto": "float32", "fp8": "fp8_e4m3"}
"""Number formats behind vLLM's own names of cache dtypes; other names are their own."""

REPEATS: Final = 3
"""Prefixes asked for again before a tier that serves none of them is called inert."""


class EngineView(Protocol):
    """The view of an engine that the content oracle reads (or of a toy, in tests)."""

    requests: Sequence[Any]
    journal: Any

    def unfinished(self) -> Sequence[int]:
        """Requests that are alive."""
        ...

    def status(self, number: int) -> str:
        """The scheduler's word for a request."""
        ...

    def computed(self, number: int) -> int:
        """How many of its tokens have KV."""
        ...

    def blocks_of(self, number: int, group: int = 0) -> Sequence[int]:
        """Its blocks in a KV group, in order; 0 where it has none any more."""
        ...

    def hashes(self) -> Mapping[int, Sequence[bytes]]:
        """The keys of every block that the prefix cache can find."""
        ...

    def host_bytes(self) -> Sequence[Bytes]:
        """The host tier's pages, layer by layer; empty where they can't be read."""
        ...


class ContentWatcher:
    """A watcher of the driver. ``canaries``: one for every KV group; ``pages(engine)`` gives the pages of each layer as bytes;
    ``every``: look after every so many steps (and at the end).
    """

    def __init__(
        self, canaries: Sequence[Canary], pages: Callable[[Any], Sequence[Bytes]], *, every: int = 1
    ) -> None:
        self.canaries, self.pages, self.every = tuple(canaries), pages, every
        self._failed, self._stored = FailedLoads(), StoredPages(self.canaries[0])
        self._cached = CachedPages(self.canaries[0])
        self._spoiled: set[int] = set()
        self._told_of: set[tuple[int, int]] = set()
        self._steps = 0

    def begin(self, engine: Any, schedule: object) -> None:
        """A new run on an engine that is as at birth."""
        for canary in self.canaries:
            canary.forget()
        self._failed, self._stored = FailedLoads(), StoredPages(self.canaries[0])
        self._cached = CachedPages(self.canaries[0])
        self._spoiled, self._told_of, self._steps = set(), set(), 0

    def before_step(self, engine: Any) -> None:
        """Nothing to see yet."""

    def after_step(self, engine: Any) -> Iterable[Failure]:
        """Violations in the pages that running requests would read."""
        self._steps += 1
        return self._look(engine) if self._steps % self.every == 0 else ()

    def end(self, engine: Any) -> Iterable[Failure]:
        """A last look."""
        return self._look(engine)

    def _look(self, engine: EngineView) -> list[Failure]:
        self._failed.read(engine.journal.entries)
        running = [n for n in engine.unfinished() if engine.status(n) == "RUNNING"]
        kept = self._kept(engine)
        layers, found = self.pages(engine), list[PageMismatch]()
        for group, canary in enumerate(self.canaries):
            held, before = [], canary.checked
            for number in running:
                request = engine.requests[number]
                tokens = (*request.prompt, *request.tokens)
                computed = min(engine.computed(number), len(tokens))
                blocks = engine.blocks_of(number, group)
                held.append(Held(number, tokens, computed, blocks, request.adapter))
            mine = [layers[i] for i in canary.layers]
            found += canary.check(mine, held)
            if len(self.canaries) == 1:
                kept += self._cached.look(mine, engine.hashes(), {b for one in held for b in one.blocks})
            engine.journal.count("pages_checked", canary.checked - before)
        told = kept
        for finding in found:
            # What a request computes after it read a wrong page is wrong as well: that is no finding of its own.
            follows = finding.what in ("context", "adapter") and finding.request in self._spoiled
            if not follows and (finding.request, finding.page) not in self._told_of:
                told.append(self._told(finding))
            self._spoiled.add(finding.request)
            self._told_of.add((finding.request, finding.page))
        return told

    def _kept(self, engine: EngineView) -> list[Failure]:
        host = engine.host_bytes()
        if not host:
            return []
        before = self._stored.checked
        found = self._stored.read(engine.journal.entries, host)
        engine.journal.count("host_pages_checked", self._stored.checked - before)
        return found

    def _told(self, finding: PageMismatch) -> Failure:
        invariant, what, text = finding.invariant, finding.what, finding.text
        if finding.page in self._failed.pages:
            # What the page held before is chance, so it makes no kinds of its own.
            invariant, what = "I16", "unfilled"
            text = f"a load into page {finding.page} failed and was served all the same: {text}"
        return Failure(invariant, what, request=finding.request, page=finding.page, text=text)


class FailedLoads:
    """Device pages whose last load failed or was cut short, read from the page-event log."""

    def __init__(self) -> None:
        self.pages: set[int] = set()
        self._into: dict[int, tuple[int, ...]] = {}
        self._read = 0

    def read(self, entries: Sequence[tuple[int | str, ...]]) -> None:
        """Take in what was added to the log since the last call."""
        for what, *numbers in entries[self._read :]:
            if what == "load+":
                self._into[int(numbers[0])] = tuple(int(n) for n in numbers[1::2])
            elif what in ("load!", "load~"):
                self.pages.update(self._into.get(int(numbers[0]), ()))
            elif what == "load-":
                self.pages.difference_update(self._into.get(int(numbers[0]), ()))
            elif what == "alloc":
                # A page that is given out anew no longer holds anyone's failed load.
                self.pages.difference_update(int(n) for n in numbers[1:])
        self._read = len(entries)


@dataclass(frozen=True)
class Answer:
    """The answer of a request on an isolated engine: greedy tokens, and at each the gap (nats) of the two best."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: failures, and how many first differences were numeric ties."""

    failures: tuple[Failure, ...]
    ties: int
    requests: int
    tokens: int


def token_violations(
    history: LiveHistory, answers: Sequence[Answer | None], *, noise: float = NOISE
) -> Compared:
    """Compare a run with the control's answers, one a request (None: the control has none).

    A request that was aborted is compared as far as it came. The invariant is that of what was found in the request's pages; where
    nothing was found, the pages are right and were read wrongly or written too late to be seen: I5 if pages were checked at all,
    else I3, and the text says which.
    """
    failures, ties, tokens = [], 0, 0
    checked = history.counters.get("pages_checked", 0) > 0
    causes = {v.request: v.invariant for v in reversed(history.failures) if v.action != "token"}
    for number, (made, answer) in enumerate(zip(history.tokens, answers, strict=True)):
        if answer is None:
            continue
        got = made[:-1] if made and made[-1] == -1 else made
        tokens += len(got)
        at = next((i for i, (a, b) in enumerate(zip(got, answer.tokens, strict=False)) if a != b), -1)
        if at < 0 and not (len(got) > len(answer.tokens) and len(made) == len(got)):
            continue
        if 0 <= at < len(answer.gaps) and answer.gaps[at] < noise:
            ties += 1
            continue
        known = causes.get(number)
        why = (
            "its pages were found wrong before"
            if known
            else "none of its pages was found wrong"
            if checked
            else "its pages were not checked"
        )
        gap = f"{answer.gaps[at]:.4f}" if 0 <= at < len(answer.gaps) else "none"
        text = (
            f"token {at} of request {number} is {got[at] if at >= 0 else 'missing'}, "
            f"alone it is {answer.tokens[at] if at >= 0 else 'none'} (gap {gap}); {why}"
        )
        invariant = known or ("I5" if checked else "I3")
        failures.append(Failure(invariant, "token", request=number, text=text))
    return Compared(tuple(failures), ties, len(history.tokens), tokens)


def inert_tier(histories: Iterable[LiveHistory], *, repeats: int = REPEATS) -> Failure | None:
    """A host tier that took pages over all these runs and gave none back, though prefixes came again that the device had lost."""
    stored = loaded = again = 0
    for history in histories:
        stored += history.counters.get("stored_pages", 0)
        loaded += history.counters.get("loaded_pages", 0)
        again += max(0, repeated(history) - history.counters.get("hits", 0))
    if not stored or loaded or again < repeats:
        return None
    text = f"{stored} pages were stored and none was loaded; {again} blocks were asked for again and not on the device"
    return Failure("I15", "inert", text=text)


def repeated(history: LiveHistory, block: int = 32) -> int:
    """Full blocks of prompts that an earlier request of the run had already, prefix, adapter and all."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    count = 0
    adapters: Mapping[int, int] = dict(enumerate(history.adapters))
    for number, prompt in enumerate(history.prompts):
        adapter = adapters.get(number, 0)
        prefixes = [(adapter, prompt[:end]) for end in range(block, len(prompt) + 1, block)]
        count += sum(prefix in seen for prefix in prefixes)
        seen.update(prefixes)
    return count


def watch_content(engine: Any, *, every: int = 1) -> ContentWatcher:
    """A content oracle for a live engine: finds how its pages are laid out, and knows its model and adapters.

    Raises FKV110 where the layout doesn't show (a number format that can't be decoded).
    """
    config = engine.config
    block, heads, head = engine.cache_shape()
    encoding = ENCODINGS.get(config.kv_dtype, config.kv_dtype)
    layout = find_layout(
        lambda keys, values: engine.write_slots(0, keys, values),
        encoding=encoding,
        block=block,
        heads=heads,
        head=head,
    )
    # A request's adapter 1 is the first of them, as the engine loads them.
    adapters = [adapter(number).path for number in range(config.adapters)]
    path = build(config.model).path
    canaries = [Canary(path, layout, adapters, layers=layers) for layers in engine.group_layers()]
    return ContentWatcher(canaries, lambda e: e.layer_bytes(), every=every)
