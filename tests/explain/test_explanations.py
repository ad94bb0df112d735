"""Every case of the corpus is explained, and what is said of it is so: each dependency is found again from the records."""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fuzzkv.cases.casebook import Recipe, read_case
from fuzzkv.cases.corpus import Case, is_live, load_corpus
from fuzzkv.explain.explanation import explained
from fuzzkv.explain.formats import as_json
from fuzzkv.semantics.policy import Policy
from tests.explain.ledger import Ledger, Seen

CORPUS = Path(__file__).parents[2] / "corpus"


@cache
def corpus() -> dict[str, Case]:
    return {case["id"]: case for case in load_corpus(CORPUS)}


def named_policies(case: Case) -> list[Policy]:
    """The policies that a case says it needs on the command line."""
    found = re.search(r"--policies (\S+)", case["replay"])
    paths = [path.split(":") for path in found[1].split(",")] if found else []
    return [getattr(importlib.import_module(module), name) for module, name in paths]


@cache
def told(case_id: str) -> dict[str, Any]:
    case = corpus()[case_id]
    found = explained(case, () if is_live(case) else named_policies(case), guards=False)
    assert found is not None
    return as_json(found)


def recipe_of(case: Case) -> Recipe:
    return read_case(case, allowed={policy.name: policy for policy in named_policies(case)})
