"""An explanation as a figure: time to the right, a lane for each policy, tier, transfer and request, pages as blocks that move.

Columns are the listed nodes, so time isn't to scale; what happened between two of them is drawn between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import drawsvg as svg

from fuzzkv.explain.graph import Explanation, Tie
from fuzzkv.explain.stage import Move, Stay

LEFT, RIGHT, TOP = 150, 40, 58
COLUMN, ROW, PAD = 108, 26, 11
FOOT = 44

STYLE: Final = """
:root { color-scheme: light dark; }
.paper { fill: #ffffff; } .ink { fill: #1b1f24; } .soft { fill: #57606a; } .rule { stroke: #d0d7de; }
.lane { fill: #f6f8fa; } .tie { stroke: #57606a; fill: none; } .head { fill: #57606a; }
.bad { stroke: #c1121f; fill: none; } .badfill { fill: #c1121f; } .node { fill: #ffffff; stroke: #1b1f24; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; } .ink { fill: #e6edf3; } .soft { fill: #9da7b1; } .rule { stroke: #30363d; }
.lane { fill: #161b22; } .tie { stroke: #9da7b1; } .head { fill: #9da7b1; }
.bad { stroke: #ff6b6b; } .badfill { fill: #ff6b6b; } .node { fill: #0d1117; stroke: #e6edf3; }
}
.halo { fill: #1b1f24; stroke: #ffffff; stroke-width: 3; paint-order: stroke; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) { .halo { fill: #e6edf3; stroke: #0d1117; } }
text { font-family: "Helvetica Neue", Helvetica, Arial, sans-serif; }
"""
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a200", "#7f7f7f")
"""Colours of pages that are told apart with any colour vision (Okabe and Ito), the last one grey."""
DARK: Final = frozenset({"#0072b2", "#009e73", "#d55e00", "#7f7f7f"})
"""Those on which white reads better."""
FADED: Final = {"exact": 0.85, "8 bits": 0.5, "4 bits": 0.32, "other": 0.2, "unfilled": 0.08}


@dataclass
class Lane:
    """A lane of the figure: its name, how many rows it has, where its top is."""

    name: str
    sort: str
    rows: int = 1
    top: float = 0.0

    @property
    def height(self) -> float:
        """Its height in pixels."""
        return self.rows * ROW + 2 * PAD

    def y(self, row: int = 0) -> float:
        """The middle of one of its rows."""
        return self.top + PAD + ROW * (row + 0.5)


class Figure:
    """Lays an explanation out and draws it."""

    def __init__(self, found: Explanation) -> None:
        self.found = found
        self.columns = list(found.chain.listed)
        self.stage = found.stage
        self.names = list(dict.fromkeys(stay.name for stay in self.stage.stays))
        self.colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(self.names)}
        self.lanes = self._lanes()
        self.rows = self._rows()
        top = float(TOP)
        for lane in self.lanes.values():
            lane.top = top
            top += lane.height
        self.bottom = top
        self.width = LEFT + COLUMN * len(self.columns) + RIGHT
        self.caption = _wrapped(found.because, int((self.width - 32) / 5.6))
        self.height = self.bottom + FOOT + 15 * len(self.caption)
        self.drawing = svg.Drawing(self.width, self.height, id_prefix="fkv")

    def draw(self) -> str:
        """The figure as an SVG document."""
        self.drawing.append_css(STYLE)
        self._add(svg.Rectangle(0, 0, self.width, self.height, class_="paper"))
        self._text(f"{self.found.case}: {self.found.headline}", 14, LEFT - 134, 24, font_weight="bold")
        self._backdrop()
        for stay in self.stage.stays:
            self._stay(stay)
        for row, move in enumerate(self.moves):
            self._move(move, row)
        for tie in self.found.chain.ties:
            self._tie(tie)
        for node in self.columns:
            self._node(node)
        self._foot()
        return str(self.drawing.as_svg(randomize_ids=False)) + "\n"

    # -- places ------------------------------------------------------------------------------------------

    def _lanes(self) -> dict[str, Lane]:
        lanes: dict[str, Lane] = {}
        for node in self.columns:
            act = self.found.act(node)
            name = act.actor or act.lane
            lanes.setdefault(name, Lane(name, "policy" if act.actor else "request"))
        order = sorted(lanes.values(), key=lambda lane: lane.name)
        policies = [lane for lane in order if lane.sort == "policy"]
        others = [lane for lane in order if lane.sort != "policy"]
        self.moves = [move for move in self.stage.moves if self.x(move.begin) != self.x(move.end)]
        tiers = [Lane(tier, "tier") for tier in self.stage.tiers]
        link = [Lane("transfers", "link", len(self.moves))] if self.moves else []
        return {lane.name: lane for lane in [*others, *policies, *tiers[:1], *link, *tiers[1:]]}

    def _rows(self) -> dict[Stay, int]:
        """The row of each stay in its lane: every page has its own."""
        rows: dict[Stay, int] = {}
        for tier in self.stage.tiers:
            mine = list(dict.fromkeys(s.name for s in self.stage.stays if s.lane == tier))
            self.lanes[tier].rows = max(1, len(mine))
            rows |= {s: mine.index(s.name) for s in self.stage.stays if s.lane == tier}
        return rows

    def x(self, node: int) -> float:
        """Where a node is: in its column, or between the two columns between which it ran; -1 is the end."""
        if node < 0:
            return LEFT + COLUMN * len(self.columns)
        at = bisect_right(self.columns, node) - 1
        exact = at >= 0 and self.columns[at] == node
        return LEFT + COLUMN * (at + 0.5 + (0 if exact else 0.5))

    # -- drawing -----------------------------------------------------------------------------------------

    def _add(self, *things: Any) -> None:
        for thing in things:
            self.drawing.append(thing)

    def _text(self, text: str, size: float, x: float, y: float, *, middle: bool = False, **more: Any) -> None:
        look = {"class_": "ink", **more}
        self._add(svg.Text(text, size, x, y + (0.36 * size if middle else 0), **look))

    def _backdrop(self) -> None:
        for i, lane in enumerate(self.lanes.values()):
            if i % 2 == 0:
                self._add(svg.Rectangle(0, lane.top, self.width, lane.height, class_="lane"))
            self._text(lane.name, 12, 16, lane.top + lane.height / 2, font_weight="bold", middle=True)
        broke = self.x(self.found.chain.broke)
        for node in self.columns:
            look = "bad" if node == self.found.chain.broke else "rule"
            width = 2 if look == "bad" else 1
            self._add(
                svg.Line(
                    self.x(node),
                    TOP - 6,
                    self.x(node),
                    self.bottom,
                    class_=look,
                    stroke_width=width,
                    stroke_dasharray="3 4",
                )
            )
        self._text(
            f"breaks {self.found.invariant}",
            12,
            broke,
            TOP - 14,
            class_="badfill",
            font_weight="bold",
            text_anchor="middle",
        )

    def _stay(self, stay: Stay) -> None:
        lane = self.lanes[stay.lane]
        y, left, right = lane.y(self.rows[stay]), self.x(stay.begin), self.x(stay.end)
        if left == right:
            return  # it came and went between two columns
        dash = {} if stay.look == "exact" else {"stroke_dasharray": "4 2"}
        colour = self.colour[stay.name]
        box = {
            "rx": 4,
            "fill": colour,
            "fill_opacity": FADED[stay.look],
            "stroke": colour,
            "stroke_width": 1.5,
            **dash,
        }
        self._add(svg.Rectangle(left, y - ROW / 2 + 3, right - left, ROW - 6, **box))
        whole = stay.label or (stay.name if stay.look == "exact" else f"{stay.name}, {stay.look}")
        for label in (whole, stay.name, stay.name.split(" ")[0]):
            if right - left > 5.6 * len(label) + 10:
                solid = "#ffffff" if colour in DARK else "#1b1f24"
                own = {"class_": "", "fill": solid} if stay.look == "exact" else {}
                self._text(label, 11, left + 6, y, middle=True, **own)
                break

    def _move(self, move: Move, row: int) -> None:
        y, left, right = self.lanes["transfers"].y(row), self.x(move.begin), self.x(move.end)
        colour = next((c for name, c in self.colour.items() if name.split(" ")[0] == move.name), COLOURS[-1])
        source, target = (self._edge_of(tier, y) for tier in (move.source, move.target))
        middle = (left + right) / 2
        path = svg.Path(
            stroke=colour,
            stroke_width=2.5,
            fill="none",
            **({} if move.end >= 0 else {"stroke_dasharray": "5 3"}),
        )
        path.M(left, source).C(left, y, left + 4, y, middle, y).C(right - 4, y, right, y, right, target)
        self._add(path)
        if move.end >= 0:
            up = 7 if target > y else -7
            self._add(
                svg.Lines(
                    right, target, right - 4.5, target - up, right + 4.5, target - up, close=True, fill=colour
                )
            )
        half = 4.5 + 3.3 * len(move.name)
        self._add(svg.Rectangle(middle - half, y - 9, 2 * half, 18, rx=3, fill=colour, stroke=colour))
        ink = "#ffffff" if colour in DARK else "#1b1f24"
        self._text(move.name, 11, middle, y, middle=True, text_anchor="middle", class_="", fill=ink)

    def _edge_of(self, tier: str, y: float) -> float:
        """The edge of a tier's lane that is nearer to a height."""
        lane = self.lanes.get(tier)
        if lane is None:
            return y
        return lane.top + lane.height - PAD if lane.top < y else lane.top + PAD

    def _place(self, node: int) -> tuple[float, float]:
        act = self.found.act(node)
        return self.x(node), self.lanes[act.actor or act.lane].y()

    def _tie(self, tie: Tie) -> None:
        (x1, y1), (x2, y2) = self._place(tie.first), self._place(tie.then)
        look = "bad" if tie.then == self.found.chain.broke else "tie"
        path = svg.Path(class_=look, stroke_width=1.3, stroke_opacity=0.75)
        lift = 16 if y1 == y2 else 0
        path.M(x1 + 9, y1).C(
            (x1 + x2) / 2, y1 - lift, (x1 + x2) / 2, y2 - lift, x2 - 11, y2 - (3 if lift else 0)
        )
        self._add(path)
        self._add(
            svg.Lines(
                x2 - 9,
                y2,
                x2 - 15,
                y2 - 4,
                x2 - 15,
                y2 + 4,
                close=True,
                class_="badfill" if look == "bad" else "head",
            )
        )

    def _node(self, node: int) -> None:
        act = self.found.act(node)
        x, y = self._place(node)
        bad = node == self.found.chain.broke
        self._add(svg.Circle(x, y, 9, class_="node", stroke_width=1.5))
        if bad:
            self._add(svg.Circle(x, y, 12, class_="bad", stroke_width=2.5))
        number = str(self.found.numbers[node])
        self._text(number, 10, x, y + 0.5, text_anchor="middle", middle=True, font_weight="bold")
        label = " ".join([act.short, *act.pages])
        self._text(label, 10, x, y + 21, text_anchor="middle", class_="halo")

    def _foot(self) -> None:
        for node in self.columns:
            act = self.found.act(node)
            when = f"{self.found.unit} {act.time}" if act.time >= 0 else "at first"
            self._text(
                f"event {act.event}", 10, self.x(node), self.bottom + 16, class_="soft", text_anchor="middle"
            )
            self._text(when, 10, self.x(node), self.bottom + 29, class_="soft", text_anchor="middle")
        for i, line in enumerate(self.caption):
            self._text(line, 11, 16, self.bottom + 52 + 15 * i)


def _wrapped(text: str, most: int) -> Sequence[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def as_svg(found: Explanation) -> str:
    """The figure of an explanation as an SVG document; the same explanation gives the same bytes."""
    return Figure(found).draw()
