"""The picture of README.md: what fuzzkv does, from policies to the gate. ``python -m scripts.readme`` writes it."""

from __future__ import annotations

from typing import Final

import drawsvg as svg

STEPS: Final = (
    ("policies", "offload, quant, evict,", "yours, or vLLM's own"),
    ("schedules", "arrivals, steps, acts,", "ends of transfers"),
    ("targets", "a model of caches,", "or a live vLLM"),
    ("conflict", "together they fail,", "every part passes"),
    ("case", "shrunk, explained,", "replayed by its id"),
    ("gate", "may this policy in?", "an exit code for CI"),
)
"""The boxes from left to right: a title and two lines."""
ARROWS: Final = ("draw", "run", "judge", "shrink", "replay")
"""What happens between a box and the next."""
BOX, GAP, TOP, HEIGHT, EDGE = 142, 50, 16, 84, 16
STYLE: Final = """
:root { color-scheme: light dark; }
.paper { fill: #ffffff; } .box { fill: #f6f8fa; stroke: #57606a; } .hit { fill: #fff1f0; stroke: #c1121f; }
.ink { fill: #1b1f24; } .soft { fill: #57606a; } .line { stroke: #57606a; fill: none; } .head { fill: #57606a; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; } .box { fill: #161b22; stroke: #9da7b1; } .hit { fill: #3a1214; stroke: #ff6b6b; }
.ink { fill: #e6edf3; } .soft { fill: #9da7b1; } .line { stroke: #9da7b1; } .head { fill: #9da7b1; }
}
text { font-family: "Helvetica Neue", Helvetica, Arial, sans-serif; }
"""


def picture() -> str:
    """The figure as SVG, with a ground of its own in light and in dark."""
    width = 2 * EDGE + len(STEPS) * BOX + (len(STEPS) - 1) * GAP
    height = TOP + HEIGHT + 48
    drawing = svg.Drawing(width, height, id_prefix="o")
    drawing.append_css(STYLE)
    drawing.append_title("policies, schedules, targets, conflict, case, gate")
    head = svg.Marker(-6, -3.5, 1, 3.5, scale=1.4, orient="auto")
    head.append(svg.Lines(-6, -3, 0, 0, -6, 3, close=True, class_="head"))
    drawing.append(svg.Rectangle(0, 0, width, height, class_="paper"))
    for number, (title, *lines) in enumerate(STEPS):
        left = EDGE + number * (BOX + GAP)
        middle = left + BOX / 2
        drawing.append(
            svg.Rectangle(left, TOP, BOX, HEIGHT, rx=8, class_="hit" if title == "conflict" else "box")
        )
        drawing.append(
            svg.Text(title, 16, middle, TOP + 28, text_anchor="middle", font_weight="bold", class_="ink")
        )
        for row, line in enumerate(lines):
            drawing.append(
                svg.Text(line, 11.5, middle, TOP + 50 + 17 * row, text_anchor="middle", class_="soft")
            )
        if number < len(ARROWS):
            right, level = left + BOX, TOP + HEIGHT / 2
            drawing.append(svg.Line(right + 4, level, right + GAP - 5, level, class_="line", marker_end=head))
            drawing.append(
                svg.Text(ARROWS[number], 11, right + GAP / 2, level - 8, text_anchor="middle", class_="soft")
            )
    first, last, low = EDGE + BOX / 2, width - EDGE - BOX / 2, TOP + HEIGHT + 20
    path = svg.Path(class_="line", stroke_dasharray="4 3", marker_end=head)
    path.M(last, TOP + HEIGHT + 2).L(last, low).L(first, low).L(first, TOP + HEIGHT + 5)
    drawing.append(path)
    said = "let in: from now on it is one of the policies that others have to get on with"
    drawing.append(svg.Text(said, 11, width / 2, low + 16, text_anchor="middle", class_="soft"))
    return str(drawing.as_svg())
