"""README.md and the pages beside it that are made from data: ``python -m scripts.readme`` writes them and prints every number.

``docs/readme.template.md`` is the text, with ``{{name}}`` for a fact of :func:`facts`; whoever edits README edits that.
What stands between the marks of the discovery benchmark is ``bench.discovery_page``'s and stays as it is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fuzzkv import errors
from fuzzkv.cases.corpus import load_corpus
from fuzzkv.core.files import atomic_write
from fuzzkv.explain import formats
from fuzzkv.explain.explanation import explained
from fuzzkv.explain.figure import as_svg
from fuzzkv.report.summary import engine_text, hanging, policy_text
from fuzzkv.semantics.contract.invariants import BY_ID
from fuzzkv.semantics.layout import CLAUSES, NR, PAGES
from scripts.picture import picture

ROOT: Final = Path(__file__).resolve().parents[1]
TEMPLATE, README, GENERATED = "docs/readme.template.md", "README.md", "docs/generated"
FINDING: Final = "fkv-d0663e7c9582"
"""The case that README tells."""
SOURCE: Final = "vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py"
LINES: Final = {
    "reset_line": (2082, "group_state.next_stored_chunk_idx = 0"),
    "check_line": (1324, "start = group_state.next_stored_chunk_idx * blocks_per_chunk"),
}
"""The lines of ``SOURCE`` in the release of the case that README names, and what stands there."""
DESIGN: Final = {
    "S1": "the last copy, deleted",
    "S2": "a backup, consumed",
    "S3": "recovery traffic",
    "S4": "a score of now, a deletion for good",
    "S5": "the host copy of what wasn't selected",
    "S6": "a loss without a backup",
    "S7": "losses that add up",
    "S8": "an aborted branch, still attended",
    "S9": "outputs that run on",
    "S10": "a prefix of two kinds",
}
"""The design's names of conflicts, in words."""
WORDS: Final = (
    *(
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    "thirteen",
)
DISCOVERY: Final = re.compile(r"<!-- discovery -->.*?<!-- /discovery -->", re.DOTALL)


def word(number: int) -> str:
    """A number in words up to thirteen, else in digits."""
    return WORDS[number] if number < len(WORDS) else f"{number:,}"


def facts() -> dict[str, str]:
    """Everything that README takes from data, by name: the corpus, the kept results, the contract, the project file."""
    cases = load_corpus(str(ROOT / "corpus"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = next(case for case in cases if case["id"] == FINDING)
    release = str(found["engine"]).split()[1]
    return {
        **_corpus_facts(cases),
        **_hunt_facts(cases),
        "case": FINDING,
        "Siblings": word(sum(map(_live, cases)) - 1).capitalize(),
        "siblings": ", ".join(f"`{case['id']}`" for case in cases if _live(case) and case["id"] != FINDING),
        "release": release,
        "vllm": ".".join(release.split(".")[:2]),
        "Finding_events": word(len(found["schedule"])).capitalize(),
        "explanation": explanation(found),
        "source": SOURCE.rpartition("v1/")[2],
        **{name: str(line) for name, (line, _) in LINES.items()},
        "python": project["requires-python"].lstrip(">="),
        "invariants": word(len(BY_ID)),
        "clauses": word(len(CLAUSES)),
        "sessions": word(NR),
        "pages": word(PAGES),
        "margin": json.loads((ROOT / "fuzzkv/oracles/thresholds.json").read_text())["dq"],
        "exit_clean": str(errors.EXIT_CLEAN),
        "exit_conflict": str(errors.EXIT_CONFLICT),
        "exit_usage": str(errors.EXIT_USAGE),
        "exit_environment": str(errors.EXIT_ENVIRONMENT),
        "exit_interrupted": str(errors.EXIT_INTERRUPTED),
        **{f"design_{name}": words for name, words in DESIGN.items()},
    }


def _live(case: Mapping[str, Any]) -> bool:
    return "target" in case


def _corpus_facts(cases: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    live = [case for case in cases if _live(case)]
    model = [case for case in cases if not _live(case)]
    own = [case for case in model if case["status"] != "reported"]
    confirmed = [case for case in own if engine_text(case) == "confirmed"]
    return {
        "model_cases": str(len(model)),
        "own_cases": str(len(own)),
        "own_confirmed": str(len(confirmed)),
        "reported": str(len(model) - len(own)),
        "live_cases": str(len(live)),
        "live_words": word(len(live)),
        "not_minimal": word(sum(case["minimality"] == "not-minimal" for case in cases)),
        "certified": str(sum(case["minimality"] == "certified" for case in model)),
    }


def _hunt_facts(cases: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The kept report of the hunt inside the engine."""
    hunt = json.loads((ROOT / "bench/results/live_hunt.json").read_text(encoding="utf-8"))
    filed = {case["id"] for case in cases if _live(case)}
    ids = set(re.findall(r"fkv-[0-9a-f]{12}", json.dumps(hunt["cases"])))
    return {
        "hunt_minutes": word(round(hunt["seconds"] / 60)),
        "hunt_schedules": f"{hunt['schedules']:,}",
        "hunt_sets": str(hunt["sets"]),
        "hunt_steps": f"{hunt['steps']:,}",
        "hunt_found": word(len(ids & filed)),
    }


def explanation(case: Mapping[str, Any]) -> str:
    """What ``fuzzkv explain`` prints of a case, without the names, the dependencies and the arms; ``...`` stands for what is
    left out.
    """
    told = explained(case, (), guards=False)
    assert told is not None
    lines = formats.as_text(told).splitlines()
    kept = [line for line in lines if line.startswith("  (")]
    kept = [lines[0], "...", *kept, "...", *(line for line in lines if line.startswith("However"))]
    return hanging("\n".join([*kept, "..."]), 112)


def readme(template: str, known: Mapping[str, str], old: str) -> str:
    """README from its template; the discovery benchmark's part is taken from ``old``."""
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], template)
    kept = DISCOVERY.search(old)
    return DISCOVERY.sub(lambda _: kept[0], text) if kept else text


def corpus_page(cases: Sequence[Mapping[str, Any]]) -> str:
    """A row a case."""
    lines = [
        "# The corpus",
        "",
        "Written by `python -m scripts.readme`. `fuzzkv explain ID` says why a case fails, `fuzzkv replay ID` runs it again.",
        "",
        "| case | policies | breaks | events | length | real engine | known as |",
        "|---|---|---|---:|---|---|---|",
    ]
    for case in cases:
        kind, label = case["class"], str(case["label"])
        known = f"{label}: {DESIGN[label]}" if label in DESIGN else label
        breaks = f"{kind['invariant']} {BY_ID[kind['invariant']].name}"
        cells = [f"`{case['id']}`", policy_text(kind["policies"]), breaks, str(len(case["schedule"]))]
        cells += [str(case["minimality"]), engine_text(case), known]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """All that this script writes: path to text."""
    cases = load_corpus(str(ROOT / "corpus"))
    told = explained(next(case for case in cases if case["id"] == FINDING), (), guards=False)
    assert told is not None
    template, old = ((ROOT / name).read_text(encoding="utf-8") for name in (TEMPLATE, README))
    return {
        README: readme(template, facts(), old),
        f"{GENERATED}/corpus.md": corpus_page(cases),
        f"{GENERATED}/overview.svg": picture(),
        f"{GENERATED}/{FINDING}.svg": as_svg(told),
    }


def main() -> None:
    """Print the facts and write the pages."""
    for name, value in facts().items():
        print(f"{name}: {value}")
    for path, text in pages().items():
        atomic_write(ROOT / path, text.encode())
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
