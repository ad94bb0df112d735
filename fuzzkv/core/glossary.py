"""The words of reports: what each primitive does, what each invariant's breach means, what each clause asks.

One table a thing, complete over the contract's names; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

DOING: Mapping[str, str] = {
    "drop_host": "destroys the host copy",
    "drop_device": "gives up the device copy",
    "quantise": "rewrites the bytes",
    "promise": "quotes the page as exact",
    "condemn": "condemns the page",
    "step": "make a reader wait",
    "read": "make a reader meet wrong bytes",
    "grow": "make a reader wait",
    "arrive": "leave a frame without an owner",
    "queue": "leave a frame without an owner",
    "publish": "publishes the page",
    "hit": "takes a page from the index",
    "expire": "frees a cached frame",
    "report": "reports what it serves",
    "preempt": "preempts a session",
    "end_round": "ends its round",
    "rewind": "rewinds the session",
    "trim": "crops the session",
    "resume": "resumes the session",
    "write_scale": "writes scales",
    "encode": "encodes the page",
    "run_ahead": "writes late",
    "dequeue": "claims a frame",
    "doze": "sleeps",
    "spend": "acts on a certificate",
    "fail_copy": "counts a page as valid",
    "end_copy": "stores changed bytes",
}
"""What the actor of a violation does, for titles; nobody's primitives read with all policies as the subject."""

BREACH: Mapping[str, str] = {
    "I1": "while {other} [relies|rely] on it",
    "I2": "through a frame that {other} still [has|have] something in flight on",
    "I3": "before it is filled",
    "I4": "",
    "I5": "in another layout than {other} [reads|read] it",
    "I6": "with scales that aren't the payload's own",
    "I7": "under a key that leaves out what {other} [has|have] changed",
    "I8": "and its entry names what isn't there",
    "I9": "and bytes of the abandoned branch stay",
    "I10": "at a boundary where not every group stands",
    "I11": "and the books of {other} no longer agree",
    "I12": "though only lossy bytes are left",
    "I13": "and nobody runs any more",
    "I14": "beyond the latency objective, though each keeps its own budget",
    "I15": "and the hole that {other} made voids what follows it",
    "I16": "though its copy has failed",
    "I17": "on evidence that doesn't cover it, as {other} left it",
    "I18": "and the losses together exceed the quality budget that each keeps",
}
"""What a breach of each invariant means, for titles; ``[relies|rely]``: of one policy, of several."""

SAID: Mapping[str, str] = {
    "begin_store": "begins to copy {page} to the host",
    "end_store": "the copy of {page} to the host is complete",
    "begin_load": "begins to copy {page} back to the device",
    "end_load": "the copy of {page} to the device is complete",
    "fail_copy": "the copy of {page} in flight delivers nothing",
    "drop_device": "gives up the device copy of {page}",
    "drop_host": "destroys the host copy of {page}{loss}",
    "quantise": "rewrites {page} in place at {bits} bits",
    "promise": "quotes {page} as exactly recoverable",
    "withdraw": "withdraws its quote of {page}",
    "condemn": "condemns {page} on its evidence",
    "lose": "declares {page} evicted",
    "step": "a step of {session} asks about {page} and takes {detail tick}",
    "read": "a step of {session} reads {page}",
    "tick": "{detail tick} pass",
    "demand_load": "{page} is loaded while its reader waits {detail tick}",
    "remote_read": "{page} is read in place on the host while its reader waits {detail tick}",
    "arrive": "{session} opens with {detail page}",
    "relevance": "{page} fades from attention",
    "late_copy": "the link stalls for {detail tick}",
    "finish": "{session} ends",
    "queue": "{session} of {detail page} opens and waits",
    "prefill": "the pages of {session} that are still to do are computed",
    "grow": "{session} generates {detail token}",
    "admit": "admits {session}, which waited",
    "preempt": "preempts {session}",
    "end_round": "ends its round with {detail session} running",
    "defer_frees": "defers all frees behind the next step",
    "ask_frames": "asks for a cached frame to be freed",
    "pressure": "memory pressure takes {detail device frame} away",
    "pause": "the engine sets {session} aside",
    "publish": "publishes {page} in the index",
    "unpublish": "takes entry {detail} out of the index",
    "hit": "finds {page} in the index and takes it",
    "expire": "frees the cached frame of {page}",
    "report": "says that it serves the first {detail page} of {session}",
    "hold": "keeps a handle on {session}",
    "serve_as": "serves {session} with adapter {detail}",
    "draft": "drafts {detail token} ahead for {session}",
    "verify": "{detail draft} of {session} at most are accepted, the others taken back",
    "rewind": "rewinds {session} to before {page}",
    "fork": "opens {session} as a branch of another session",
    "trim": "crops {session} to {detail page}",
    "make_ring": "puts the window of {session} into a ring at position {detail}",
    "ring_append": "writes the ring of {session} up to position {detail}",
    "split_groups": "gives {session} a recurrent group",
    "checkpoint": "keeps the recurrent state of {session} after {detail page}",
    "resume": "resumes {session} after {detail page}",
    "relayout": "lays the device pool out anew, as layout {detail}",
    "write_scale": "writes the scales of {page} for layout {detail}",
    "encode": "encodes {page} with the scales beside it",
    "forget_scale": "keeps the host copy of {page} without its scales",
    "run_ahead": "launches a step ahead that will write {page}",
    "receive": "begins to receive {page} from a peer",
    "spill": "begins to copy {page} to the external store",
    "end_copy": "what {actor} put in flight lands",
    "trust": "counts {page} as valid while its copy is in flight",
    "pin": "pins the host copy of {page}",
    "unpin": "unpins host frame {detail}",
    "enqueue": "files device frame {detail} as evictable",
    "dequeue": "claims device frame {detail}",
    "load_weights": "loads new weights",
    "doze": "sleeps and wakes",
    "certify": "certifies {page} as low",
    "spend": "takes the certificate of {page} as its warrant",
}
"""One sentence a primitive, for explanations: ``{detail tick}`` is a number of ticks, with the plural where it needs one."""

