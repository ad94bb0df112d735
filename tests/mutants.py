"""One behaviour for each invariant that breaks exactly that one, and a clean twin with one word changed.

They are policies for any schedule: they act on whatever page they may, whenever they may, and the twin never
breaks anything.  (``tests.broken`` has scripted ones for one schedule each, to look at single steps.)
"""

# The vocabulary is imported as a whole, so that a rule reads like a rule.
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import dataclass

from fuzzkv.api import *
from fuzzkv.semantics.schedule import Config


def idle(s: State, p: Int) -> Bool:
    """Whether the page is open and nothing is in flight for it."""
    return and_(get(s, OWNED, p) == 1, not_(page_in_flight(s, p)))


def settle_on_host(s: State, k: Int, promised: Int) -> None:
    """Store the first page that the host hasn't, then let the device give it up (and quote it, if wanted)."""
    fresh, moved = -1, -1
    for p in each(NP):
        fresh = ite(and_(fresh < 0, idle(s, p), present(s, p), get(s, HOST, p) < 0), p, fresh)
        moved = ite(and_(moved < 0, idle(s, p), present(s, p), hosted(s, p)), p, moved)
    promise(s, and_(promised == 1, moved >= 0), k, slot(moved))
    drop_device(s, moved >= 0, k, slot(moved))
    begin_store(s, and_(fresh >= 0, own_in_flight(s, k) == 0), k, slot(fresh))


def forgets(s: State, k: Int, checks: Int) -> None:
    """Quotes pages that it has moved, and later frees host frames."""
    old = -1
    for p in each(NP):
        away = or_(checks == 0, present(s, p))
        stale = get(s, LAST, p) + 12 <= get(s, NOW, 0)
        old = ite(and_(old < 0, idle(s, p), hosted(s, p), stale, away, get(s, MARK, k * NP + p) == 1), p, old)
    withdraw(s, and_(checks == 1, old >= 0), k, slot(old))
    drop_host(s, old >= 0, k, slot(old), 0)
    put_if(s, old >= 0, MARK, k * NP + slot(old), 0)
    settle_on_host(s, k, 1)
    for p in each(NP):
        put_if(s, and_(get(s, DEV, p) < 0, get(s, QUOTE, k * NP + p) == 1), MARK, k * NP + p, 1)


def i1_mutant(s: State, k: Int) -> None:
    """Frees the host frame of a page that it quotes and that is nowhere else."""
    forgets(s, k, 0)


def i1_twin(s: State, k: Int) -> None:
    """Frees it only once the page is back, and withdraws first."""
    forgets(s, k, 1)


def i2_mutant(s: State, k: Int) -> None:
    """Gives the device frame up while its store reads it."""
    ready = -1
    for p in each(NP):
        ready = ite(and_(ready < 0, present(s, p), get(s, HOST, p) >= 0), p, ready)
    drop_device(s, ready >= 0, k, slot(ready))
    settle_on_host(s, k, 0)


def i2_twin(s: State, k: Int) -> None:
    """Waits for the store."""
    settle_on_host(s, k, 0)


def publishes(s: State, k: Int, filled: Int) -> None:
    """Moves pages to the host, loads them back, and publishes them."""
    away, here = -1, -1
    for p in each(NP):
        away = ite(and_(away < 0, idle(s, p), get(s, DEV, p) < 0, hosted(s, p)), p, away)
        d = get(s, DEV, p)
        ready = or_(filled == 0, get(s, D_FILL, slot(d)) == 1)
        new = get(s, MARK, k * NP + p) == 1
        here = ite(and_(here < 0, get(s, OWNED, p) == 1, d >= 0, ready, new), p, here)
    publish(s, here >= 0, k, slot(here), KEY_ALL)
    put_if(s, here >= 0, MARK, k * NP + slot(here), 2)
    for x in each(NX):
        unpublish(s, get(s, X_BY, x) == k, k, x)
    calm = and_(away >= 0, own_in_flight(s, k) == 0, get(s, MARK, k * NP + slot(away)) == 0)
    begun = begin_load(s, calm, k, slot(away))
    put_if(s, begun, MARK, k * NP + slot(away), 1)
    settle_on_host(s, k, 0)


def i3_mutant(s: State, k: Int) -> None:
    """Publishes a page while its load is in flight."""
    publishes(s, k, 0)


