"""Searching with several processes, which share nothing but the budget.

A worker has a seed of its own and searches as one process does; what a round comes to is the union of what all
workers have found up to it, in the workers' order.  So the result depends on the number of workers, and not on
which of them is faster.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from fuzzkv.errors import EnvironmentFailure, FuzzkvError
from fuzzkv.policies.registry import resolve
from fuzzkv.semantics.schedule import Config, Event
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.bulk.tally import Tally, merged

AHEAD = 2
"""Rounds that a worker is told of before the results of the first are taken."""


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def worker_seed(root: int, worker: int) -> int:
    """The seed of a worker; the first one has the hunt's own.  The round is in the schedules' numbers."""
    if worker == 0:
        return root
    return int.from_bytes(hashlib.sha256(f"{root} {worker}".encode()).digest()[:8]) >> 1


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker searches: the policies by the names that the user gave, those of them that take part, what a
    ``BulkEngine`` takes besides, and schedules to start from.
    """

    given: tuple[str, ...]
    names: tuple[str, ...]
    config: Config
    enforce: bool
    seed: int
    strength: int
    seeds: tuple[tuple[Event, ...], ...] = ()

    def engine(self, worker: int) -> BulkEngine:
        """The engine of a worker."""
        policies = [policy for policy in resolve(self.given) if policy.name in self.names]
        seed = worker_seed(self.seed, worker)
        engine = BulkEngine(policies, self.config, enforce=self.enforce, seed=seed, strength=self.strength)
        engine.plant(self.seeds)
        return engine


def rounds(total: int, workers: int, chunk: int) -> list[list[int]]:
    """How many schedules each worker draws in each round."""
    left = [total // workers + (worker < total % workers) for worker in range(workers)]
    plan = []
    while any(left):
        plan.append([min(chunk, mine) for mine in left])
        left = [mine - done for mine, done in zip(left, plan[-1], strict=True)]
    return plan


def search_alone(engine: BulkEngine, total: int, chunk: int) -> Generator[Tally, None, None]:
    """Search in this process; what was found up to each round."""
    for (count,) in rounds(total, 1, chunk):
        engine.search(count)
        yield engine.tally()


def search_together(task: Task, workers: int, total: int, chunk: int) -> Generator[Tally, None, None]:
    """Search with several processes; what all of them have found up to each round.

    Raises what a worker raises, and ``EnvironmentFailure`` (FKV052) if one dies.  When the iterator is closed the
    workers end.
    """
    plan = rounds(total, workers, chunk)
    context = get_context("spawn")
    pipes: list[Connection] = []
    started: list[BaseProcess] = []
    try:
        for worker in range(workers):
            ours, theirs = context.Pipe()
            process: BaseProcess = context.Process(target=_work, args=(theirs, task, worker), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            started.append(process)
        for counts in plan[:AHEAD]:
            _order(pipes, counts)
        for number in range(len(plan)):
            tallies = [_result(pipe, worker) for worker, pipe in enumerate(pipes)]
            if number + AHEAD < len(plan):
                _order(pipes, plan[number + AHEAD])
            yield merged(tallies)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in started:
            process.terminate()
            process.join()


def _order(pipes: Sequence[Connection], counts: Sequence[int]) -> None:
    for worker, (pipe, count) in enumerate(zip(pipes, counts, strict=True)):
        try:
            pipe.send(count)
        except OSError as error:
            raise _dead(worker) from error


def _result(pipe: Connection, worker: int) -> Tally:
    try:
        found = pipe.recv()
    except (EOFError, OSError) as error:
        raise _dead(worker) from error
    if isinstance(found, FuzzkvError):
        raise found
    assert isinstance(found, Tally)
    return found


def _dead(worker: int) -> EnvironmentFailure:
    return EnvironmentFailure(
        code="FKV052",
        value=f"search worker {worker}",
        reason="it died, and said nothing",
        cure="What was found until then is filed. Try again with --workers 1 to see what it dies of.",
    )


def _work(pipe: Connection, task: Task, worker: int) -> None:
    # Ctrl-C reaches the whole group; the hunt ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        engine = task.engine(worker)
        while True:
            engine.search(pipe.recv())
            pipe.send(engine.tally())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except FuzzkvError as error:
        pipe.send(error)
