"""The linker: what leaves the vocabulary is refused with its line and what to write instead; the rest is
written out."""

# ruff: noqa: F403, F405

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzzkv.errors import UsageError
from fuzzkv.semantics import facts
from fuzzkv.semantics.ops.primitives import promise
from fuzzkv.semantics.policy import Policy
from fuzzkv.semantics.vocabulary import *
from fuzzkv.simulator.bulk.core import core_source
from fuzzkv.simulator.bulk.store import load_compiled
from fuzzkv.simulator.interpreters import module_source, rule_digest
from fuzzkv.simulator.linker import unique_name, write_out
from fuzzkv.simulator.text_check import check_text
from tests.broken import CAREFUL, IDLE


def branches(s: State, k: Int) -> None:
    if get(s, NOW, 0) > 3:
        put(s, NOTE, k, 1)


def loops_while(s: State, k: Int) -> None:
    while get(s, NOW, 0) > 3:
        put(s, NOTE, k, 1)


def loops_over_a_list(s: State, k: Int) -> None:
    for i in [1, 2]:
        put(s, NOTE, i, 1)


def loops_as_often_as_the_state_says(s: State, k: Int) -> None:
    for i in each(get(s, R_N, 0)):
        put(s, NOTE, i, 1)


def loops_as_often_as_it_is_told(s: State, k: Int) -> None:
    for i in each(k):
        put(s, NOTE, i, 1)


def calls_by_attribute(s: State, k: Int) -> None:
    s.append(k)


def calls_by_keyword(s: State, k: Int) -> None:
    promise(s, True, k, p=1)


def chains(s: State, k: Int) -> None:
    put_if(s, 0 < get(s, NOW, 0) < 3, NOTE, k, 1)


def reads_by_index(s: State, k: Int) -> None:
    put(s, NOTE, k, s[0])


def joins_with_and(s: State, k: Int) -> None:
    put_if(s, get(s, NOW, 0) > 1 and k > 0, NOTE, k, 1)


def chooses_inline(s: State, k: Int) -> None:
    put(s, NOTE, k, 1 if k > 0 else 2)


