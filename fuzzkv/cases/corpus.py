"""The corpus: one canonical JSON file a conflict, and a generated index.

A case is plain data, checked against ``fuzzkv/schemas/case-1.json``; nothing in it is ever executed. Its id
is ``fkv-`` and the first 12 hex digits of the SHA-256 of the canonical JSON of its *semantic part*: class,
policies, config and schedule. Status, confirmations and where it was found may change without changing the
id.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

from fuzzkv.cases.case import Case
from fuzzkv.core.canonical import MAX_BYTES, canonical_bytes, digest, file_bytes, parse_json
from fuzzkv.core.files import atomic_write, locked, remove_stale, write_failure
from fuzzkv.errors import FuzzkvError, UsageError, did_you_mean

__all__ = [
    "Case",
    "Saved",
    "canonical_bytes",
    "case_id",
    "confirmation_entry",
    "find_case",
    "find_path",
    "is_live",
    "load_case",
    "load_corpus",
]
__all__ += ["merge", "problems", "save_case", "scan_corpus", "validate", "write_index"]


SCHEMA_VERSION: Final = 1
SEMANTIC: Final = ("class", "policies", "config", "schedule")
INDEX: Final = "index.json"
_MACHINE_STATUS: Final = ("candidate", "confirmed")
_SAME_CONFIRMATION: Final = ("engine", "device", "kind", "model_digest", "verdict", "thresholds")
_OF_ONE_RUN: Final = ("case_id", "log", "schema_version", "seconds")


@dataclass(frozen=True, slots=True)
class Saved:
    """What :func:`save_case` did: where the case is, whether it is new, whether the file changed, and the
    case.
    """

    path: Path
    new: bool
    changed: bool
    case: Case


def case_id(case: Mapping[str, Any]) -> str:
    """The content address of a case, from its semantic part only."""
    return "fkv-" + digest({key: case[key] for key in SEMANTIC})[:12]


def is_live(case: Mapping[str, Any]) -> bool:
    """Whether a case is of a live schedule, which runs on an engine and not on the model."""
    return "target" in case


def validate(case: Any, source: object) -> Case:
    """Check a case against the schema and its id. FKV020, FKV014, FKV015; ``source`` names the file in
    errors.
    """
    if not isinstance(case, dict):
        raise _bad("FKV014", source, "a case must be a JSON object", "Check that this is a case file.")
    version = case.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        reason = f"schema_version is {version}, and this release knows up to {SCHEMA_VERSION}"
        raise _bad("FKV020", source, reason, "Update fuzzkv.")
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(case))
    if error is not None:
        where = error.json_path.removeprefix("$").removeprefix(".") or "the case"
        raise _bad("FKV014", source, f"{where}: {_short(error.message)}", "See fuzzkv/schemas/case-1.json.")
    if case["class"]["policies"] != sorted(case["class"]["policies"]):
        raise _bad("FKV014", source, "class.policies is not sorted", "Sort the names; the id depends on it.")
    if case["class"]["policies"] != [entry["name"] for entry in case["policies"]]:
        reason = "class.policies and the names in policies are not the same"
        raise _bad("FKV014", source, reason, "Restore the file, or hunt again.")
    wanted = case_id(case)
    if case["id"] != wanted:
        reason = f"its id is {case['id']}, but its content hashes to {wanted}"
        raise _bad("FKV015", source, reason, "The file was edited or damaged: restore it, or hunt again.")
    return cast("Case", case)


def load_case(path: Path | str) -> Case:
    """Read one case file. Every failure names the file, the value and a cure; the file is never changed."""
    path = Path(path)
    try:
        data = _read_regular(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
        raise _bad("FKV010", path, reason, "Check the path, or give a case id.") from error
    return validate(parse_json(data, path), path)


def save_case(case: Mapping[str, Any], folder: Path | str) -> Saved:
    """Write a case as ``<id>.json``, atomically, merged with a file of the same id that is there already."""
    folder = Path(folder)
    new = validate(dict(case), case.get("id", "a new case"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(folder, error) from error
    path = folder / f"{case['id']}.json"
    with locked(folder):
        old = load_case(path) if path.exists() else None
        merged = validate(merge(old, new), path) if old is not None else new
        data = file_bytes(merged)
        changed = old is None or path.read_bytes() != data
        if changed:
            atomic_write(path, data)
    return Saved(path=path, new=old is None, changed=changed, case=merged)


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Two cases of one id: what people or confirmations added to the old one stays.

    Confirmations are a union (same target, engine, device, kind, verdict and thresholds: the old one
    stays). The status follows the new case only where a confirmation was added and no person had set it
    (``reported``, ``fixed`` ...). ``found`` stays that of the first discovery; an empty label or title does
    not replace one. A certificate stays if the new one, about the same text, came less far.
    """
    known = {_confirmation_key(item) for item in old["confirmations"]}
    added = [item for item in new["confirmations"] if _confirmation_key(item) not in known]
    merged: dict[str, Any] = {
        **old,
        **new,
        "found": old["found"],
        "confirmations": [*old["confirmations"], *added],
    }
    if not added or old["status"] not in _MACHINE_STATUS:
        merged["status"] = old["status"]
    mine, theirs = old.get("certificate"), new.get("certificate")
    if theirs is None or (mine is not None and _outlasts(mine, theirs)):
        if mine is not None:
            merged["certificate"] = mine
        if merged["minimality"] != "certified":
            merged["minimality"] = old["minimality"]
    for key in ("label", "title"):
        merged[key] = new[key] or old[key]
    return merged