ASKED: Mapping[str, str] = {
    "fail": "the oldest copy in flight fails",
    "text": "the next session gets a text that others may have",
    "abort": "the user of a session takes text back",
    "weights": "new weights are published",
    "sleep": "sleep is asked for",
    "act": "notes something for itself",
    "finish": "a session that should end runs on instead",
    "grow": "a session can't grow: no device frame is free",
    "late": "the link stalls",
    "step": "a step can't run yet",
}
"""What an event says that changes something without a primitive of its own."""

LANDING = frozenset({"end_store", "end_load", "end_copy"})
"""Primitives whose subject is the copy, not the policy that began it."""


def counted(number: int, noun: str) -> str:
    """``1 page``, ``1,200 pages``, ``2 classes``: nouns whose plural takes an s, or es after one."""
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural}"


def joined(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"


CLAUSE: Mapping[str, str] = {
    "authority": "a copy that another policy's quote relies on may not be the last exact one to go",
    "fence": "a frame with something in flight on it may not be given up, rewritten or filled by a copy",
    "evidence": "an action needs evidence whose target and horizon cover it",
    "quality-budget": "the losses charged to a request must still fit the shared budget",
    "link-budget": "a background copy must leave room on the link for a reader's own recovery",
    "claim": "a page may be quoted as exact only while an exact copy exists",
    "layout": "bytes and scales are written and kept only in the layout in which they will be read",
    "version": "bytes may be used only for what they were computed with: text, branch, adapter, weights",
    "index": "an entry may name only a frame that holds its content, and goes with it",
    "boundary": "a session goes on only from a boundary to which every part of its cache was restored",
    "accounting": "a frame is claimed from where it is filed",
    "progress": "a promise to serve, and the last session that runs, may not be given up for nothing",
    "fail-closed": "a page counts only once its copy has ended well",
}
"""What each clause of the contract asks."""


def title(names: tuple[str, ...], invariant: str, actor: str | None, primitive: str) -> str:
    """One line that says what a violation is; ``names`` are the policies of the set."""
    beside = [name for name in names if name != actor]
    others = " and ".join(beside) or "others"
    if primitive == "end_store" or (primitive == "end_copy" and invariant == "I4"):
        return f"{others} {'changes' if len(beside) == 1 else 'change'} the bytes of a page while {actor} stores it"
    subject = actor or " and ".join(names)
    what = DOING.get(primitive, primitive.replace("_", " "))
    breach = re.sub(r"\[(\w+)\|(\w+)\]", r"\1" if len(beside) == 1 else r"\2", BREACH[invariant])
    return f"{subject} {what} {breach.format(other=others)}".strip()
