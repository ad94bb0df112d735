"""The user's folder for everything that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """``$FUZZKV_CACHE``, else ``$XDG_CACHE_HOME/fuzzkv``, else ``~/.cache/fuzzkv``."""
    if explicit := os.environ.get("FUZZKV_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fuzzkv"