def i3_twin(s: State, k: Int) -> None:
    """Publishes what is filled."""
    publishes(s, k, 1)


def backs_up(s: State, k: Int, waits: Int) -> None:
    """Stores a page, then rewrites it at 8 bits."""
    fresh, ready = -1, -1
    for p in each(NP):
        fresh = ite(and_(fresh < 0, idle(s, p), present(s, p), get(s, HOST, p) < 0), p, fresh)
        calm = or_(waits == 0, hosted(s, p))
        full = get(s, D_PREC, slot(get(s, DEV, p))) == EXACT
        ready = ite(and_(ready < 0, present(s, p), get(s, HOST, p) >= 0, calm, full), p, ready)
    quantise(s, ready >= 0, k, slot(ready), INT8)
    begin_store(s, and_(fresh >= 0, own_in_flight(s, k) == 0), k, slot(fresh))


def i4_mutant(s: State, k: Int) -> None:
    """Rewrites a page under its own store."""
    backs_up(s, k, 0)


def i4_twin(s: State, k: Int) -> None:
    """Waits for the store."""
    backs_up(s, k, 1)


def scales(s: State, k: Int, asks: Int) -> None:
    """Lays the pool out anew, then writes scales for the layout that it knows, or asks for it."""
    relayout(s, get(s, NOTE, k) == 0, k, 1)
    put_if(s, True, NOTE, k, 1)
    plain = -1
    for p in each(NP):
        here = and_(present(s, p), get(s, D_SIDE, slot(get(s, DEV, p))) == 0, get(s, OWNED, p) == 1)
        plain = ite(and_(plain < 0, here, get(s, MARK, k * NP + p) == 0), p, plain)
    write_scale(s, plain >= 0, k, slot(plain), ite(asks == 1, get(s, LAYOUT, 0), 0))
    put_if(s, plain >= 0, MARK, k * NP + slot(plain), 1)


def i5_mutant(s: State, k: Int) -> None:
    """Writes scales where they lay before."""
    scales(s, k, 0)


def i5_twin(s: State, k: Int) -> None:
    """Writes them where they lie."""
    scales(s, k, 1)


def encodes(s: State, k: Int, what: Int) -> None:
    """Publishes a page with its scales; frees cached frames; writes scales where none stand and encodes."""
    plain, fresh, cached = -1, -1, -1
    for p in each(NP):
        d = slot(get(s, DEV, p))
        here = and_(present(s, p), get(s, OWNED, p) == 1, get(s, D_CODED, d) == 0)
        plain = ite(and_(plain < 0, here), p, plain)
        fresh = ite(and_(fresh < 0, present(s, p), get(s, OWNED, p) == 1), p, fresh)
    for x in each(NX):
        cached = ite(and_(cached < 0, cached_only(s, x)), x, cached)
    expire(s, cached >= 0, k, slot(cached), what)
    publish(s, and_(fresh >= 0, get(s, X_KEY, 0) == 0), k, slot(fresh), KEY_ALL)
    write_scale(s, plain >= 0, k, slot(plain), get(s, LAYOUT, 0))
    encode(s, and_(plain >= 0, get(s, D_SIDE, slot(get(s, DEV, slot(plain)))) != 0), k, slot(plain))


def i6_mutant(s: State, k: Int) -> None:
    """Frees a cached frame's payload, and leaves its scales to the next page."""
    encodes(s, k, PAYLOAD + ENTRY)


def i6_twin(s: State, k: Int) -> None:
    """Frees both."""
    encodes(s, k, PAYLOAD + SCALES + ENTRY)


def reuses(s: State, k: Int, keyed: Int) -> None:
    """Serves every other session with an adapter; publishes full pages and looks waiting ones up."""
    for r in each(NR):
        odd = get(s, R_EPOCH, r) - div(get(s, R_EPOCH, r), 2) * 2
        serve_as(s, and_(waiting(s, r), get(s, R_ADAPTER, r) == 0), k, r, odd, 0)
    new, wanted, cached = -1, -1, -1
    for p in each(NP):
        new = ite(and_(new < 0, present(s, p), get(s, TODO, p) == 0, get(s, MARK, k * NP + p) == 0), p, new)
        wanted = ite(and_(wanted < 0, to_do(s, p), get(s, MARK, k * NP + p) == 0), p, wanted)
    for x in each(NX):
        cached = ite(and_(cached < 0, cached_only(s, x), free_device_frames(s) < 4), x, cached)
    expire(s, cached >= 0, k, slot(cached), PAYLOAD + SCALES + ENTRY)
    put_if(s, publish(s, new >= 0, k, slot(new), keyed), MARK, k * NP + slot(new), 1)
    hit(s, wanted >= 0, k, slot(wanted), keyed)
    put_if(s, wanted >= 0, MARK, k * NP + slot(wanted), 1)


