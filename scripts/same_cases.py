"""Whether two commits find the same: the case files of one hunt, byte for byte.

    python scripts/same_cases.py BEFORE [AFTER] [-- HUNT OPTIONS]

Each commit is checked out into a folder of its own beside this repository's history and hunts with this interpreter's
libraries (AFTER: the working tree if it isn't given).  The hunt is ``--policies offload,quant,evict --no-confirm --seed 0``
unless other options are given.  Exit 0: the same files; 1: they differ, and each that does is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HUNT = ("--policies", "offload,quant,evict", "--no-confirm", "--seed", "0")


def checked_out(commit: str, folder: Path) -> Path:
    """The files of a commit, in a new folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def hunted(tree: Path, corpus: Path, options: tuple[str, ...]) -> dict[str, bytes]:
    """The case files that a hunt of the package in ``tree`` writes, by name; the index tells nothing more."""
    command = [sys.executable, "-m", "fuzzkv", "hunt", *options, "--corpus", str(corpus)]
    # The package of the current folder comes before an installed one.
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the hunt in {tree} ended with {done.returncode}")
    return {path.name: path.read_bytes() for path in sorted(corpus.glob("fkv-*.json"))}


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What differs, a line each."""
    words = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            words.append(f"{name}: only before")
        elif name not in before:
            words.append(f"{name}: only after")
        elif before[name] != after[name]:
            words.append(f"{name}: another content")
    return words


def main(arguments: list[str]) -> int:
    """Compare two commits."""
    mark = arguments.index("--") if "--" in arguments else len(arguments)
    commits, options = arguments[:mark], tuple(arguments[mark + 1 :]) or HUNT
    if not 1 <= len(commits) <= 2:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = [checked_out(commit, folder / f"tree{n}") for n, commit in enumerate(commits)]
        trees += [ROOT] * (2 - len(trees))
        before, after = (hunted(tree, folder / f"corpus{n}", options) for n, tree in enumerate(trees))
    told = differences(before, after)
    print("\n".join([*told, f"{len(before)} case files before, {len(after)} after, {len(told)} differ"]))
    return 1 if told or not before else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
