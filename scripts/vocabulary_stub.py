"""Writes fuzzkv/semantics/vocabulary.pyi, so that type checkers know the names that the vocabulary takes from the layout.

``--check`` only says whether the file is up to date (exit 1 if it isn't).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "fuzzkv/semantics/vocabulary.pyi"

HEAD = """# Written by scripts/vocabulary_stub.py from fuzzkv/semantics/layout.py.
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Int = Any
Bool = Any
State = Any
_listener: list[Callable[[int, int, int, int], None]]

def get(s: State, column: int, i: Int) -> Int: ...
def put(s: State, column: int, i: Int, value: Int) -> None: ...
def put_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None: ...
def add_if(s: State, g: Bool, column: int, i: Int, value: Int) -> None: ...
def ite(g: Bool, yes: Int, no: Int) -> Int: ...
def and_(*terms: Bool) -> Bool: ...
def or_(*terms: Bool) -> Bool: ...
def not_(term: Bool) -> Bool: ...
def div(a: Int, b: int) -> Int: ...
def each(n: int) -> range: ...
def guard(g: Bool) -> None: ...
def skip(g: Bool) -> None: ...
def listening(listener: Callable[[int, int, int, int], None]) -> AbstractContextManager[None]: ...
def note(s: State, g: Bool, primitive: int, actor: Int, page: Int, detail: Int) -> None: ...

"""


def stub() -> str:
    """The text of the stub."""
    sys.path.insert(0, str(ROOT))
    from fuzzkv.semantics.layout import constants
    from fuzzkv.semantics.vocabulary import __all__ as names

    lines = [f"{name}: int" for name in constants()]
    return HEAD + "\n".join(lines) + f"\n\n__all__: list[str] = {sorted(names)!r}\n"


if __name__ == "__main__":
    text = stub()
    if "--check" in sys.argv:
        fresh = STUB.exists() and STUB.read_text() == text
        print(
            f"{STUB.relative_to(ROOT)}: {'up to date' if fresh else 'out of date, run scripts/vocabulary_stub.py'}"
        )
        sys.exit(0 if fresh else 1)
    STUB.write_text(text)