def i7_mutant(s: State, k: Int) -> None:
    """Its keys leave the adapter out."""
    reuses(s, k, KEY_ALL - KEY_ADAPTER)


def i7_twin(s: State, k: Int) -> None:
    """Its keys cover everything."""
    reuses(s, k, KEY_ALL)


def caches(s: State, k: Int, what: Int) -> None:
    """Publishes pages, and frees cached frames."""
    new, cached = -1, -1
    for p in each(NP):
        new = ite(and_(new < 0, present(s, p), get(s, TODO, p) == 0, get(s, MARK, k * NP + p) == 0), p, new)
    for x in each(NX):
        cached = ite(and_(cached < 0, cached_only(s, x)), x, cached)
    expire(s, cached >= 0, k, slot(cached), what)
    put_if(s, publish(s, new >= 0, k, slot(new), KEY_ALL), MARK, k * NP + slot(new), 1)


def i8_mutant(s: State, k: Int) -> None:
    """Frees a cached frame and keeps its entry."""
    caches(s, k, PAYLOAD + SCALES)


def i8_twin(s: State, k: Int) -> None:
    """Takes the entry out with it."""
    caches(s, k, PAYLOAD + SCALES + ENTRY)


def rolls_back(s: State, k: Int, parts: Int) -> None:
    """Moves pages to the host, and rewinds a session when its user asks for it."""
    for r in each(NR):
        flying = 0
        for i in each(PAGES):
            flying = flying + get(s, BUSY, r * PAGES + i)
        rewind(s, and_(get(s, R_ASKED, r) > 0, flying == 0), k, r, get(s, R_ASKED, r) - 1, parts)
    settle_on_host(s, k, 0)


def i9_mutant(s: State, k: Int) -> None:
    """Rewinds the device and leaves the host."""
    rolls_back(s, k, DEVICE_PART)


def i9_twin(s: State, k: Int) -> None:
    """Rewinds everything."""
    rolls_back(s, k, ALL_PARTS)


def resumes(s: State, k: Int, everything: Int) -> None:
    """Gives sessions a recurrent group, keeps its state where it can, and resumes what was set aside."""
    for r in each(NR):
        split_groups(s, and_(waiting(s, r), get(s, R_STEPS, r) == 0), k, r)
        checkpoint(s, get(s, R_STEPS, r) >= 2, k, r)
        n = ite(everything == 1, get(s, R_N, r), kept_boundary(s, r, get(s, R_N, r)))
        again = and_(waiting(s, r), get(s, R_STEPS, r) > 0, get(s, R_BOUND, r) == 0)
        resume(s, and_(again, n > 0), k, r, n)


def i10_mutant(s: State, k: Int) -> None:
    """Resumes where attention stands."""
    resumes(s, k, 1)


def i10_twin(s: State, k: Int) -> None:
    """Resumes where all groups stand."""
    resumes(s, k, 0)


def files(s: State, k: Int, queue: Int) -> None:
    """Files device frames by how often their page was asked for, and claims them again."""
    new, old = -1, -1
    for p in each(NP):
        here = and_(present(s, p), get(s, OWNED, p) == 1)
        filed = get(s, D_QUEUE, slot(get(s, DEV, p))) > 0
        new = ite(and_(new < 0, here, not_(filed), get(s, MARK, k * NP + p) == 0), p, new)
        old = ite(and_(old < 0, here, filed, get(s, HITS, p) > 0), p, old)
    enqueue(s, new >= 0, k, slot(get(s, DEV, slot(new))), 0)
    put_if(s, new >= 0, MARK, k * NP + slot(new), 1)
    dequeue(s, old >= 0, k, slot(get(s, DEV, slot(old))), queue)


def i11_mutant(s: State, k: Int) -> None:
    """Claims from the queue in which a page that was asked for ought to stand."""
    files(s, k, 1)


def i11_twin(s: State, k: Int) -> None:
    """Claims from the queue in which it stands."""
    files(s, k, 0)


