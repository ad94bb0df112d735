"""The exact minimal case of every planted conflict: found blind, shrunk over events and policies, always the same.

``python -m bench.minimal`` writes the file that these are compared with.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.minimal import minimal
from bench.targets import targets

KEPT = json.loads(Path("tests/quality/minimal.json").read_text())
TARGETS = {target.name: target for target in targets()}


def test_every_target_has_its_case() -> None:
    assert set(KEPT) == set(TARGETS)
    assert {t.kind for t in TARGETS.values()} == {"field", "design", "mutant"}
    assert sum(t.kind == "field" for t in TARGETS.values()) == 13
    assert sum(t.kind == "design" for t in TARGETS.values()) == 10
    assert sum(t.kind == "mutant" for t in TARGETS.values()) == 18


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_minimal_case_is_exactly_this(name: str) -> None:
    found = minimal(name)
    assert found == KEPT[name]
