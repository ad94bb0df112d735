"""Certificates: the solver's word that no schedule of a case's class has fewer events, and that no smaller set shows it.

The space is the whole machine of the case's configuration (two sessions of up to eight pages, all its frames and copies,
every kind of event that its policies meet), after a look into the part of it that the case uses, where shorter schedules
are found sooner.  What isn't decided in time is said, with how far it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzzkv.cases.casebook import make_case
from fuzzkv.cases.corpus import covers
from fuzzkv.cases.shrink import shrink
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.semantics.contract.minimal import subsets
from fuzzkv.semantics.layout import COLUMNS, NR, PAGES
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.schedule import ARRIVE, FADE, OPS, QUEUE, STEP, Event
from fuzzkv.semantics.sessions import RUNS_ON
from fuzzkv.simulator.bulk.engine import BulkEngine
from fuzzkv.simulator.interpreters import python_apply, text_digest
from fuzzkv.simulator.start import first_state
from fuzzkv.simulator.symbolic.scope import Window
from fuzzkv.solver.asking import Space
from fuzzkv.solver.shortest import absent, shortest
from fuzzkv.solver.unrolling import Breach
from fuzzkv.strategies.covering_arrays import enabled
from fuzzkv.targets.model.recipe import Recipe, read_case

Events = tuple[Event, ...]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """A part of the machine: sessions at once, pages of each, device frames, kinds of events; whether schedules that begin
    with idle time are among them.
    """

    requests: int
    pages: int
    device: int
    kinds: tuple[str, ...]
    idle_first: bool

    @classmethod
    def of(cls, window: Window, codes: Sequence[int], *, idle_first: bool) -> Part:
        """The part that a window and the codes of events are."""
        kinds = tuple(OPS[code] for code in sorted(codes))
        return cls(window.requests, window.pages, window.device, kinds, idle_first)

    def as_json(self) -> dict[str, Any]:
        """The part as a certificate keeps it."""
        return {**vars(self), "kinds": list(self.kinds)}


@dataclass(frozen=True)
class Certificate:
    """The result of certifying a case: the shortest schedule known, whether that is certified, and in words why or why not.

    ``shortest_in`` is a part of the machine in which there is none with fewer events, if one was gone through.
    """

    events: Events
    certified: bool
    reason: str
    window: Window
    text: str
    spurious: int
    seconds: float
    shortest_in: Part | None = None

    def as_json(self) -> dict[str, Any]:
        """The certificate as a case keeps it: what was proved about which text, in which window; no times."""
        told = {
            "events": len(self.events),
            "verdict": "certified" if self.certified else "open",
            "reason": self.reason,
            "text": self.text,
            "window": dict(vars(self.window)),
        }
        if self.shortest_in is not None:
            told["shortest_in"] = self.shortest_in.as_json()
        return told


def whole(recipe: Recipe) -> Window:
    """The window that leaves nothing of the case's machine out."""
    config = recipe.config
    return Window(device=config.device_frames, host=max(1, config.host_frames), policies=len(recipe.policies))


def used(recipe: Recipe) -> Window:
    """The window on what the case's schedule uses: sessions, and pages that they come to have."""
    sessions = {a for op, a, _ in recipe.schedule.events if op in (ARRIVE, QUEUE, STEP, FADE)}
    state, apply = first_state(recipe.config, recipe.policies), python_apply(recipe.policies)
    lengths, pages = slice(COLUMNS["R_N"], COLUMNS["R_N"] + NR), 1
    for op, a, b in recipe.schedule.events:
        apply(state, op, a, b, (1 << len(recipe.policies)) - 1)
        pages = max(pages, *state[lengths])
    if any(op == QUEUE for op, _, _ in recipe.schedule.events):
        # Who is admitted depends on the room into which outputs may run on.
        pages = min(PAGES, pages + RUNS_ON)
    requests = max(sessions, default=0) + 1
    return Window(
        requests=requests,
        pages=pages,
        device=recipe.config.device_frames,
        host=max(1, recipe.config.host_frames),
        policies=len(recipe.policies),
    )