def quotes(s: State, k: Int, exact: Int) -> None:
    """Rewrites one page in two at 8 bits, and quotes pages."""
    lossy, sure = -1, -1
    for p in each(NP):
        odd = p - div(p, 2) * 2
        here = and_(present(s, p), get(s, OWNED, p) == 1)
        full = get(s, D_PREC, slot(get(s, DEV, p))) == EXACT
        lossy = ite(and_(lossy < 0, here, full, odd == 1, get(s, QUOTE, k * NP + p) == 0), p, lossy)
        ready = or_(exact == 0, and_(full, odd == 0))
        sure = ite(and_(sure < 0, here, ready, get(s, QUOTE, k * NP + p) == 0), p, sure)
    quantise(s, lossy >= 0, k, slot(lossy), INT8)
    promise(s, sure >= 0, k, slot(sure))


def i12_mutant(s: State, k: Int) -> None:
    """Quotes whatever is there."""
    quotes(s, k, 0)


def i12_twin(s: State, k: Int) -> None:
    """Quotes what is exact and stays it."""
    quotes(s, k, 1)


def schedules(s: State, k: Int) -> None:
    """A round: preempt who runs for one who waits, if that makes room; admit who can be."""
    for r in each(NR):
        other = 1 - r
        room = free_device_frames(s) + get(s, R_N, other) >= get(s, R_N, r)
        short = free_device_frames(s) < get(s, R_N, r)
        preempt(s, and_(waiting(s, r), running(s, other), short, room), k, other)
        admit(s, waiting(s, r), k, r)
    end_round(s, True, k)


def i13_mutant(s: State, k: Int) -> None:
    """Defers its frees behind a step that then nobody runs."""
    defer_frees(s, True, k)
    schedules(s, k)


def i13_twin(s: State, k: Int) -> None:
    """Frees at once."""
    schedules(s, k)


def moves(s: State, k: Int, copies: Int) -> None:
    """Moves cold pages to the host, so many copies at a time."""
    for p in each(NP):
        ready = and_(idle(s, p), present(s, p), hosted(s, p), get(s, LAST, p) + 8 <= get(s, NOW, 0))
        drop_device(s, ready, k, p)
    for p in each(NP):
        fresh = and_(idle(s, p), present(s, p), get(s, HOST, p) < 0, own_in_flight(s, k) < copies)
        begin_store(s, fresh, k, p)


def i14_mutant(s: State, k: Int) -> None:
    """Fills the link."""
    moves(s, k, NJ)


def i14_twin(s: State, k: Int) -> None:
    """One copy at a time."""
    moves(s, k, 1)


def serves(s: State, k: Int, counts: Int) -> None:
    """Stores the pages of a session in order and says how many it serves."""
    for r in each(NR):
        next_page = -1
        prefix = 0
        for i in each(PAGES):
            p = r * PAGES + i
            mine = and_(i < get(s, R_N, r), get(s, OWNED, p) == 1)
            tried = get(s, MARK, k * NP + p) == 1
            have = ite(counts == 1, get(s, HOST, p) >= 0, tried)
            prefix = prefix + ite(and_(mine, have, prefix == i), 1, 0)
            next_page = ite(and_(next_page < 0, mine, not_(have), not_(page_in_flight(s, p))), p, next_page)
        report(s, and_(prefix > 0, next_page < 0), k, r, prefix)
        begin_store(s, and_(next_page >= 0, own_in_flight(s, k) < 2), k, slot(next_page))
        put_if(s, next_page >= 0, MARK, k * NP + slot(next_page), 1)


def i15_mutant(s: State, k: Int) -> None:
    """Counts what it has tried to store."""
    serves(s, k, 0)


def i15_twin(s: State, k: Int) -> None:
    """Counts what the host has."""
    serves(s, k, 1)


def keeps(s: State, k: Int, early: Int) -> None:
    """Copies pages to an external store, and looks waiting ones up there while nothing of it is in flight."""
    new, wanted = -1, -1
    for p in each(NP):
        fresh = and_(idle(s, p), present(s, p), get(s, TODO, p) == 0, get(s, MARK, k * NP + p) == 0)
        new = ite(and_(new < 0, fresh), p, new)
        wanted = ite(and_(wanted < 0, to_do(s, p), get(s, MARK, k * NP + p) == 0), p, wanted)
    calm = own_in_flight(s, k) == 0
    hit(s, and_(calm, wanted >= 0), k, slot(wanted), KEY_ALL)
    put_if(s, and_(calm, wanted >= 0), MARK, k * NP + slot(wanted), 1)
    stored = spill(s, and_(new >= 0, own_in_flight(s, k) == 0), k, slot(new), KEY_ALL, early)
    put_if(s, stored, MARK, k * NP + slot(new), 1)


