"""The Python that runs a worker: the one of this process, or one of another environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzzkv.core.scratch import Scratch

PACKAGE: Final = Path(__file__).resolve().parents[1]
"""The folder of fuzzkv itself."""
OF_THIS_PYTHON: Final = ("PYTHONHOME", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__")
"""Variables that would make another interpreter take this one's library."""


@dataclass(frozen=True)
class Interpreter:
    """``python``: its path; empty for the one of this process.

    Another interpreter gets fuzzkv's own code and nothing else of what is installed here, so a worker's
    modules may import the standard library, fuzzkv, and what its engine brings (numpy, torch).
    """

    python: str = ""

    def command(self, module: str) -> tuple[str, ...]:
        """How a module is run."""
        return (self.python or sys.executable, "-m", module)

    def environment(self, settings: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
        """This process's environment with ``settings``, fuzzkv first on the path, and temporary files in ``scratch``."""
        inherited = {k: v for k, v in os.environ.items() if not (self.python and k in OF_THIS_PYTHON)}
        paths = (str(self._root(scratch)), inherited.get("PYTHONPATH", ""))
        path = os.pathsep.join(p for p in paths if p)
        return {**inherited, **settings, **scratch.environment(), "PYTHONPATH": path}

    def _root(self, scratch: Scratch) -> Path:
        if not self.python:
            return PACKAGE.parent
        # The folder that fuzzkv lies in may be that of everything that is installed here.
        root = scratch.folder / "path"
        root.mkdir(exist_ok=True)
        link = root / PACKAGE.name
        if not link.is_symlink():
            link.symlink_to(PACKAGE, target_is_directory=True)
        return root


HERE: Final = Interpreter()
"""The interpreter of this process."""
