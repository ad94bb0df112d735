"""Measures what the ledger charges (`fuzzkv/contract/calibration.py`) on the engine, and prints the table.

For sessions of 4, 6 and 8 pages: of the answers that full cache gets right, the share that is lost (a) when
one page in the middle is left out for good, (b) when every page is at 4 bits; as one-sided 95 % upper bounds,
(b) divided by the pages.  Takes a few minutes; needs an engine.
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from fuzzkv.contract import calibration
from fuzzkv.oracles.statistics import clopper_pearson_upper
from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.replay.confirm import confirm
from fuzzkv.replay.script import Arm, Job, Op

QUESTIONS = 360


def arms(pages: int) -> tuple[Arm, ...]:
    """Full cache; one middle page absent; all pages at 4 bits."""
    opened = Op("arrive", 0, -1, pages)
    absent = Op("discard_device", 0, pages // 2, 0)
    lossy = tuple(Op("quantise", 0, page, 4) for page in range(pages))
    return Arm((), (opened,)), Arm(("absent",), (opened, absent)), Arm(("int4",), (opened, *lossy))


def main() -> None:
    """Measure, print, and say where the kept table charges less than was measured."""
    too_low = []
    for pages in (4, 6, 8):
        job = Job(
            case_id=f"calibrate-{pages}",
            kind="quality",
            arms=arms(pages),
            endpoint=(),
            seed=11,
            tick_us=1,
            slack_ticks=0,
        )
        # One look at all questions: nothing is decided here, only counted.
        once = replace(default_thresholds(), looks=1)
        with tempfile.TemporaryDirectory() as folder:
            result = confirm(job, thresholds=once, log_dir=Path(folder), questions=QUESTIONS)
        for arm, table, share in zip(
            result.arms[1:], (calibration.ABSENT, calibration.INT4), (1, pages), strict=True
        ):
            right = arm.counts["both"] + arm.counts["c"]
            bound = math.ceil(1000 * clopper_pearson_upper(arm.counts["c"], right) / share)
            name = "+".join(arm.policies)
            print(
                f"{pages} pages, {name}: {arm.counts['c']} of {right} lost, charge {bound} permille a page (kept: {table[pages]})",
                flush=True,
            )
            if bound > table[pages]:
                too_low.append(f"{name}[{pages}]")
    print(
        "the kept table covers all of it"
        if not too_low
        else f"the kept table is too low for {', '.join(too_low)}"
    )
    sys.exit(1 if too_low else 0)


if __name__ == "__main__":
    main()
