"""The tables of words are complete over the contract's names."""

from __future__ import annotations

from fuzzkv.core.glossary import BREACH, CLAUSE, DOING, SAID, title
from fuzzkv.semantics.contract.invariants import names
from fuzzkv.semantics.layout import CLAUSES, PRIMITIVES


def test_every_name_has_its_words() -> None:
    assert set(SAID) == set(PRIMITIVES)
    assert set(CLAUSE) == set(CLAUSES)
    assert set(BREACH) == set(names())
    assert set(DOING) <= set(PRIMITIVES)


def test_a_title_names_who_does_what_to_whom() -> None:
    assert title(("a", "b"), "I1", "a", "drop_host") == "a destroys the host copy while b relies on it"
    assert title(("a", "b"), "I4", "a", "end_store") == "b changes the bytes of a page while a stores it"
    assert title(("a", "b"), "I14", None, "step").startswith("a and b make a reader wait")
