"""The figure of an explanation: the same bytes for the same explanation, everything in it that a reader needs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from fuzzkv.explain.explanation import explained
from fuzzkv.explain.figure import as_svg
from tests.explain.test_explanations import CASES, is_live, named_policies

SVG = "{http://www.w3.org/2000/svg}"
SHOWN = ["fkv-02f626019e02", "fkv-2063c3984224", "fkv-58f844c3056e", "fkv-03f49144a7ac", "fkv-d0663e7c9582"]


@pytest.mark.parametrize("case_id", SHOWN)
def test_a_figure_shows_lanes_pages_and_the_breach(case_id: str) -> None:
    case = CASES[case_id]
    found = explained(case, () if is_live(case) else named_policies(case), guards=False)
    assert found is not None
    drawn = as_svg(found)
    assert drawn == as_svg(found), "not the same bytes"
    root = ET.fromstring(drawn)
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert f"breaks {found.invariant}" in words
    assert {"device", "host", *case["class"]["policies"]} <= set(words)
    numbers = {word for word in words if word and word.isdigit()}
    assert numbers == {str(n) for n in found.numbers.values()}
    named = {stay.name.split(" ")[0] for stay in found.stage.stays}
    assert named & {name for name, _ in found.bound}
    # Readable on a light page and on a dark one, and nothing is fetched from elsewhere.
    assert "prefers-color-scheme: dark" in drawn
    assert re.findall(r'(?:href|src)="([^"#]*)"', drawn) == []


def test_nothing_is_drawn_outside_of_the_figure() -> None:
    found = explained(CASES["fkv-2063c3984224"], guards=False)
    assert found is not None
    root = ET.fromstring(as_svg(found))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert x >= 0 and x + float(box.attrib["width"]) <= width
        assert y >= 0 and y + float(box.attrib["height"]) <= height
