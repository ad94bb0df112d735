"""Errors name the value, the reason and the cure; codes have one meaning each."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import fuzzkv
from fuzzkv.errors import CODES, EnvironmentFailure, FuzzkvError, UsageError, did_you_mean

SOURCE = Path(fuzzkv.__file__).parent


def test_rendering() -> None:
    error = UsageError(
        code="FKV012", value="a.json", reason="not valid JSON (line 3)", cure="Restore the file."
    )
    assert str(error) == "FKV012: a.json: not valid JSON (line 3). Restore the file."
    assert error.as_dict()["cure"] == "Restore the file."


def test_a_full_stop_is_not_doubled() -> None:
    assert (
        str(FuzzkvError(code="FKV090", value=3, reason="odd.", cure="Report it."))
        == "FKV090: 3: odd. Report it."
    )


@pytest.mark.parametrize(("cls", "code"), [(FuzzkvError, 2), (UsageError, 2), (EnvironmentFailure, 3)])
def test_exit_codes_and_pickling(cls: type[FuzzkvError], code: int) -> None:
    error = cls(code="FKV060", value="/x", reason="full", cure="Free space.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls and str(again) == str(error) and again.exit_code == code


def test_arguments_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        FuzzkvError("FKV001", "x", "y", "z")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "choices", "cure"),
    [
        ("ofload", ["offload", "quant"], "Did you mean 'offload'?"),
        ("EVICT", ["evict", "quant"], "Did you mean 'evict'?"),
        ("zzz", ["b", "a"], "Choose from: a, b."),
        ("zzz", [], "There is nothing to choose from."),
    ],
)
def test_did_you_mean(value: str, choices: list[str], cure: str) -> None:
    assert did_you_mean(value, choices) == cure


def test_codes_are_well_formed_and_have_distinct_meanings() -> None:
    assert all(re.fullmatch(r"FKV\d{3}", code) for code in CODES)
    assert len(set(CODES.values())) == len(CODES)


def test_every_code_used_in_the_source_is_in_the_table() -> None:
    used = {
        node.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"FKV\d{3}", node.value)
    }
    assert used <= set(CODES)
