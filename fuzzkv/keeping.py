"""What ``fuzzkv verify --keep`` showed of the lengths of known cases, written into the corpus.

A case whose schedule is the shortest of its class in the window that was searched says so from then on, and the next
``verify`` needn't ask again.  A shorter schedule is filed beside the old case.  Classes of which there is no case are left
to ``fuzzkv hunt``, which also looks at the damage that they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fuzzkv.casebook import read_case
from fuzzkv.certify import Certificate, outdone, shorter, shown, whole
from fuzzkv.corpus import find_path, load_case, save_case, write_index
from fuzzkv.machine.readers import text_digest
from fuzzkv.verify import Known, Refuted, Verification, Verified


@dataclass(frozen=True)
class Kept:
    """Ids of the cases that say now how short they are, and of those that were filed because they are shorter."""

    noted: tuple[str, ...]
    filed: tuple[str, ...]


def keep(verification: Verification, result: Verified, corpus: Path) -> Kept:
    """Write down what was shown.  Raises as reading and writing a corpus do."""
    known = verification.filed(corpus)
    noted: list[str] = []
    filed: list[str] = []
    for found in result.conflicts:
        old = _old(known, verification, found)
        if old is None:
            continue
        if len(found.events) < len(old.events):
            filed.append(_file(verification, old, found, corpus))
        elif found.shortest == "proved":
            noted.append(_note(verification, old.case, corpus))
    if noted or filed:
        write_index(corpus)
    return Kept(tuple(noted), tuple(filed))


def _old(known: Known, verification: Verification, found: Refuted) -> Refuted | None:
    for mask, classes in known.items():
        if verification.names(mask) == found.policies:
            return classes.get(found.target)
    return None


def _note(verification: Verification, case_id: str, corpus: Path) -> str:
    case = load_case(find_path(case_id, corpus))
    allowed = {policy.name: policy for policy in verification.policies}
    saved = save_case(shown(case, read_case(case, allowed=allowed), verification.part), corpus)
    return str(saved.case["id"])


def _file(verification: Verification, old: Refuted, found: Refuted, corpus: Path) -> str:
    case = load_case(find_path(old.case, corpus))
    allowed = {policy.name: policy for policy in verification.policies}
    recipe = read_case(case, allowed=allowed)
    new = shorter(case, recipe, found.events)
    saved = save_case(new, corpus)
    if found.shortest == "proved":
        _note(verification, str(saved.case["id"]), corpus)
    text = text_digest(recipe.policies)
    save_case(
        outdone(case, saved.case, Certificate(found.events, False, "", whole(recipe), text, 0, 0.0)), corpus
    )
    return str(saved.case["id"])
