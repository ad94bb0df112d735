"""Writes what ``fuzzkv verify --keep`` shows of the lengths of known cases into the corpus.

A case whose schedule is the shortest of its class in the window that was searched says so from then on, and the next
``verify`` needn't ask again.  A shorter schedule is filed beside the old case, which says so.  Classes of which there is no
case are left to ``fuzzkv hunt``, which also looks at the damage that they do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzkv.cases.corpus import Saved, find_path, load_case, save_case, scan_corpus, write_index
from fuzzkv.errors import EnvironmentFailure
from fuzzkv.semantics.policy import Policy
from fuzzkv.simulator.interpreters import text_digest
from fuzzkv.solver.certify import Certificate, outdone, shorter, shown, whole
from fuzzkv.solver.verify import Refuted, Verification
from fuzzkv.targets.model.recipe import read_case


@dataclass
class BoundRecorder:
    """Writes what a verification shows into a corpus, class by class; what is written so far survives an interrupt.

    ``noted`` and ``filed`` are the ids of cases that say now how short they are, and of those that were filed because they are
    shorter.  Raises ``UsageError`` (FKV019) without such a folder and ``EnvironmentFailure`` (FKV060) if nothing can be written
    into it.
    """

    verification: Verification
    corpus: Path
    noted: list[str] = field(default_factory=list)
    filed: list[str] = field(default_factory=list)
    _stale: bool = False

    def __post_init__(self) -> None:
        scan_corpus(self.corpus)
        if not os.access(self.corpus, os.W_OK):
            raise EnvironmentFailure(
                code="FKV060",
                value=str(self.corpus),
                reason="it can't be written, so nothing would be kept",
                cure="Make it writable, name another with --corpus, or leave out --keep.",
            )

    def add(self, found: Refuted) -> None:
        """Write down what was shown of one class.  Raises as reading and writing a corpus do."""
        nothing_new = found.shortest in ("kept", "certified") or (found.case and found.shortest == "known")
        if len(found.policies) < 2 or nothing_new:
            return
        cases = [one for _, one in self.verification.ours(self.corpus, found.policies, found.target)]
        if not cases:
            return
        best = min(cases, key=lambda one: (len(one.events), one.case))
        try:
            if len(found.events) < len(best.events):
                best = self._file(best, found)
            for one in cases:
                if len(one.events) > len(best.events):
                    self._mark(one, best)
            same = len(found.events) == len(best.events)
            if same and found.shortest == "proved" and best.shortest == "known":
                self._note(best)
        finally:
            if self._stale:
                write_index(self.corpus)
                self._stale = False

    def _file(self, old: Refuted, found: Refuted) -> Refuted:
        case = load_case(find_path(old.case, self.corpus))
        recipe = read_case(case, allowed=self._allowed)
        saved = self._save(shorter(case, recipe, found.events))
        ident = str(saved.case["id"])
        if saved.new:
            self.filed.append(ident)
        return Refuted(found.policies, found.target, found.events, "known", ident)

    def _note(self, best: Refuted) -> None:
        case = load_case(find_path(best.case, self.corpus))
        told = shown(case, read_case(case, allowed=self._allowed), self.verification.part)
        if self._save(told).changed:
            self.noted.append(best.case)

    def _mark(self, old: Refuted, best: Refuted) -> None:
        case = load_case(find_path(old.case, self.corpus))
        told = case.get("certificate")
        if told is not None and told["events"] <= len(best.events):
            return
        recipe = read_case(case, allowed=self._allowed)
        new = load_case(find_path(best.case, self.corpus))
        text = text_digest(recipe.policies)
        self._save(outdone(case, new, Certificate(best.events, False, "", whole(recipe), text, 0, 0.0)))

    def _save(self, case: Mapping[str, Any]) -> Saved:
        saved = save_case(case, self.corpus)
        self._stale |= saved.changed
        return saved

    @property
    def _allowed(self) -> dict[str, Policy]:
        return {policy.name: policy for policy in self.verification.policies}
