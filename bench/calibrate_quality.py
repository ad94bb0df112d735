"""Measures what the ledger charges (`fuzzkv/semantics/calibration.py`) on the engine, and prints the table.

For sessions of 4, 6 and 8 pages: of the answers that full cache gets right, the share that is lost (a) when
its second page (the first that an evictor takes) is left out for good, (b) when every page is at 4 bits; as
one-sided 95 % upper bounds, (b) divided by the pages.  Takes a few minutes; needs an engine.
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from fuzzkv.oracles.statistics import clopper_pearson_upper
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.semantics import calibration
from fuzzkv.targets.vllm.replay.confirm import confirm
from fuzzkv.targets.vllm.replay.script import Op, ReplayArm, ReplayJob

QUESTIONS = 360


def damages(pages: int) -> dict[str, tuple[Op, ...]]:
    """What is done to a session: its second page left out (the evictor's first choice); all pages at 4
    bits.
    """
    absent = (Op("discard_device", 0, 1, 0),)
    return {"absent": absent, "int4": tuple(Op("quantise", 0, page, 4) for page in range(pages))}


def main() -> None:
    """Measure, print, and say where the kept table charges less than was measured."""
    too_low = []
    tables = {"absent": calibration.ABSENT, "int4": calibration.INT4}
    for pages in (4, 6, 8):
        opened = Op("arrive", 0, -1, pages)
        for name, damage in damages(pages).items():
            job = ReplayJob(
                case_id=f"calibrate-{name}-{pages}",
                kind="quality",
                arms=(ReplayArm((), (opened,)), ReplayArm((name,), (opened, *damage))),
                endpoint=(),
                seed=11,
                tick_us=1,
                slack_ticks=0,
            )
            # One look at all questions: nothing is decided here, only counted.
            once = replace(default_thresholds(), looks=1)
            with tempfile.TemporaryDirectory() as folder:
                result = confirm(job, thresholds=once, log_dir=Path(folder), questions=QUESTIONS)
            counts = result.arms[-1].counts
            right = counts["both"] + counts["c"]
            share = 1 if name == "absent" else pages
            bound = math.ceil(1000 * clopper_pearson_upper(counts["c"], right) / share)
            kept = tables[name][pages]
            print(
                f"{pages} pages, {name}: {counts['c']} of {right} lost, charge {bound} permille a page (kept: {kept})"
            )
            sys.stdout.flush()
            if bound > kept:
                too_low.append(f"{name}[{pages}]")
    print(
        "the kept table covers all of it"
        if not too_low
        else f"the kept table is too low for {', '.join(too_low)}"
    )
    sys.exit(1 if too_low else 0)


if __name__ == "__main__":
    main()
