"""Runs a live schedule on a live engine, in process, and tells what happened: the same schedule on the same configuration gives the
same history, page event by page event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from fuzzkv.core.results import Failure
from fuzzkv.targets.vllm.engine.conservation import broken
from fuzzkv.targets.vllm.engine.internals import LiveEngine
from fuzzkv.targets.vllm.engine.reset import restart
from fuzzkv.targets.vllm.history import LiveHistory
from fuzzkv.targets.vllm.schedule import Event, LiveSchedule, fits, prompt, size, tail

IDLE: Final = 60
"""Steps in a row in which nothing comes out, with all transfers free to end, after which an engine is stuck."""
PATIENCE: Final = 8
"""A request may take so many times the steps it needs alone before its engine runs in circles."""
MOST_VIOLATIONS: Final = 20


class Watcher(Protocol):
    """An oracle that looks on while a schedule runs."""

    def begin(self, engine: LiveEngine, schedule: LiveSchedule) -> None:
        """The engine is as at birth; its first request has not come."""
        ...

    def before_step(self, engine: LiveEngine) -> None:
        """Just before an engine step."""
        ...

    def after_step(self, engine: LiveEngine) -> Iterable[Failure]:
        """Just after one: what is broken. Events and steps are filled in where they are -1."""
        ...

    def end(self, engine: LiveEngine) -> Iterable[Failure]:
        """All requests have ended (or never will); nothing is set back yet."""
        ...


class Driver:
    """A runner over one engine. ``checks``: look at the block pool after every step. After :attr:`over` is true the engine can't be
    trusted any more, and another one has to be started."""

    def __init__(self, engine: LiveEngine, watchers: Sequence[Watcher] = (), *, checks: bool = True) -> None:
        self.engine, self.watchers, self.checks = engine, list(watchers), checks
        self.over = bool(restart(engine))
        self._failures: list[Failure] = []
        self._event = 0
        self._priority = self._adapter = 0

    def run(self, schedule: LiveSchedule) -> LiveHistory:
        """Run one schedule from a reset engine, let everything end, and reset it again."""
        engine = self.engine
        self._failures, self._event, self._priority = [], 0, 0
        self._adapter = min(schedule.adapter, engine.config.adapters)
        engine.limit_pool(schedule.pool)
        engine.limit_step(schedule.chunk)
        for watcher in self.watchers:
            watcher.begin(engine, schedule)
        died = False
        try:
            for self._event, event in enumerate(schedule.events):
                self._do(event)
            self._event = len(schedule.events)
            self._finish()
        except Exception as error:  # whatever vLLM raises is what we are looking for
            died = True
            self._note("I13", "died", text=_said(error))
        for watcher in self.watchers:
            self._take(watcher.end(engine))
        history = self._history()
        if left := self._restart():
            if not died:
                self._note("I11", "not-reset", text="; ".join(left)[:500])
            history = replace(history, failures=tuple(self._failures))
            self.over = bool(self._restart())
        return history

    def _restart(self) -> list[str]:
        try:
            return restart(self.engine)
        except Exception as error:  # an engine that died may not come back
            return [_said(error)]

    # -- events ------------------------------------------------------------------------------------------

    def _do(self, event: Event) -> None:
        op, a, b, c = event
        engine = self.engine
        if op == "step":
            for _ in range(a):
                if not engine.busy():
                    break
                self._step()
        elif op == "arrive":
            self._add(prompt(a, size(b)), c)
        elif op == "fork":
            if engine.requests:
                parent = engine.requests[a % len(engine.requests)]
                own = tail(len(engine.requests), size(b))
                if self._add((*parent.prompt, *parent.tokens, *own), c):
                    engine.journal.count("forks")
        elif op == "abort":
            if live := engine.unfinished():
                engine.abort(live[a % len(live)])
        elif op == "reset":
            engine.reset_cache(bool(a))
        elif op == "next":
            self._priority, self._adapter = a, min(b, engine.config.adapters)
        elif op == "hold":
            engine.link.hold(bool(a))
        elif op == "complete":
            engine.link.end(a)
        elif op in ("fail", "short"):
            engine.link.end(a, "failed" if op == "fail" else "short")

    def _add(self, tokens: tuple[int, ...], limit: int) -> bool:
        engine = self.engine
        groups = engine.groups
        if not fits(
            len(tokens),
            limit + engine.config.draft,
            pool=engine.total(),
            context=engine.config.context,
            groups=groups,
        ):
            engine.journal.count("unfit")
            return False
        engine.add(tokens, limit, self._priority, self._adapter)
        engine.journal.count("requests")
        return True

    def _finish(self) -> None:
        """Let everything end: transfers, then requests, then what the engine has to clean up."""
        engine = self.engine
        engine.link.hold(False)
        idle, before, last = 0, self._progress(), engine.steps + self._patience()
        while engine.busy():
            self._step()
            now = self._progress()
            idle, before = (0, now) if now != before else (idle + 1, now)
            if idle > IDLE or engine.steps > last:
                why = f"no progress in {IDLE} steps" if idle > IDLE else "in circles"
                for number in engine.unfinished():
                    self._note("I13", "stuck", request=number, text=f"{why}: {engine.status(number)}")
                if not engine.unfinished():
                    self._note("I13", "stuck", text="nothing to do, and not idle")
                return

    def _patience(self) -> int:
        requests, budget = self.engine.requests, self.engine.step_budget()
        return IDLE + PATIENCE * sum(r.limit + len(r.prompt) // budget + 2 for r in requests)

    def _progress(self) -> tuple[int, ...]:
        engine = self.engine
        made = sum(len(r.tokens) for r in engine.requests)
        return (
            made,
            len(engine.unfinished()),
            engine.journal.counters["scheduled_tokens"],
            engine.link.untold(),
        )

    def _step(self) -> None:
        engine = self.engine
        for watcher in self.watchers:
            watcher.before_step(engine)
        engine.step()
        if self.checks:
            for invariant, what, page, text in broken(engine):
                self._note(invariant, what, page=page, text=text)
        for watcher in self.watchers:
            self._take(watcher.after_step(engine))

    # -- what is told ------------------------------------------------------------------------------------

    def _take(self, failures: Iterable[Failure]) -> None:
        for v in failures:
            self._note(v.invariant, v.action, request=v.request, page=v.page, text=v.text)

    def _note(self, invariant: str, what: str, *, request: int = -1, page: int = -1, text: str = "") -> None:
        # What stays broken is told once, when it first is.
        known = any(
            (v.invariant, v.action, v.request, v.page) == (invariant, what, request, page)
            for v in self._failures
        )
        if not known and len(self._failures) < MOST_VIOLATIONS:
            self._failures.append(
                Failure(
                    invariant,
                    what,
                    event=self._event,
                    stamp=self.engine.steps,
                    request=request,
                    page=page,
                    text=text,
                )
            )

    def _history(self) -> LiveHistory:
        engine = self.engine
        counters = dict(sorted(engine.journal.counters.items()))
        counters["steps"] = engine.steps
        counters["tokens"] = sum(len(r.tokens) for r in engine.requests)
        # A tier that was filled and never served anything.
        counters["tier_inert"] = int(
            counters.get("stored_pages", 0) > 0 and not counters.get("loaded_pages", 0)
        )
        return LiveHistory(
            tokens=tuple(
                (*r.tokens, -1) if r.state == "aborted" else tuple(r.tokens) for r in engine.requests
            ),
            margins=tuple(tuple(r.margins) for r in engine.requests),
            log=tuple(engine.journal.entries),
            counters=counters,
            failures=tuple(self._failures),
            steps=engine.steps,
            prompts=tuple(r.prompt for r in engine.requests),
            adapters=tuple(r.adapter for r in engine.requests),
        )


def _said(error: Exception) -> str:
    """Type, words and place of an exception, without a machine's paths."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{'/'.join(code.co_filename.split('/')[-2:])}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:200]} at {' < '.join(frames[-3:][::-1])}"
