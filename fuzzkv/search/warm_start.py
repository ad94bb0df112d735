"""The warm start of a hunt: what the solver finds in short schedules is filed and seeds the search.

It looks at every schedule of so many events, however long that takes (up to a limit that keeps a hunt alive), so that the
same hunt comes to the same cases on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fuzzkv.cases.filing import Witness
from fuzzkv.core.results import FailureClass, mask_of, names_of
from fuzzkv.errors import UsageError
from fuzzkv.events import ProofDone, SolverDone
from fuzzkv.modelcheck.scope import extras_of
from fuzzkv.semantics.layout import NR, PAGES
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.ascent import Climb
from fuzzkv.solver.induction import prove
from fuzzkv.solver.verify import Verification
from fuzzkv.targets.model.recipe import widened

PATIENCE = 120.0
"""Seconds after which the solver is asked no more."""
SIZE = 6
"""Pages of a session that it looks at: fewer, and the default eviction never acts."""


def proved(engine: BulkEngine) -> ProofDone:
    """What the solver proves of the engine's policies under the contract; nothing is left to search if that is everything,
    whatever policies do, on a machine of any size.
    """
    proofs = prove(engine.policies, seconds=PATIENCE).proofs
    sure = [proof for proof in proofs if proof.verdict == "proved"]
    narrow = tuple(proof.invariant for proof in sure if proof.breadth == "these rules")
    config = engine.config
    # The premise of the proofs about latency.
    fits = config.page_cost + config.step_cost <= config.objective + config.tolerance
    return ProofDone(len(sure), len(proofs), narrow, fits and len(sure) == len(proofs) and not narrow)


def short_witnesses(
    engine: BulkEngine, depth: int, tell: Callable[[Climb], None]
) -> tuple[list[Witness], SolverDone]:
    """Everything that schedules of up to ``depth`` events of the engine's policies show, and how far the solver came.

    Raises as ``Verification`` does.
    """
    config = engine.config
    window = Window(
        # What is shared takes two to share it.
        requests=NR if extras_of(engine.policies) else 1,
        pages=SIZE,
        device=config.device_frames,
        host=max(1, config.host_frames),
    )

    def verification(window: Window) -> Verification:
        return Verification(
            engine.policies,
            config,
            window,
            faults=True,
            enforce=engine.enforce,
            deepest=depth,
            climbed=tell,
        )

    try:
        asked = verification(window)
    except UsageError as error:
        if error.code != "FKV030":
            raise
        window = replace(window, requests=NR, pages=PAGES)
        asked = verification(window)
    result = asked.run(PATIENCE)
    if result.interrupted:
        raise KeyboardInterrupt
    witnesses = []
    for found in (found for each in result.sets for found in each.refuted):
        mask = mask_of(engine.names, found.policies)
        invariant, actor, action = found.target
        kind = FailureClass(names_of(engine.names, mask), invariant, action, actor)
        witnesses.append(Witness(kind, widened(mask, found.events), config))
    reached = min(each.depth for each in result.sets)
    ended = "" if reached >= depth else f"the time ended it before {depth}"
    done = SolverDone(reached, window.requests, window.pages, len(result.sets), len(witnesses), ended)
    return witnesses, done
