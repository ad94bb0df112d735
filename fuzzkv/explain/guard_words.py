"""How a guard reads: each act and each fact in words, and what became of the guard when it was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fuzzkv.core.results import Failure
from fuzzkv.explain.guards import COPIES, Blamed, Tried, proposed
from fuzzkv.explain.weakest_guard import Asked
from fuzzkv.semantics.guard_facts import FACTS, MEASURES
from fuzzkv.semantics.schedule import STEP
from fuzzkv.targets.model.recipe import Recipe

DO: Mapping[str, str] = {
    "begin_store": "begin to copy a page to the host",
    "begin_load": "begin to copy a page back to the device",
    "drop_device": "give up the device copy of a page",
    "drop_host": "destroy the host copy of a page",
    "quantise": "rewrite a page in place",
    "promise": "quote a page as exactly recoverable",
    "withdraw": "withdraw its quote of a page",
    "condemn": "condemn a page",
    "lose": "declare a page evicted",
    "publish": "publish a page in the index",
    "hit": "take a page from the index",
    "receive": "receive a page from a peer",
    "spill": "copy a page to the external store",
    "trust": "count a page as valid",
    "pin": "pin the host copy of a page",
    "write_scale": "write the scales of a page",
    "encode": "encode a page",
    "forget_scale": "keep the host copy of a page without its scales",
    "certify": "certify a page as low",
    "spend": "act on the certificate of a page",
    "report": "report that it serves the first pages of a session",
    "resume": "resume a session",
    "rewind": "rewind a session",
    "trim": "crop a session",
    "preempt": "preempt a session",
    "admit": "admit a session",
    "end_round": "end its round",
    "run_ahead": "launch a step ahead",
    "dequeue": "claim a frame",
}
"""Acts, after "should"."""

SHOWN: Mapping[str, tuple[str, str]] = {
    "quoted": ("somebody quotes it", "nobody quotes it"),
    "device_exact": ("the device holds its exact bytes", "the device doesn't hold its exact bytes"),
    "host_exact": ("the host holds its exact bytes", "the host doesn't hold its exact bytes"),
    "present": ("it is on the device", "it isn't on the device"),
    "hosted": ("it is on the host", "it isn't on the host"),
    "device_in_flight": (
        "a copy in flight uses its device frame",
        "no copy in flight reads or fills its device frame",
    ),
    "host_in_flight": (
        "a copy in flight uses its host frame",
        "no copy in flight reads or fills its host frame",
    ),
    "page_in_flight": ("a copy of it is in flight", "no copy of it is in flight"),
    "quoted_by_another": ("another policy quotes it", "no other policy quotes it"),
    "pinned": ("its host copy is pinned", "its host copy isn't pinned"),
    "seen_lately": (
        "it was read within the horizon of the evidence",
        "it wasn't read within the horizon of the evidence",
    ),
    "warranted": (
        "the certificate's target covers the use",
        "the certificate's target doesn't cover the use",
    ),
    "lasts": ("the certificate is within its horizon", "the certificate is past its horizon"),
    "same_layout": ("the pool has the layout in which it writes", "the pool has another layout"),
    "own_scales": (
        "the scales beside the payload are its own",
        "the scales beside the payload aren't its own",
    ),
    "complete_page": ("it is full of tokens", "it isn't full of tokens"),
    "settled": ("it holds accepted tokens only", "it holds tokens that aren't accepted yet"),
    "written_off": ("it was declared evicted", "it wasn't declared evicted"),
    "entry_own": (
        "its index entry names the bytes that its reader expects",
        "its index entry names other bytes than its reader expects",
    ),
    "entry_full": (
        "the copy that its index entry names is complete",
        "the copy that its index entry names isn't complete",
    ),
    "entry_on_device": ("its index entry names a device frame", "its index entry names the external store"),
    "entry_coming": ("a copy is on its way to its index entry", "no copy is on its way to its index entry"),
    "unwrapped": ("its ring hasn't wrapped", "its ring has wrapped"),
    "stands": ("every group has its state at that boundary", "some group lacks its state at that boundary"),
    "without_hole": ("each of these pages can be served", "one of these pages can't be served"),
    "filed_there": ("the frame is filed in that queue", "the frame isn't filed in that queue"),
    "all_resident": (
        "no page has to be brought back from the host",
        "some page has to be brought back from the host",
    ),
    "link_queue": (
        "the link, this copy included, is free in less than {bound} ticks",
        "the link, this copy included, isn't free for {bound} ticks",
    ),
    "losses": (
        "the losses charged to its session, this one included, stay below {bound} permille",
        "the losses charged to its session, this one included, come to {bound} permille",
    ),
}
"""What a guard asks, if it asks that it holds, and if it asks that it doesn't."""
assert set(SHOWN) == {text.__name__ for text in (*FACTS, *MEASURES)}


def in_words(ways: Sequence[Sequence[Asked]]) -> str:
    """A condition as text, to be read after "only if"."""
    said = [
        " and ".join(SHOWN[asked.name][0 if asked.holds else 1].format(bound=asked.bound) for asked in way)
        for way in ways
    ]
    return ", or ".join(said)


def guard_lines(recipe: Recipe, violation: Failure) -> list[str]:
    """The lines of an explanation that propose a guard and say what became of it."""
    found = proposed(recipe, violation)
    if isinstance(found, str):
        return [f"No guard is proposed: {found}."]
    blamed, tried = found
    return [_proposal(recipe, blamed, tried), *_after(violation.invariant, tried)]


def _proposal(recipe: Recipe, blamed: Blamed, tried: Tried) -> str:
    names, guard = recipe.schedule.policies, tried.guard
    actor = names[blamed.act.slot]
    whose = " and ".join(names) if len(tried.slots) > 1 else actor
    do = "begin a copy between device and host" if tried.primitives == COPIES else DO[blamed.primitive]
    rule = (
        f"{whose} should {do} only if {in_words(guard.ways)}" if guard.ways else f"{whose} should never {do}"
    )
    scope = "over all states of one session of two pages"
    kind = (
        f"The weakest guard, {scope}: {rule}."
        if guard.weakest
        else f"A guard, {scope}: {rule}. It refuses some harmless acts too; no condition on what a policy can be "
        "shown separates them."
    )
    if blamed.act.then == STEP:
        kind += f" Without what {actor} did at event {blamed.event} the reader wouldn't have met the breach."
    elif blamed.act.then is not None:
        kind += f" Without what {actor} did at event {blamed.event} what is in flight would have ended well."
    return kind


def _after(invariant: str, tried: Tried) -> list[str]:
    left = [name for name in tried.left if name != invariant]
    if invariant in tried.left:
        case = f"With it this schedule still breaks {invariant}: it isn't enough."
    elif left:
        case = f"With it this schedule doesn't break {invariant} any more, but still {' and '.join(left)}."
    else:
        case = "With it this schedule passes."
    rest = f"; {tried.other} break {invariant} in another way" if tried.other else ""
    return [
        f"{case} Of {tried.around:,} schedules around it {tried.without} break {invariant} in this way without the "
        f"guard, {tried.same or 'none'} with it{rest}."
    ]