def divides(s: State, k: Int) -> None:
    put(s, NOTE, k, get(s, NOW, 0) // 2)


def makes_a_function(s: State, k: Int) -> None:
    put(s, NOTE, k, (lambda: 1)())


def raises(s: State, k: Int) -> None:
    raise ValueError


def asserts(s: State, k: Int) -> None:
    assert k > 0


def adds_in_place(s: State, k: Int) -> None:
    n = 0
    n += 1
    put(s, NOTE, k, n)


def comprehends(s: State, k: Int) -> None:
    put(s, NOTE, k, max([p + 1 for p in each(3)]))


def forgets_an_argument(s: State, k: Int) -> None:
    put(s, NOTE, k)  # type: ignore[call-arg]


def hides_the_column(s: State, k: Int) -> None:
    column = DEV
    add_if(s, True, column, 1, 1)


LOOP = "Loop over each(n) with a constant n."
OWN = "Use a primitive; a policy's own memory is DUE, MARK, NOTE."
CURE = "Branch with ite() or a guarded write."
FORBIDDEN = [
    (branches, 1, "uses if", CURE),
    (loops_while, 1, "uses while", LOOP),
    (loops_over_a_list, 1, "loops over something else than each", LOOP),
    (loops_as_often_as_the_state_says, 1, "loops over a number that isn't constant", LOOP),
    (loops_as_often_as_it_is_told, 1, "loops over a number that isn't constant", LOOP),
    (hides_the_column, 2, "writes column, which belongs to the machine", OWN),
    (forgets_an_argument, 1, "gives put 3 arguments, and it takes 4", "See fuzzkv/semantics/vocabulary.py."),
    (calls_by_attribute, 1, "calls something by attribute or keyword", "Call a plain function by position."),
    (calls_by_keyword, 1, "calls something by attribute or keyword", "Call a plain function by position."),
    (chains, 1, "chains comparisons", "Join single comparisons with and_()."),
    (reads_by_index, 1, "uses subscript", "Read with get() and write with put()."),
    (joins_with_and, 1, "uses boolop", "Join with and_() or or_()."),
    (chooses_inline, 1, "uses ifexp", CURE),
    (divides, 1, "uses floordiv", "Divide by a constant with div()."),
    (raises, 1, "uses raise", CURE),
    (asserts, 1, "uses assert", CURE),
    (adds_in_place, 2, "uses augassign", "Assign anew, or write with add_if()."),
    (comprehends, 1, "uses listcomp", CURE),
]


@pytest.mark.parametrize(
    ("rule", "line", "reason", "cure"), FORBIDDEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_forbidden_construct_is_refused_with_line_and_cure(
    rule: Callable[..., None], line: int, reason: str, cure: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_text(rule)
    error = caught.value
    assert error.code == "FKV036" and reason in error.reason and error.cure == cure
    at = inspect.getsourcelines(rule)[1] + line
    assert error.value == f"{__name__}.{rule.__name__}, line {at}"


def test_a_function_made_inside_is_refused() -> None:
    with pytest.raises(UsageError, match="FKV036"):
        check_text(makes_a_function)


def calls_a_stranger(s: State, k: Int) -> None:
    put(s, NOTE, k, len(s))


def calls_a_bad_one(s: State, k: Int) -> None:
    branches(s, k)


def test_a_call_that_is_no_text_is_refused() -> None:
    at = inspect.getsourcelines(calls_a_stranger)[1] + 1
    with pytest.raises(
        UsageError,
        match=rf"FKV036: .*calls_a_stranger, line {at}: calls 'len', which is no function of the text",
    ):
        write_out([calls_a_stranger], trace=False)


def test_a_forbidden_construct_is_found_through_calls() -> None:
    with pytest.raises(UsageError, match=r"FKV036: .*branches, line \d+: uses if"):
        write_out([calls_a_bad_one], trace=False)


def test_rules_are_checked_and_free_policies_are_not() -> None:
    rule_digest(CAREFUL)
    bad = Policy(name="bad", version="1", manifest=CAREFUL.manifest, rule=branches)
    with pytest.raises(UsageError, match="FKV036"):
        rule_digest(bad)
    rule_digest(Policy(name="free", version="1", manifest=CAREFUL.manifest, rule=branches, free=True))


def test_what_is_written_out_is_plain_python() -> None:
    source = write_out([IDLE.rule, facts.damage], trace=False)
    space: dict[str, object] = {}
    exec(compile(source, "written", "exec"), space)
    assert unique_name(IDLE.rule) in space and unique_name(facts.damage) in space
    for word in ("get(", "ite(", "put_if(", "and_(", "guard(", "note("):
        assert word not in source


def test_callees_come_first_and_once() -> None:
    source = write_out([CAREFUL.rule], trace=False)
    defined = [
        line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def ")
    ]
    assert len(defined) == len(set(defined)) and defined[-1] == unique_name(CAREFUL.rule)


def test_notes_are_kept_only_for_a_trace() -> None:
    rules = [(CAREFUL.rule, False)]
    assert "_tell(" not in module_source(rules, trace=False)
    assert "_tell(" in module_source(rules, trace=True)
    assert "@njit" in core_source() and "_tell(" not in core_source()


def _meddle(s: State, k: Int) -> None:
    put_if(s, True, DEV, 0, -1)


def test_a_rule_may_write_its_own_memory_only() -> None:
    with pytest.raises(
        UsageError, match=r"FKV036.*writes DEV, which belongs to the machine.*DUE, MARK, NOTE"
    ):
        check_text(_meddle)


def around(number: int) -> tuple[Callable[..., None], Callable[..., None]]:
    def inner(s: State, k: Int) -> None:
        put(s, NOTE, k, 1)

    def closes(s: State, k: Int) -> None:
        put(s, NOTE, k, number)

    return inner, closes


def test_a_function_inside_another_is_written_out_unless_it_closes_over_something() -> None:
    inner, closes = around(3)
    exec(compile(write_out([inner], trace=False), "written", "exec"), {})
    with pytest.raises(
        UsageError, match=r"FKV036: .*closes, line \d+: uses number of the function around it"
    ):
        write_out([closes], trace=False)


def one_more(s: State, k: Int) -> Int:
    return get(s, NOTE, k) + STEP_OF_ONE_MORE


def counts_one_more(s: State, k: Int) -> None:
    put(s, NOTE, k, one_more(s, k))


STEP_OF_ONE_MORE = 1


def two_more(s: State, k: Int) -> Int:
    return get(s, NOTE, k) + 2


def test_what_is_replaced_is_written_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_out([counts_one_more], trace=False)
    assert write_out([counts_one_more], trace=False) == first and "+ 1" in first
    # A number that a function in the place of its call uses, then that function.
    monkeypatch.setitem(globals(), "STEP_OF_ONE_MORE", 7)
    assert write_out([counts_one_more], trace=False) == first.replace("+ 1", "+ 7")
    monkeypatch.setitem(globals(), "one_more", two_more)
    assert write_out([counts_one_more], trace=False) == first.replace("+ 1", "+ 2")
    monkeypatch.undo()
    assert write_out([counts_one_more], trace=False) == first


def test_two_functions_of_one_name_are_not_confused() -> None:
    one, other = around(1)[0], around(2)[0]
    with pytest.raises(UsageError, match=r"FKV036: .*has the same written-out name as"):
        write_out([one, other], trace=False)


def test_a_policy_name_is_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUZZKV_CACHE", str(tmp_path))
    module = load_compiled("answer = 42\n", "../../my policy/x")
    again = load_compiled("answer = 42\n", "../../my policy/x")
    assert module.answer == again.answer == 42
    (path,) = (tmp_path / "compiled").glob("*.py")
    assert path.parent == tmp_path / "compiled" and path.name.startswith("______my_policy_x_")
    assert load_compiled("answer = 43\n", "../../my policy/x").answer == 43
