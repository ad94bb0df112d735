"""The job of a replay: one flat script of page operations for every arm. Standard library only.

An arm is a set of policies; its script is what they did to pages under one schedule, as plain operations.
The verbs:

=================== =======================================================================================
``arrive r - n``    a session with a context of ``n`` full pages (32 tokens each) is opened and prefilled
``store r p t``     a device-to-host copy begins; ``stored r p``: it ends, and the bytes are captured then
``load r p t``      a host-to-device copy begins; ``loaded r p``: it ends, and the bytes arrive then
``fail r p``        the copy in flight on the page delivers nothing
``discard_device``  the device copy is given up: the frame is poisoned and the page left out of attention
``discard_host``    the host copy is deleted
``quantise r p b``  the device copy is quantised in place to ``b`` bits
``ask r p t``       a step of the session with a question about the page, taking ``t`` ticks at least
``await r p``       the session blocks until the page's load has come; opens the clock of the next ``ask``
``wait - - t``      time passes
``finish r``        the session ends; its endpoint pages are audited just before
=================== =======================================================================================

``t`` counts ticks, a page that isn't meant is -1. A demand load is ``load r p t``, ``await r p``, ``ask r
p``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from fuzzkv.errors import UsageError, did_you_mean

ReplayKind = Literal["quality", "latency", "exact"]
Slot = tuple[int, int]
"""A session: its request and which arrival of that request it is (0, 1, ...)."""

PAGE_VERBS: Final = frozenset(
    {
        "store",
        "stored",
        "load",
        "loaded",
        "fail",
        "discard_device",
        "discard_host",
        "quantise",
        "ask",
        "await",
    }
)
VERBS: Final = PAGE_VERBS | {"arrive", "wait", "finish"}
MAX_OPS: Final = 10_000
MAX_REQUESTS: Final = 4
MAX_PAGES: Final = 8
MAX_PAGES_OF_ALL: Final = 64
MAX_TICKS: Final = 1_000_000


@dataclass(frozen=True)
class Op:
    """One operation. ``request`` and ``page`` are -1 where the verb has none."""

    verb: str
    request: int
    page: int
    arg: int


@dataclass(frozen=True)
class ReplayArm:
    """One policy set and what it did. No policies: the full-cache control."""

    policies: tuple[str, ...]
    script: tuple[Op, ...]

    @property
    def name(self) -> str:
        """``"full"``, ``"offload"``, ``"offload+quant"`` ..."""
        return "+".join(self.policies) or "full"


@dataclass(frozen=True)
class ReplayJob:
    """A job for a replay. The first arm is the empty control, the last the whole set.

    ``endpoint`` names the (request, page) pairs whose questions decide; empty: every page of every request.
    ``tick_us`` is the length of a tick in microseconds, ``slack_ticks`` the latency allowed above the
    control.
    """

    case_id: str
    kind: ReplayKind
    arms: tuple[ReplayArm, ...]
    endpoint: tuple[tuple[int, int], ...]
    seed: int
    tick_us: int
    slack_ticks: int

    def sessions(self) -> dict[Slot, int]:
        """Pages of every session: a request that arrives again after its end is another session."""
        return _sessions(self.arms[0].script)

    def endpoints(self) -> tuple[tuple[int, int], ...]:
        """The deciding (request, page) pairs, sorted."""
        every = ((r, p) for (r, _), n in self.sessions().items() for p in range(n))
        return tuple(sorted(set(self.endpoint or every)))

    def audited(self) -> tuple[tuple[int, int, int], ...]:
        """The deciding (request, arrival, page), sorted: every session of an endpoint's request that has
        the page."""
        sessions = self.sessions().items()
        return tuple(
            sorted((r, k, p) for (r, k), n in sessions for q, p in self.endpoints() if q == r and p < n)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


def job_from_dict(data: Mapping[str, Any]) -> ReplayJob:
    """The inverse of :meth:`Job.as_dict`. Raises FKV057 for data of another form."""
    try:
        arms = tuple(
            ReplayArm(
                tuple(a["policies"]),
                tuple(Op(o["verb"], o["request"], o["page"], o["arg"]) for o in a["script"]),
            )
            for a in data["arms"]
        )
        job = ReplayJob(
            case_id=data["case_id"],
            kind=data["kind"],
            arms=arms,
            seed=data["seed"],
            tick_us=data["tick_us"],
            endpoint=tuple((int(r), int(p)) for r, p in data["endpoint"]),
            slack_ticks=data["slack_ticks"],
        )
    except (KeyError, TypeError, ValueError) as e:
        raise _bad("the job", f"it is not of the form that a replay takes ({e!r})") from e
    validate(job)
    return job


def parse_script(text: str) -> tuple[Op, ...]:
    """``"arrive 0 4; store 0 2 5; stored 0 2; wait 3"`` as operations, for examples and tests.

    Raises FKV057 for a line with another number of numbers than its verb takes.
    """
    result = []
    for line in filter(None, map(str.strip, text.split(";"))):
        verb, *rest = line.split()
        page = verb in PAGE_VERBS
        numbers = [int(x) if x.lstrip("-").isdigit() else -1 for x in rest]
        if verb == "wait":
            numbers = [-1, -1, *numbers]
        elif not page:
            numbers = [*numbers[:1], -1, *numbers[1:]]
        numbers += [-1] * (3 - len(numbers))
        if len(numbers) != 3:
            raise _bad(line, "a line is a verb, then request, page and argument where the verb takes them")
        result.append(Op(verb, *numbers))
    return tuple(result)


def validate(job: ReplayJob) -> None:
    """Refuse a job that can't be run: FKV057 names the arm, the operation's index and what is wrong with
    it."""
    if job.kind not in get_args(ReplayKind):
        raise _bad(job.kind, f"not a kind of replay. {did_you_mean(str(job.kind), get_args(ReplayKind))}")
    if len(job.arms) < 2 or job.arms[0].policies or not job.arms[-1].policies:
        raise _bad(job.case_id, "the first arm must be the empty control and the last the whole set")
    names = [frozenset(a.policies) for a in job.arms]
    if len(set(names)) != len(names) or any(not n <= names[-1] for n in names):
        raise _bad(job.case_id, "every other arm must be another subset of the last arm's policies")
    if (
        job.tick_us < 0
        or job.slack_ticks < 0
        or (job.kind == "latency" and not (job.tick_us and job.slack_ticks))
    ):
        raise _bad(job.case_id, "tick_us and slack_ticks must be positive for a latency replay")
    sessions = job.sessions()
    for arm in job.arms:
        if _check_script(arm) != sessions:
            raise _bad(arm.name, "its sessions differ from the control's: all arms need the same requests")
    if sum(sessions.values()) > MAX_PAGES_OF_ALL:
        raise _bad(job.case_id, f"its sessions have more than {MAX_PAGES_OF_ALL} pages in all")
    for r, p in job.endpoint:
        if not 0 <= p < max((n for (q, _), n in sessions.items() if q == r), default=0):
            raise _bad(f"endpoint ({r}, {p})", "no session has this page")


def _sessions(script: tuple[Op, ...]) -> dict[Slot, int]:
    found: dict[Slot, int] = {}
    for op in script:
        if op.verb == "arrive":
            found[op.request, sum(r == op.request for r, _ in found)] = op.arg
    return found


def _check_script(arm: ReplayArm) -> dict[Slot, int]:
    sessions: dict[int, int] = {}
    ended: set[int] = set()
    if len(arm.script) > MAX_OPS:
        raise _bad(arm.name, f"its script is longer than {MAX_OPS} operations")
    for i, op in enumerate(arm.script):
        where = f"{arm.name}[{i}] {op.verb} {op.request} {op.page} {op.arg}"
        if op.verb not in VERBS:
            raise _bad(where, f"not a verb. {did_you_mean(op.verb, VERBS)}")
        if op.verb == "arrive":
            busy = op.request in sessions and op.request not in ended
            if not 0 <= op.request < MAX_REQUESTS or not 1 <= op.arg <= MAX_PAGES or busy:
                raise _bad(where, "a request 0 to 3 arrives with 1 to 8 pages, and again only after its end")
            sessions[op.request] = op.arg
            ended.discard(op.request)
        elif op.verb != "wait" and op.request not in sessions:
            raise _bad(where, "this request has not arrived")
        if op.verb == "finish":
            ended.add(op.request)
        if op.verb in PAGE_VERBS and op.request not in ended and not 0 <= op.page < sessions[op.request]:
            raise _bad(where, "the request has no such page")
        if op.verb == "quantise" and not 2 <= op.arg <= 8:
            raise _bad(where, "a page is quantised to 2 to 8 bits")
        if op.verb in ("store", "load", "wait") and not 0 <= op.arg <= MAX_TICKS:
            raise _bad(where, f"a time is 0 to {MAX_TICKS} ticks")
    return _sessions(arm.script)


def _bad(value: str, reason: str) -> UsageError:
    return UsageError(
        code="FKV057", value=value, reason=reason, cure="Correct the job, or replay another case."
    )
