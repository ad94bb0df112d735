"""The typed case and its schema say the same."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, get_args

import pytest

from fuzzkv.cases.case import Case, CaseArm, CaseClass, CaseFound, CasePolicy, Status

SCHEMA: dict[str, Any] = json.loads((files("fuzzkv.schemas") / "case-1.json").read_text())
PARTS = SCHEMA["properties"]


def test_it_has_the_schemas_keys_and_requires_the_same() -> None:
    assert Case.__annotations__.keys() == PARTS.keys()
    assert Case.__required_keys__ == set(SCHEMA["required"])


@pytest.mark.parametrize(
    ("part", "schema"),
    [
        (CaseClass, PARTS["class"]),
        (CasePolicy, PARTS["policies"]["items"]),
        (CaseArm, PARTS["arms"]["items"]),
        (CaseFound, PARTS["found"]),
    ],
)
def test_so_have_its_parts(part: Any, schema: dict[str, Any]) -> None:
    assert part.__annotations__.keys() == schema["properties"].keys()
    assert part.__required_keys__ == set(schema["required"])


def test_the_statuses_are_the_schemas() -> None:
    assert set(get_args(Status)) == set(PARTS["status"]["enum"])
