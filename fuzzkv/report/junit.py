"""A gate as JUnit XML: one test case for every policy set and invariant, failures apart from errors.

The class name of a test case is its policy set, its name an invariant. A test case that was not run, or whose
policies never met, is skipped; what proves nothing at all is an error. Nothing in it depends on the clock but the
times of the suites.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

from fuzzkv.report.summary import policy_text

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 can't hold, escaped or not."""


def junit_bytes(report: Mapping[str, Any], names: Mapping[str, str]) -> bytes:
    """The report of a gate as XML; ``names`` are the invariants that are checked, by id."""
    root = ET.Element("testsuites", name=clean(f"fuzzkv gate {report['candidate']}"))
    for row in report["checks"]:
        if row["check"] != "corpus":
            root.append(_suite(report, row, names))
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", f"{report['seconds']:.3f}")
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def clean(text: str) -> str:
    """The text without characters that XML can't hold; they are written as Python escapes."""
    return _ILLEGAL.sub(lambda found: ascii(found[0])[1:-1], text)


def _suite(report: Mapping[str, Any], row: Mapping[str, Any], names: Mapping[str, str]) -> ET.Element:
    policies = policy_text(row["policies"])
    suite = ET.Element("testsuite", name=clean(policies))
    broken: dict[str, list[Mapping[str, Any]]] = {}
    wanted = dict(names)
    for failure in report["failures"]:
        if failure["policies"] == row["policies"]:
            broken.setdefault(failure["invariant"], []).append(failure)
            wanted.setdefault(failure["invariant"], failure["name"])
    errors = {e["invariant"]: e for e in report["errors"] if e["policies"] == row["policies"]}
    for ident, name in wanted.items():
        case = ET.SubElement(
            suite, "testcase", classname=clean(policies), name=clean(f"{ident} {name}".strip())
        )
        failures = broken.get(ident, [])
        if failures:
            said = "; ".join(dict.fromkeys(failure["title"] for failure in failures))
            kind = "single-policy" if len(row["policies"]) == 1 else "conflict"
            text = "\n\n".join(_text(failure) for failure in failures)
            ET.SubElement(case, "failure", type=kind, message=clean(said)).text = clean(text)
        elif ident in errors:
            error = errors[ident]
            ET.SubElement(case, "error", type=error["code"], message=clean(error["text"]))
        elif report["outcome"] in ("vacuous", "failed") and row["verdict"] == "vacuous":
            ET.SubElement(case, "error", type="vacuous", message=clean(row["text"]))
        elif not row.get("schedules"):
            ET.SubElement(case, "skipped", message="not run")
        elif report["outcome"] == "interrupted" and row["check"] == "hunt":
            ET.SubElement(case, "skipped", message=clean(f"interrupted: {row['text']}"))
        elif row["verdict"] == "vacuous":
            ET.SubElement(case, "skipped", message=clean(f"vacuous: {row['text']}"))
    suite.set("tests", str(len(suite)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{row['seconds']:.3f}")
    return suite


def _text(failure: Mapping[str, Any]) -> str:
    """What a person needs to see it again."""
    if not failure["invariant"]:
        return str(failure["title"])
    who = policy_text(failure["policies"])
    lines = [f"{who}: {failure['invariant']} ({failure['name']}) asks that {failure['rule']}."]
    lines.append(f"Broken at event {failure['event']}, of {failure['events']} in all: {failure['title']}.")
    if failure["clause"]:
        lines.append(
            f"The contract would have refused it at event {failure['refused_at']} by the clause '{failure['clause']}'."
        )
    if failure["corpus"]:
        lines.append(f"Also shown by {', '.join(failure['corpus'])} with the candidate standing in.")
    lines.append(
        f"Case {failure['case_id']}:" if failure["path"] else f"Case {failure['case_id']} could not be filed."
    )
    lines += [f"  {command}" for command in (failure["explain"], failure["replay"]) if command]
    return "\n".join(lines)
