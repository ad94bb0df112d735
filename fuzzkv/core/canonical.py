"""Canonical JSON: one byte string for one value, so that hashes and diffs mean something.

Canonical form: keys sorted, no white space, ASCII with escapes, whole numbers and strings only. A float has
no canonical form (it prints differently elsewhere): write a decimal string. :func:`file_bytes` is the same
with line breaks, for files that people read and diff. :func:`parse_json` reads untrusted bytes within
limits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fuzzkv.errors import UsageError

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 24

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET: Final = re.compile(rb"[\[{]|[\]}]")


def canonical_bytes(obj: Any) -> bytes:
    """The canonical form of JSON data. FKV022 for a float, a key that is not a string, or another type."""
    _check_plain(obj, "$")
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def file_bytes(obj: Mapping[str, Any]) -> bytes:
    """The form for files: canonical, but a line a key, a line an item of a top-level list, and a last line
    feed.
    """
    lines = []
    for key in sorted(obj):
        value = obj[key]
        if isinstance(value, list) and value:
            items = b",\n  ".join(canonical_bytes(item) for item in value)
            lines.append(canonical_bytes(key) + b": [\n  " + items + b"\n ]")
        else:
            lines.append(canonical_bytes(key) + b": " + canonical_bytes(value))
    return b"{\n " + b",\n ".join(lines) + b"\n}\n"


def digest(obj: Any) -> str:
    """SHA-256 of the canonical form, 64 hex digits."""
    return hashlib.sha256(canonical_bytes(obj)).hexdigest()


def parse_json(data: bytes, source: object) -> Any:
    """Parse untrusted bytes: at most 1 MiB and 24 levels, UTF-8, no floats, no key twice.

    ``source`` names the file in errors: FKV011 (size), FKV012 (not JSON), FKV013 (depth), FKV022 (floats).
    """
    if len(data) > MAX_BYTES:
        raise UsageError(
            code="FKV011",
            value=source,
            reason=f"it is larger than the limit of {MAX_BYTES:,} bytes",
            cure="A case is small: check that this is the right file.",
        )
    _check_depth(data, source)

    def refuse_float(text: str) -> Any:
        raise UsageError(
            code="FKV022",
            value=source,
            reason=f"it holds the number {text}, and floats have no canonical form",
            cure=f'Write it as a decimal string: "{text}".',
        )

    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_no_twins,
            parse_float=refuse_float,
            parse_constant=refuse_float,
        )
    except ValueError as error:
        raise UsageError(
            code="FKV012",
            value=source,
            reason=f"not valid JSON ({error})",
            cure="The file was left as it is: restore it from version control, or delete it and hunt again.",
        ) from error


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twin = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twin!r} occurs twice in one object")
    return result


def _check_depth(data: bytes, source: object) -> None:
    depth = 0
    for match in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if match.group() in b"[{" else -1
        if depth > MAX_DEPTH:
            raise UsageError(
                code="FKV013",
                value=source,
                reason=f"nested deeper than {MAX_DEPTH} levels",
                cure="A case is flat: check that this is the right file.",
            )


def _check_plain(obj: Any, where: str) -> None:
    if obj is None or isinstance(obj, (str, int)):
        return
    if isinstance(obj, dict):
        for key, value in obj.items():
            if not isinstance(key, str):
                raise _no_form(f"{where} key {key!r}", "a key that is not a string has no canonical form")
            _check_plain(value, f"{where}.{key}")
    elif isinstance(obj, (list, tuple)):
        for index, value in enumerate(obj):
            _check_plain(value, f"{where}[{index}]")
    else:
        raise _no_form(f"{where} = {obj!r}", f"a {type(obj).__name__} has no canonical form")


def _no_form(value: str, reason: str) -> UsageError:
    return UsageError(
        code="FKV022", value=value, reason=reason, cure="Use whole numbers and decimal strings."
    )
