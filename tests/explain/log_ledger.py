"""The dependencies between the rows of a live run's page-event log once more: each kind is asked of the raw rows."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[int | str]
GIVES = ("alloc", "hit")


def holds(
    log: Sequence[Row], kind: str, first: int, then: int, about: dict[str, int], breach: tuple[int, int]
) -> bool:
    """Whether row ``then`` rests on row ``first`` in that way.

    ``breach`` is the row before which a violation was seen (the row with that number is the violation itself) and its page.
    """
    if not 0 <= first < then:
        return False
    a, b = log[first], log[then] if then != breach[0] else ("breaks", breach[1])
    block, host = about.get("block", -1), about.get("host", -1)
    what = (str(a[0]), str(b[0]))
    between = log[first + 1 : then]

    def named(row: Row, number: int) -> bool:
        return number in row[2:]

    if kind == "reused":
        again = any(row[0] in GIVES and named(row, block) for row in between)
        return what == ("free", "alloc") and named(a, block) and named(b, block) and not again
    if kind == "returned":
        again = any(row[0] in ("alloc", "free") and named(row, block) for row in between)
        return what == ("alloc", "free") and named(a, block) and named(b, block) and not again
    if kind == "carried":
        pairs = list(zip(a[2::2], a[3::2], strict=False))
        return (
            (str(a[0])[:-1], "+", "-") == (str(b[0])[:-1], str(a[0])[-1], str(b[0])[-1])
            and a[1] == b[1]
            and (
                block,
                host,
            )
            in pairs
        )
    if kind == "stored":
        begun = _begun(log, a, "store+")
        later = [_begun(log, row, "store+") for row in between if row[0] == "store-"]
        return (
            what == ("store-", "load+")
            and host in begun[3::2]
            and host in b[3::2]
            and not any(host in r[3::2] for r in later)
        )
    if kind in ("wrote", "loaded"):
        return _holds_since(log, first, then, block) and (
            block in b[2::2] if what[1] == "store+" else what[1] == "breaks" and b[1] == block
        )
    if kind == "offered":
        keys = _keys(log, int(b[1]))
        return what == ("offer", "store+") and bool(keys) and set(keys) <= set(a[2:])
    if kind == "forgot":
        before = {key for row in log[:first] if row[0] == "ready" for key in row[1:]}
        return what == ("reset", "offer") and a[1] == 1 and bool(before & set(b[2:]))
    if kind == "opened":
        return what[0] == "arrive" and a[1] == about["request"] and (what[1] == "breaks" or b[1] == a[1])
    if kind == "published":
        return what == ("ready", "claim") and about["key"] in a[1:] and about["key"] in b[2:]
    if kind == "claimed":
        return what == ("claim", "load+") and not any(row[0] == "claim" for row in between)
    if kind == "in-flight":
        ended = any(row[0] == f"{what[0][:-1]}-" and row[1] == a[1] for row in between)
        return (
            what[0] in ("store+", "load+")
            and what[1] == "alloc"
            and block in a[2::2]
            and named(b, block)
            and not ended
        )
    return False


def _begun(log: Sequence[Row], ended: Row, name: str) -> Row:
    return next((row for row in log if row[0] == name and row[1:2] == ended[1:2]), ())


def _keys(log: Sequence[Row], job: int) -> Sequence[int | str]:
    told = [row[1] for row in log if row[0] == "store="]
    keys = [row[1:] for row in log if row[0] in ("ready", "lost")]
    return keys[told.index(job)] if job in told else ()


def _holds_since(log: Sequence[Row], first: int, then: int, block: int) -> bool:
    """Whether what a block holds at a row is what a row before gave it; what is given out counts from the next step on."""
    holder, coming = -1, -1
    for n, row in enumerate(log[:then]):
        if row[0] == "step" and coming >= 0:
            holder, coming = coming, -1
        elif row[0] == "alloc" and block in row[2:]:
            coming = n
        elif row[0] == "load-" and block in _begun(log, row, "load+")[2::2]:
            holder, coming = n, -1
    breaks = then >= len(log) or log[then][0] in ("step", "breaks")
    return first == (coming if breaks and coming >= 0 else holder)
