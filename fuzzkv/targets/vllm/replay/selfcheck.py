"""``python -m fuzzkv.targets.vllm.replay.selfcheck [quality|exact|latency ...] [--device cpu|cuda] [--logs FOLDER]``

Three hand-made cases whose outcome is known, run end to end on a real worker: the whole check of an engine
or a GPU machine in one command. Each must be ``confirmed``: an offload and an eviction that are harmless
alone and lose a page together (once by answers, once by tokens), and two policies that share a link and
together break the P99 objective. Prints one canonical JSON line a case; exit status 0 if all were
confirmed, else 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fuzzkv.oracles.thresholds import default_thresholds
from fuzzkv.targets.vllm.replay.confirm import confirm
from fuzzkv.targets.vllm.replay.confirmation import ReplayProgress
from fuzzkv.targets.vllm.replay.script import ReplayArm, ReplayJob, ReplayKind, parse_script

_OPEN: Final = "arrive 0 4; ask 0 1"
_AWAY: Final = f"{_OPEN}; store 0 2 2; wait 2; stored 0 2; discard_device 0 2"
_BACK: Final = "load 0 2 2; wait 2; loaded 0 2; ask 0 1; finish 0"
_STEPS: Final = "ask 0 1; ask 0 3; ask 0 0; wait 1; ask 0 1"


def lost_page(kind: ReplayKind) -> ReplayJob:
    """Offload moves a page to the host; the evictor deletes a host copy. Together they delete the last
    one."""
    scripts = {
        "": f"{_OPEN}; ask 0 1; finish 0",
        "offload": f"{_AWAY}; {_BACK}",
        "evict": f"{_OPEN}; discard_host 0 2; ask 0 1; finish 0",
        "offload+evict": f"{_AWAY}; discard_host 0 2; {_BACK}",
    }
    return _job(f"selfcheck-{kind}", kind, scripts, ((0, 2),), tick_us=1000, slack=1)


def shared_link() -> ReplayJob:
    """Offload must bring a page back on demand; a prefetcher fills the link. Each alone meets the
    objective."""
    fill = "store 0 1 12; store 0 3 12"
    back = "load 0 2 4; await 0 2; loaded 0 2; ask 0 2"
    scripts = {
        "": f"{_OPEN}; wait 2; ask 0 2; {_STEPS}",
        "offload": f"{_AWAY}; {back}; {_STEPS}",
        "prefetch": f"{_OPEN}; wait 2; {fill}; ask 0 2; {_STEPS}",
        "offload+prefetch": f"{_AWAY}; {fill}; {back}; {_STEPS}",
    }
    return _job("selfcheck-latency", "latency", scripts, (), tick_us=2500, slack=14)


def _job(
    name: str,
    kind: ReplayKind,
    scripts: dict[str, str],
    endpoint: tuple[tuple[int, int], ...],
    tick_us: int,
    slack: int,
) -> ReplayJob:
    arms = tuple(ReplayArm(tuple(filter(None, n.split("+"))), parse_script(s)) for n, s in scripts.items())
    return ReplayJob(name, kind, arms, endpoint, seed=7, tick_us=tick_us, slack_ticks=slack)


CASES: Final[dict[str, Callable[[], ReplayJob]]] = {
    "exact": lambda: lost_page("exact"),
    "quality": lambda: lost_page("quality"),
    "latency": shared_link,
}


def main(argv: list[str] | None = None) -> int:
    """Run the cases named (default: all)."""
    parser = argparse.ArgumentParser(prog="python -m fuzzkv.targets.vllm.replay.selfcheck")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default all")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--logs", type=Path, default=Path(".fuzzkv/selfcheck"))
    options = parser.parse_args(argv)
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    good = True
    for name in options.cases or CASES:
        result = confirm(
            CASES[name](),
            thresholds=default_thresholds(),
            log_dir=options.logs / name,
            on_event=_say,
            device=options.device,
        )
        print(result.to_json().decode(), flush=True)
        print(f"{name}: {result.verdict} in {result.seconds} s: {result.reason}", file=sys.stderr)
        good &= result.verdict == "confirmed"
    return 0 if good else 1


def _say(event: ReplayProgress) -> None:
    arm = "+".join(event.arm) or "full"
    print(f"  {arm}: {event.done} of {event.total} replicas, right {event.right}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
