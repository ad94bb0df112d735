"""Writes fuzzkv/semantics/vocabulary.pyi, so that type checkers know the names that the vocabulary takes from the layout.

At run time every number of the semantics is a plain integer.  The stub gives the numbers of pages, sessions, policies, frames
and so on a type each, so that ``mypy --strict`` refuses arguments in the wrong order and a column that is read with the
number of another thing.  A plain ``int`` passes for any of them: a local that begins at -1 is one, and so is what
arithmetic gives.

``--check`` only says whether the file is up to date (exit 1 if it isn't).
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "fuzzkv/semantics/vocabulary.pyi"

COUNTED = {
    "NR": "SessionId",
    "NP": "PageId",
    "ND": "DeviceFrame",
    "NH": "HostFrame",
    "NJ": "CopyId",
    "NX": "EntryId",
    "NQ": "QueueId",
    "NK": "PolicyId",
    "NINV": "InvariantId",
    "NPRIM": "PrimitiveId",
    "NCLAUSE": "ClauseId",
    "NGOAL": "GoalId",
}
"""What a size of the layout counts: the type of the numbers below it."""
HELD = {
    "DeviceFrame": ("DEV", "X_FRAME"),
    "HostFrame": ("HOST",),
    "PageId": ("D_PAGE", "H_PAGE", "J_PAGE", "V_PAGE"),
    "PolicyId": ("J_BY", "X_BY", "V_ACTOR"),
    "PrimitiveId": ("V_PRIM",),
    "Any": ("J_SRC", "J_DST"),
}
"""Columns that hold the number of a thing; the others hold counts, times, tags and codes."""
CODES = {r"P_\w+": "PrimitiveId", r"C_\w+": "ClauseId", r"GOAL_\w+": "GoalId", r"I\d+": "InvariantId"}
"""Forms of the names of codes, and what they are codes of."""

HEAD = '''# Written by scripts/vocabulary_stub.py from fuzzkv/semantics/layout.py.
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

class _Number:
    """A number of some thing: it can be compared and computed with like an int."""
    def __add__(self, other: Any, /) -> int: ...
    def __radd__(self, other: Any, /) -> int: ...
    def __sub__(self, other: Any, /) -> int: ...
    def __rsub__(self, other: Any, /) -> int: ...
    def __mul__(self, other: Any, /) -> int: ...
    def __rmul__(self, other: Any, /) -> int: ...
    def __lt__(self, other: Any, /) -> bool: ...
    def __le__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...
    def __ge__(self, other: Any, /) -> bool: ...
    def __int__(self) -> int: ...

class _Truth:
    """What a combination of conditions gives: no number."""

class State(Protocol):
    """A run of integers, or what stands for one."""
    def __getitem__(self, place: Any, /) -> Any: ...

Int: TypeAlias = int
Bool: TypeAlias = _Truth | bool
AnyNumber: TypeAlias = _Number | int
{types}
AnyId = TypeVar("AnyId", bound=AnyNumber)
_I = TypeVar("_I")
_V = TypeVar("_V")
_N = TypeVar("_N", bound=_Number)

class _Column(Generic[_I, _V]):
    """A column: the numbers that it is read with, and what it holds."""

PageColumn: TypeAlias = _Column[PageId, Any]

class _Count(_Number, Generic[_I]):
    """How many there are of some thing."""

_listener: list[Callable[[int, int, int, int], None]]

def get(s: State, column: _Column[_I, _V], i: _I) -> _V: ...
def put(s: State, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
def put_if(s: State, g: Bool, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
def add_if(s: State, g: Bool, column: _Column[_I, _V], i: _I, value: _V) -> None: ...
@overload
def ite(g: Bool, yes: Bool, no: Bool) -> Bool: ...  # type: ignore[overload-overlap]
@overload
def ite(g: Bool, yes: int, no: int) -> int: ...
@overload
def ite(g: Bool, yes: _N | int, no: _N | int) -> _N | int: ...
def and_(*terms: Bool) -> Bool: ...
def or_(*terms: Bool) -> Bool: ...
def not_(term: Bool) -> Bool: ...
def div(a: AnyNumber, b: AnyNumber) -> Int: ...
@overload
def each(n: _Count[_I]) -> Iterable[_I]: ...
@overload
def each(n: int) -> range: ...
def guard(g: Bool) -> None: ...
def skip(g: Bool) -> None: ...
def listening(listener: Callable[[int, int, int, int], None]) -> AbstractContextManager[None]: ...
def note(s: State, g: Bool, primitive: PrimitiveId, actor: PolicyId, page: PageId, detail: AnyNumber) -> None: ...

'''


def types_of(sizes: dict[str, str], names: list[str]) -> list[str]:
    """The lines that give each constant its type; ``sizes`` has the columns' sizes as the layout writes them."""
    held = {column: kind for kind, columns in HELD.items() for column in columns}
    unknown = sorted({*held} - {*sizes} | {*COUNTED} - {*names})
    if unknown:
        raise SystemExit(f"not in the layout: {', '.join(unknown)}")
    lines = []
    for name in names:
        if name in sizes:
            kind = f"_Column[{index_of(sizes[name])}, {held.get(name, 'int')}]"
        elif name in COUNTED:
            kind = f"_Count[{COUNTED[name]}]"
        else:
            kind = next((f"_{kind}" for form, kind in CODES.items() if re.fullmatch(form, name)), "int")
        lines.append(f"{name}: {kind}")
    return lines


def index_of(size: str) -> str:
    """The type of the numbers that a column of this size is read with."""
    if size in COUNTED:
        return COUNTED[size]
    return "int"


def columns_of(source: str) -> dict[str, str]:
    """The sizes of the columns, by name, as the source of the layout writes them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_COLUMNS":
            assert isinstance(node.value, ast.Tuple)
            rows = [row.elts for row in node.value.elts if isinstance(row, ast.Tuple)]
            return {str(ast.literal_eval(name)): ast.unparse(size) for name, size in rows}
    raise SystemExit("the layout has no _COLUMNS")


def stub() -> str:
    """The text of the stub."""
    sys.path.insert(0, str(ROOT))
    from fuzzkv.semantics import layout
    from fuzzkv.semantics.vocabulary import __all__ as names

    kinds = sorted(set(COUNTED.values()))
    classes = [f"class _{kind}(_Number): ..." for kind in kinds]
    aliases = [f"{kind}: TypeAlias = _{kind} | int" for kind in kinds]
    lines = types_of(columns_of(inspect.getsource(layout)), list(layout.constants()))
    head = HEAD.format(types="\n".join([*classes, *aliases]))
    return head + "\n".join(lines) + f"\n\n__all__: list[str] = {sorted(names)!r}\n"


if __name__ == "__main__":
    text = stub()
    if "--check" in sys.argv:
        fresh = STUB.exists() and STUB.read_text() == text
        print(
            f"{STUB.relative_to(ROOT)}: {'up to date' if fresh else 'out of date, run scripts/vocabulary_stub.py'}"
        )
        sys.exit(0 if fresh else 1)
    STUB.write_text(text)