def i16_mutant(s: State, k: Int) -> None:
    """Enters a page in the index before its copy has ended, whatever becomes of that."""
    keeps(s, k, 1)


def i16_twin(s: State, k: Int) -> None:
    """Enters it when the copy has ended well."""
    keeps(s, k, 0)


def judges(s: State, k: Int, sees: Int) -> None:
    """Moves pages to the host, and condemns those with little attention."""
    low = -1
    for p in each(NP):
        seen = or_(sees == 0, and_(present(s, p), get(s, SEEN, p) == get(s, LIFE, p)))
        old = and_(get(s, OWNED, p) == 1, get(s, LIFE, p) >= 2, get(s, MARK, k * NP + p) == 0)
        low = ite(and_(low < 0, old, seen, get(s, ATT, p) <= 2 * get(s, LIFE, p)), p, low)
    condemn(s, low >= 0, k, slot(low))
    put_if(s, low >= 0, MARK, k * NP + slot(low), 1)
    settle_on_host(s, k, 0)


def i17_mutant(s: State, k: Int) -> None:
    """Takes a page that nobody could see for one that nobody looked at."""
    judges(s, k, 0)


def i17_twin(s: State, k: Int) -> None:
    """Judges what was seen."""
    judges(s, k, 1)


def deletes(s: State, k: Int, quota: Int) -> None:
    """Deletes pages for good, through the host, up to a quota of answers lost."""
    fresh, ready = -1, -1
    for p in each(NP):
        r = request_of(p)
        share = get(s, SHARE, get(s, R_N, r))
        fits = get(s, SPENT, k * NR + r) + share <= quota
        one = own_in_flight(s, k) == 0
        inner = and_(p > r * PAGES, get(s, EVICTED, p) == 0)
        fresh = ite(
            and_(fresh < 0, one, inner, idle(s, p), present(s, p), get(s, HOST, p) < 0, fits), p, fresh
        )
        ready = ite(and_(ready < 0, inner, idle(s, p), present(s, p), hosted(s, p), fits), p, ready)
    page = slot(ready)
    drop_device(s, ready >= 0, k, page)
    lose(s, drop_host(s, ready >= 0, k, page, 1), k, page)
    begin_store(s, fresh >= 0, k, slot(fresh))


def i18_mutant(s: State, k: Int) -> None:
    """Its quota is all there is."""
    deletes(s, k, 1000)


def i18_twin(s: State, k: Int) -> None:
    """Its quota is the ledger's."""
    deletes(s, k, get(s, LEDGER, 0))


@dataclass(frozen=True)
class Mutant:
    """An invariant, the policy that breaks it and its clean twin."""

    invariant: str
    policy: Policy
    twin: Policy
    config: Config


def _policy(invariant: str, rule: Rule, workload: tuple[str, ...]) -> Policy:
    evidence = Evidence(
        target="near-reuse", horizon=1, confidence=900, provenance="none", calibrated_on="nothing"
    )
    every = tuple(name for name in does.__globals__["OPERATIONS"] if name in does.__globals__["ACTIONS"])
    return Policy(
        name=f"breaks-{invariant.lower()}",
        version="1",
        rule=rule,
        workload=workload,
        manifest=Manifest(
            kind="test", actions=does(*every), evidence=evidence, source="a test", fidelity="[R]"
        ),
    )


_WORKLOAD = {
    "I7": ("queue", "text"),
    "I9": ("abort",),
    "I10": ("queue", "pause"),
    "I13": ("queue",),
    "I16": ("queue", "text"),
}

MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(
        invariant=f"I{i}",
        policy=_policy(f"I{i}", globals()[f"i{i}_mutant"], _WORKLOAD.get(f"I{i}", ())),
        twin=_policy(f"I{i}", globals()[f"i{i}_twin"], _WORKLOAD.get(f"I{i}", ())),
        config=Config(),
    )
    for i in range(1, 19)
)
"""One for each invariant."""
