"""The page about code of one's own tells the numbers and names that are true."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from fuzzkv.targets.vllm.plugin.rules import ENGINE, RULES

PAGE = Path("docs/engine-code.md").read_text(encoding="utf-8")


def test_numbers_and_names_on_the_page() -> None:
    assert f"{len(RULES)}, each with the file" in PAGE and f"vLLM {ENGINE}" in PAGE
    assert set(re.findall(r"`((?:policy|manager|worker|connector)-[a-z-]+)`", PAGE)) <= set(RULES)
    for module, names in re.findall(r"^from (\S+) import (.+)$", PAGE, re.M):
        found = importlib.import_module(module)
        assert all(hasattr(found, name.strip()) for name in names.split(","))
    assert Path(re.findall(r"--policies (\S+?):", PAGE)[0]).is_file()