def judge_of(recipe: Recipe, target: Breach) -> Callable[[Events], Events | None]:
    """The machine's verdict on schedules that the solver found."""

    def judge(events: Events) -> Events | None:
        other = Recipe(recipe.schedule.with_events(events), recipe.policies, recipe.config)
        for finding in other.conflicts():
            kind = finding.failure_class
            if (kind.invariant, kind.actor, kind.action) == target and not finding.consequence:
                short = events[: finding.failure.event + 1]
                cut = Recipe(recipe.schedule.with_events(short), recipe.policies, recipe.config)
                return short if cut.conflicts() else events
        return None

    return judge


def certify(
    case: Mapping[str, Any], policies: Sequence[Policy] = (), *, seconds: float, tell: Tell | None = None
) -> Certificate:
    """Certify a case, in so much time.

    Raises as ``read_case`` does, and ``EnvironmentFailure``: FKV062 without Z3's program, FKV073 where the interpreters disagree.
    """
    began = time.monotonic()
    recipe = read_case(case, allowed={policy.name: policy for policy in policies})
    events, text = recipe.schedule.events, text_digest(recipe.policies)
    target = target_of(case)
    everything = whole(recipe)

    clean: Part | None = None

    def came_to(certified: bool, reason: str, window: Window, spurious: int = 0) -> Certificate:
        took = time.monotonic() - began
        return Certificate(events, certified, reason, window, text, spurious, took, clean)

    def say(where: str) -> Callable[[int, bool], None]:
        def line(depth: int, delayed: bool) -> None:
            if tell is not None:
                tell(f"{depth} events{' behind an idle time' if delayed else ''}, {where}")

        return line

    def left() -> float:
        return max(0.0, seconds - (time.monotonic() - began))

    if any(policy.free for policy in recipe.policies):
        return came_to(False, "a policy in ordinary Python can't be read by the solver", everything)
    codes = tuple(sorted(enabled(recipe.policies)))
    spurious, none = 0, ""
    for window in dict.fromkeys((used(recipe), everything)):
        here = Space(policies=recipe.policies, config=recipe.config, window=window, codes=codes)
        where = f"{window.requests} x {window.pages} pages"
        try:
            found = shortest(here, target, events, judge_of(recipe, target), seconds=left(), tell=say(where))
        except IndexError:
            if window == everything:
                raise
            continue  # a rule that names a page or a session by its number needs the whole machine
        if len(found.events) < len(events):
            clean = None
        events, spurious = found.events, spurious + found.spurious
        if found.denied and window == everything:
            raise _disagreement(case)
        if not found.proved and not found.denied:
            reason = f"no answer in time about fewer than {len(events)} events in {where}{none}"
            return came_to(False, reason, window, spurious)
        none = f"; in {where} there is none"
        clean = Part.of(window, codes, idle_first=True)
    for mask in subsets((1 << len(recipe.policies)) - 1):
        smaller = tuple(policy for k, policy in enumerate(recipe.policies) if mask >> k & 1)
        names = [policy.name for policy in smaller]
        if not smaller or (target[1] is not None and target[1] not in names):
            continue
        part = Space(
            policies=smaller,
            config=recipe.config,
            window=Window(device=everything.device, host=everything.host, policies=len(smaller)),
            codes=codes,
        )
        answer = absent(part, target, len(events), seconds=left(), tell=say(f"{'+'.join(names)} alone"))
        if answer is not True:
            alone = f"{'+'.join(names)} alone shows it in {len(events)} events"
            if answer is None:
                reason = f"none of fewer events on the whole machine; no answer in time whether {alone}"
            else:
                reason = f"{alone} as well"
            return came_to(False, reason, everything, spurious)
    reason = (
        f"no schedule of fewer than {len(events)} events shows the class, and no smaller set in that many, on the "
        f"whole machine: {NR} sessions of up to {PAGES} pages, all its frames and copies, every kind of event"
    )
    return came_to(True, reason, everything, spurious)


