"""From witnesses to filed cases: what is told and in which order, and that neither an interrupt nor a disk loses
one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzzkv import events as ev
from fuzzkv.cases import filing as module
from fuzzkv.cases.corpus import load_case, load_corpus, problems, save_case
from fuzzkv.cases.filing import Filing, Witness, witnesses
from fuzzkv.cases.shrink import Shrinker, shrink
from fuzzkv.errors import EnvironmentFailure, UsageError
from fuzzkv.semantics.schedule import TICK
from fuzzkv.simulator.bulk.engine import BulkEngine
from tests.found import label


@pytest.fixture(autouse=True)
def quick_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick passes only: shrinking has tests of its own."""
    monkeypatch.setattr(Shrinker, "_hypothesis", lambda self, best: best)
    monkeypatch.setattr(Shrinker, "_leap", lambda self, best: best)


@pytest.fixture(scope="module")
def found(compiled: BulkEngine, tmp_path_factory: pytest.TempPathFactory) -> list[Witness]:
    """Witnesses of two kinds that the design names, nearly as short as can be, the later one first."""
    engine = compiled.again(seed=1)
    engine.search(20_000)
    named = [bool(label(found)) for found in engine.classes]
    seen = [w for w, chosen in zip(witnesses(engine.tally(), engine.config), named, strict=True) if chosen]
    short = []
    for witness in seen[1::-1]:
        shrunk = shrink(engine, witness.failure_class, witness.events, thorough=False)
        assert shrunk is not None
        short.append(replace(witness, events=(*shrunk[0], (TICK, 1, 0), (TICK, 1, 0))))
    # The first time the readers of these sets are linked, and the schema is loaded.
    filing = Filing(engine, tmp_path_factory.mktemp("first"), 1)
    for witness in short:
        assert filing.agrees(witness)
        filing.keep(witness)
    return short


class Heard(list[Any]):
    """A listener that keeps what it is told."""

    def __call__(self, event: ev.Event) -> None:
        self.append(event)


def filing_of(compiled: BulkEngine, folder: Path, **options: Any) -> tuple[Filing, Heard]:
    heard = Heard()
    return Filing(compiled.again(seed=1), folder, 1, [heard], **options), heard


def stopping(monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    """Ctrl-C as a case is written: when the file is there, or before."""

    def stop(case: Any, folder: Path) -> None:
        if written:
            save_case(case, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_case", stop)


@pytest.mark.slow
def test_kinds_are_settled_in_the_order_given_and_each_step_is_told(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path
) -> None:
    filing, heard = filing_of(compiled, tmp_path)
    filing.settle(found)
    filing.index()
    assert list(filing.filed) == [witness.failure_class for witness in found]
    assert [type(event) for event in heard] == [ev.Progress, ev.ShrinkStep, ev.CaseFiled] * 2
    assert [(event.done, event.total) for event in heard[::3]] == [(1, 2), (2, 2)]
    for step, filed, witness in zip(heard[1::3], heard[2::3], found, strict=True):
        assert step.before == len(witness.events) > step.after == len(filed.case["schedule"])
        assert step.policies == witness.failure_class.policies == tuple(filed.case["class"]["policies"])
    assert problems(tmp_path) == [] and len(load_corpus(tmp_path)) == 2


def test_a_quick_file_goes_when_a_better_one_is_there(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing, heard = filing_of(compiled, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Filing, "_shrunk", lambda self, witness, thorough: witness.events)
        filing.keep(found[0])
    (early,) = load_corpus(tmp_path)
    assert len(early["schedule"]) == len(found[0].events) and heard == []
    filing.settle(found[:1])
    (final,) = load_corpus(tmp_path)
    assert final == filing.filed[found[0].failure_class].case
    assert len(final["schedule"]) < len(early["schedule"])


def test_an_interrupt_between_writing_and_noting_loses_nothing(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing, heard = filing_of(compiled, tmp_path)
    stopping(monkeypatch, written=True)
    with pytest.raises(KeyboardInterrupt):
        filing.keep(found[0])
    filing.interrupted()
    (case,) = load_corpus(tmp_path)
    done = filing.filed[found[0].failure_class]
    assert done.case == case and done.path is not None and load_case(done.path) == case
    assert [type(event) for event in heard] == [ev.CaseFiled]


def test_an_interrupt_before_anything_is_written_leaves_nothing(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing, heard = filing_of(compiled, tmp_path)
    stopping(monkeypatch, written=False)
    with pytest.raises(KeyboardInterrupt):
        filing.keep(found[0])
    filing.interrupted()
    filing.index()
    assert filing.filed == {} and heard == [] and list(tmp_path.iterdir()) == []


def test_an_interrupt_while_something_is_added_to_a_case_keeps_it(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing, _ = filing_of(compiled, tmp_path)
    filing.settle(found)
    first, second = filing.filed.values()
    stopping(monkeypatch, written=False)
    with pytest.raises(KeyboardInterrupt):
        filing.file(first)
    assert list(filing.filed.values()) == [first, second]
    monkeypatch.undo()
    # The latest is the last.
    filing.file(first)
    assert list(filing.filed.values()) == [second, first]


def test_a_broken_file_of_its_id_stays_and_the_case_is_told_all_the_same(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path
) -> None:
    filing, _ = filing_of(compiled, tmp_path)
    filing.settle(found[:1])
    (path,) = tmp_path.glob("fkv-*.json")
    path.write_text("{", encoding="utf-8")
    again, heard = filing_of(compiled, tmp_path, forgiven=UsageError)
    again.keep(found[0])
    again.settle(found[:1])
    done = again.filed[found[0].failure_class]
    assert done.path is None and f"{done.case['id']}.json" == path.name and path.read_text() == "{"
    assert isinstance(heard[-1], ev.WarningRaised) and heard[-1].text.startswith(f"{path.stem} is not filed")


def test_a_disk_that_fails_ends_it_unless_that_is_forgiven(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    folder = tmp_path / "file" / "cases"
    strict, _ = filing_of(compiled, folder, forgiven=UsageError)
    with pytest.raises(EnvironmentFailure):
        strict.keep(found[0])
    filing, heard = filing_of(compiled, folder)
    filing.keep(found[0])
    filing.settle(found[:1])
    filing.index()
    assert filing.filed[found[0].failure_class].path is None and isinstance(heard[-1], ev.WarningRaised)


def test_a_kind_on_which_the_readers_once_disagreed_stays_out(
    compiled: BulkEngine, found: list[Witness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing, heard = filing_of(compiled, tmp_path)
    assert filing.agrees(found[0]) and heard == []
    with monkeypatch.context() as patch:
        patch.setattr(BulkEngine, "agrees", lambda *_: False)
        assert not filing.agrees(found[0])
    assert not filing.agrees(found[0]) and filing.agrees(found[1])
    (warned,) = heard
    assert warned.code == "FKV073" and filing.broken == [found[0].failure_class]