def _outlasts(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether a certificate says more than a later one about the same text."""
    if mine["text"] != theirs["text"] or theirs["verdict"] == "certified":
        return False
    if theirs["events"] < mine["events"]:
        return False  # a shorter schedule is known by now
    if mine["verdict"] == "certified" or mine["events"] < theirs["events"]:
        return True
    part = mine.get("shortest_in")
    return part is not None and not covers(theirs.get("shortest_in"), part)


def covers(part: Mapping[str, Any] | None, other: Mapping[str, Any]) -> bool:
    """Whether a part of the machine (``shortest_in`` of a certificate) holds every schedule of another one."""
    if part is None:
        return False
    larger = all(part[size] >= other[size] for size in ("requests", "pages", "device", "idle_first"))
    return larger and set(other["kinds"]) <= set(part["kinds"])


def confirmation_entry(result: Mapping[str, Any]) -> dict[str, Any]:
    """A confirmation's result as an entry of ``confirmations``: without times and paths of the one run."""
    return {key: value for key, value in sorted(result.items()) if key not in _OF_ONE_RUN}


def scan_corpus(folder: Path | str) -> tuple[list[Case], list[FuzzkvError]]:
    """All cases of a folder, sorted by id, and an error for every file that is broken. FKV019: no such
    folder.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):
        raise _bad("FKV019", folder, "there is no such folder", "Hunt first, or name another with --corpus.")
    cases, errors = [], []
    for path in sorted(folder.glob("fkv-*.json")):
        try:
            cases.append(load_case(path))
        except FuzzkvError as error:
            errors.append(error)
    return cases, errors


def load_corpus(folder: Path | str) -> list[Case]:
    """All cases of a folder, sorted by id; the first broken file raises."""
    cases, errors = scan_corpus(folder)
    if errors:
        raise errors[0]
    return cases


def write_index(folder: Path | str, *, strict: bool = False) -> Path:
    """Write ``index.json``: the cases sorted by id with the hash of each file, and one hash for the whole.

    A broken file is left out (:func:`problems` names it), unless ``strict``: then it raises.
    """
    folder = Path(folder)
    path = folder / INDEX
    with locked(folder):
        cases = load_corpus(folder) if strict else scan_corpus(folder)[0]
        data = file_bytes(build_index(cases))
        if not _holds(path, data):
            atomic_write(path, data)
        remove_stale(folder)
    return path


def build_index(cases: list[Case]) -> dict[str, Any]:
    """The index of a list of cases, as data."""
    rows = [
        {
            "class": case["class"],
            "id": case["id"],
            "label": case["label"],
            "sha256": hashlib.sha256(file_bytes(case)).hexdigest(),
            "status": case["status"],
            "title": case["title"],
        }
        for case in sorted(cases, key=lambda case: str(case["id"]))
    ]
    return {"cases": rows, "schema_version": SCHEMA_VERSION, "sha256": digest(rows)}


def problems(folder: Path | str) -> list[FuzzkvError]:
    """Everything wrong with a corpus: broken, misnamed or non-canonical files, a stale index."""
    folder = Path(folder)
    cases, found = scan_corpus(folder)
    broken = {str(error.value) for error in found}
    for path in sorted(folder.glob("fkv-*.json")):
        if str(path) in broken:
            continue
        case = load_case(path)
        if case["id"] != path.stem:
            reason = f"it holds the case {case['id']}"
            found.append(_bad("FKV023", path, reason, "Name the file after the id."))
        elif not _holds(path, file_bytes(case)):
            reason = "it is not in canonical form"
            found.append(_bad("FKV023", path, reason, "Restore it, or load it and save it again."))
    index = folder / INDEX
    if cases and not _holds(index, file_bytes(build_index(cases))):
        reason = "the index does not match the case files"
        found.append(_bad("FKV021", index, reason, "Run 'fuzzkv corpus index'."))
    return found


def find_path(id_or_path: str, folder: Path | str) -> Path:
    """The file of a case: a path, an id, the beginning of an id, or a label such as S1: of several cases that have it
    the one that an engine confirmed.
    """
    folder = Path(folder)
    if not id_or_path.strip():
        raise _bad("FKV016", repr(id_or_path), "it names no case", "Give an id, a file or a label.")
    direct = Path(id_or_path)
    if direct.suffix == ".json" or len(direct.parts) > 1 or os.path.isfile(direct):
        return direct
    is_folder = os.path.isdir(folder)
    paths = {path.stem: path for path in sorted(folder.glob("fkv-*.json"))} if is_folder else {}
    if id_or_path in paths:
        return paths[id_or_path]
    wanted = id_or_path if id_or_path.startswith("fkv-") else f"fkv-{id_or_path}"
    matches = [stem for stem in paths if stem.startswith(wanted)]
    if not matches:
        cases = scan_corpus(folder)[0] if is_folder else []
        labelled = [case for case in cases if case["label"] and case["label"] == id_or_path]
        confirmed = [case for case in labelled if case["status"] == "confirmed"]
        matches = [str(case["id"]) for case in (confirmed if len(confirmed) == 1 else labelled)]
    if len(matches) > 1:
        more = " ..." if len(matches) > 5 else ""
        reason = f"it fits {len(matches)} cases: {', '.join(matches[:5])}{more}"
        raise _bad("FKV017", id_or_path, reason, "Give more of the id.")
    if not matches:
        cure = did_you_mean(id_or_path, paths) if paths else f"The corpus {folder} is empty: hunt first."
        raise _bad("FKV016", _short(id_or_path), f"there is no such case in {folder}", cure)
    return paths[matches[0]]


def find_case(id_or_path: str, folder: Path | str) -> Case:
    """The case that :func:`find_path` finds, loaded and checked."""
    return load_case(find_path(id_or_path, folder))


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    text = files("fuzzkv").joinpath("schemas/case-1.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _read_regular(path: Path, limit: int) -> bytes:
    """At most ``limit`` bytes of a regular file; a pipe or a device must not be waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    with open(descriptor, "rb") as file:
        return file.read(limit)


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file holds exactly these bytes."""
    try:
        return _read_regular(path, len(data) + 1) == data
    except (OSError, ValueError):
        return False


def _confirmation_key(item: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(item.get(key, "")) for key in _SAME_CONFIRMATION)


def _short(message: str, limit: int = 160) -> str:
    return message if len(message) <= limit else f"{message[: limit - 4]} ..."


def _bad(code: str, value: object, reason: str, cure: str) -> UsageError:
    return UsageError(code=code, value=value, reason=reason, cure=cure)