def shrunk(case: Mapping[str, Any], policies: Sequence[Policy] = ()) -> dict[str, Any]:
    """The case with its schedule shrunk again, keeping the damage that it does; the same one if it is shortest already."""
    recipe = read_case(case, allowed={policy.name: policy for policy in policies})
    target = target_of(case)
    kinds = [f.failure_class for f in recipe.conflicts()]
    kind = next((k for k in kinds if (k.invariant, k.actor, k.action) == target), None)
    if kind is None:
        raise UsageError(
            code="FKV024",
            value=str(case["id"]),
            reason="it doesn't fail any more, so there is nothing to shrink",
            cure="Replay it: it may be fixed on this version.",
        )
    engine = BulkEngine(recipe.policies, recipe.config)
    found = shrink(engine, kind, recipe.schedule.events)
    return dict(case) if found is None else shorter(case, recipe, found[0])


def target_of(case: Mapping[str, Any]) -> Breach:
    """The class of a case as the solver asks for it."""
    return case["class"]["invariant"], case["class"]["actor"] or None, case["class"]["action"]


def shorter(case: Mapping[str, Any], recipe: Recipe, events: Events) -> dict[str, Any]:
    """The case of a shorter schedule of the same class, or the case itself if this one isn't.

    What people wrote (label, title, references, twin) goes over; what an engine confirmed doesn't.
    """
    if len(events) >= len(recipe.schedule.events):
        return dict(case)
    other = Recipe(recipe.schedule.with_events(events), recipe.policies, recipe.config)
    made = make_case(other, case["class"]["invariant"], seed=case["found"]["seed"], schedules=0)
    if made is None:
        raise _disagreement(case)
    kept = {key: case[key] for key in ("label", "title", "references", "twin", "found") if key in case}
    status = case["status"] if case["status"] == "reported" else "candidate"
    replay = str(case["replay"]).replace(str(case["id"]), str(made["id"]))
    return {**made, **kept, "status": status, "replay": replay}


def _disagreement(case: Mapping[str, Any]) -> EnvironmentFailure:
    return EnvironmentFailure(
        code="FKV073",
        value=str(case["id"]),
        reason="the machine doesn't see what the solver found",
        cure="Please report this: it is a fault of fuzzkv.",
    )


def filed(
    case: Mapping[str, Any], certificate: Certificate, policies: Sequence[Policy] = ()
) -> dict[str, Any]:
    """The case with its certificate; if the solver found a shorter schedule, that one's case."""
    recipe = read_case(case, allowed={policy.name: policy for policy in policies})
    found = shorter(case, recipe, certificate.events)
    found["certificate"] = certificate.as_json()
    found["minimality"] = "certified" if certificate.certified else "1-minimal"
    return found


def outdone(case: Mapping[str, Any], new: Mapping[str, Any], certificate: Certificate) -> dict[str, Any]:
    """The old case, when a shorter one of its class was found: it says which, and stays for the damage that it does."""
    events = len(new["schedule"])
    told = {
        **certificate.as_json(),
        "verdict": "open",
        "reason": f"{new['id']} shows the class in {events} events",
    }
    return {**case, "certificate": told, "minimality": "1-minimal"}


def shortest_in(case: Mapping[str, Any], part: Part, text: str) -> bool:
    """Whether a case says that no schedule of its class in this part of the machine has fewer events, about this text."""
    certificate = case.get("certificate")
    if certificate is None or certificate["text"] != text or certificate["events"] != len(case["schedule"]):
        return False
    return covers(certificate.get("shortest_in"), part.as_json())


def shown(case: Mapping[str, Any], recipe: Recipe, part: Part) -> dict[str, Any]:
    """The case with what was shown of its length: that it is the shortest in a part of the machine."""
    events = recipe.schedule.events
    idle = "" if part.idle_first else ", none that begins with idle time"
    reason = (
        f"none of fewer than {len(events)} events in {part.requests} x {part.pages} pages with {part.device} device frames "
        f"({', '.join(part.kinds)}{idle}); the whole machine wasn't gone through"
    )
    text = text_digest(recipe.policies)
    window = replace(whole(recipe), requests=part.requests, pages=part.pages, device=part.device)
    told = Certificate(events, False, reason, window, text, 0, 0.0, part)
    return {**case, "certificate": told.as_json(), "minimality": "1-minimal"}
