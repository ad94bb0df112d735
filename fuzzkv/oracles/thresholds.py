"""The thresholds of every claim, registered in a file before a run.

The numbers live in ``thresholds.json`` beside this module. :attr:`Thresholds.digest` goes into every report
and confirmation, so that a reader can see that they were not chosen after the fact. The file holds decimal
strings and whole numbers, never floats: its hash must not depend on how a float is printed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzzkv.errors import UsageError, did_you_mean

DEFAULT_PATH: Final = Path(__file__).with_name("thresholds.json")
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a claim must reach. All fractions are exact decimals in [0, 1].

    ``dq``: quality margin, the loss of accuracy that still counts as none. ``alpha``: one-sided level of
    the paired tests, over all looks together. ``power``: least power for a claim. ``looks``: planned looks
    at a confirmation; ``spending_shape``: how they share alpha (1: equally). ``replicas``: how often each
    item runs. ``p99_confidence``, ``min_requests``, ``bootstrap_samples``: the P99 interval. ``tau``: rate
    of wrong-safe requests allowed.
    """

    dq: Decimal
    alpha: Decimal
    power: Decimal
    p99_confidence: Decimal
    tau: Decimal
    spending_shape: Decimal
    looks: int
    replicas: int
    min_requests: int
    bootstrap_samples: int
    digest: str

    def as_dict(self) -> dict[str, str | int]:
        """The registered values and the digest as plain data without floats."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value if isinstance(value, int) else str(value) for name, value in sorted(values.items())
        }


_DECIMALS: Final = ("alpha", "dq", "p99_confidence", "power", "spending_shape", "tau")
_WHOLE: Final = ("bootstrap_samples", "looks", "min_requests", "replicas")


def load_thresholds(path: Path = DEFAULT_PATH) -> Thresholds:
    """Read a thresholds file. FKV071 names the entry that is missing, unknown or out of range."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _bad(path, str(error), "Give a JSON file like the shipped thresholds.json.") from error
    known = {*_DECIMALS, *_WHOLE, "schema_version"}
    if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        raise _bad(path, f"not an object of schema_version {SCHEMA_VERSION}", "Start from the shipped file.")
    for name in sorted(set(raw) - known):
        raise _bad(path, f"{name!r} is not a threshold", did_you_mean(name, known))
    for name in sorted(known - set(raw)):
        raise _bad(path, f"{name!r} is missing", "Register every threshold before the run.")
    values: dict[str, Any] = {name: _decimal(path, name, raw[name]) for name in _DECIMALS}
    values |= {name: _whole(path, name, raw[name]) for name in _WHOLE}
    return Thresholds(**values, digest=digest_of(raw))


@cache
def default_thresholds() -> Thresholds:
    """The shipped thresholds."""
    return load_thresholds()


def digest_of(raw: dict[str, object]) -> str:
    """SHA-256 (hex) of the canonical JSON of a thresholds object: sorted keys, no white space."""
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _decimal(path: Path, name: str, value: object) -> Decimal:
    limit = 10 if name == "spending_shape" else 1
    try:
        number = Decimal(value) if isinstance(value, str) else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not 0 < number <= limit or (limit == 1 and number == 1):
        raise _bad(path, f"{name} is {value!r}, not a decimal string above 0", 'Write for example "0.05".')
    return number


def _whole(path: Path, name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _bad(path, f"{name} is {value!r}, not a whole number of at least 1", "Write for example 3.")
    return value


def _bad(path: Path, reason: str, cure: str) -> UsageError:
    return UsageError(code="FKV071", value=path, reason=reason, cure=cure)
