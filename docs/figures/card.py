"""A picture on a card of its own, legible on a light and on a dark page, and 420 pixels wide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH = 440  # a phone shows this nearly at its own size
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d0d7de }
.small { font-size: 12px; fill: #59636e }
.bold { font-weight: 700 }
.label { font-size: 12px }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke: #0969da; stroke-width: 2.5 }
.other { stroke: #9a6700 }
.third { stroke: #818b98 }
.dashed { stroke-dasharray: 5 4 }
.dot, .bar { fill: #0969da }
.quiet { fill: #afb8c1 }
.band { fill: #0969da; opacity: 0.18 }
.rule { fill: none; stroke: #9a6700; stroke-width: 2; stroke-dasharray: 6 4 }
.rule-text { fill: #9a6700 }
.line-text { fill: #0969da }
.cell { fill: #0969da }
.frame { fill: none; stroke: #0969da; stroke-width: 2 }
.choice { fill: #0969da; opacity: 0.12 }
.box { fill: #f6f8fa; stroke: #818b98 }
.way { fill: #ddf4ff; stroke: #0969da }
.arrow { fill: none; stroke: #818b98 }
.head { fill: #818b98 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #3d444d }
  .small { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .line, .frame { stroke: #4493f8 }
  .dot, .bar, .cell, .band, .choice, .line-text { fill: #4493f8 }
  .quiet { fill: #656c76 }
  .rule, .other { stroke: #d29922 }
  .rule-text { fill: #d29922 }
  .third { stroke: #9198a1 }
  .box { fill: #151b23; stroke: #656c76 }
  .way { fill: #0c2d6b; stroke: #4493f8 }
}
"""


class Card:
    """An SVG picture; elements are added in the order in which they are painted."""

    def __init__(self, height: int, title: str) -> None:
        self._height = height
        self._title = title
        self._parts: list[str] = []

    def add(self, element: str) -> None:
        self._parts.append(element)

    def text(self, x: float, y: float, content: str, kind: str = "") -> None:
        self.add(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(content)}</text>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str,
             opacity: float | None = None) -> None:
        shade = "" if opacity is None else f' opacity="{opacity:.2f}"'
        self.add(f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="2" '
                 f'class="{kind}"{shade}/>')

    def svg(self) -> str:
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'width="{WIDTH}" height="{self._height}" role="img">',
            f"<title>{escape(self._title)}</title>", f"<style>{STYLE}</style>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self._height - 1}" rx="8" '
            'class="card"/>',
            *self._parts, "</svg>", ""])

    def save(self, name: str) -> None:
        (IMAGES / name).write_text(self.svg(), encoding="utf-8")


@dataclass(frozen=True)
class Axis:
    """From a value to a share of the axis, with labels at some values."""

    low: float
    high: float
    labels: Mapping[float, str]
    log: bool = False

    def share(self, value: float) -> float:
        low, high, at = ((math.log(x) for x in (self.low, self.high, value)) if self.log
                         else (self.low, self.high, value))
        return (at - low) / (high - low)


def shares() -> Axis:
    """An axis from 0 to 1."""
    return Axis(0, 1, {tenth / 10: f"{tenth / 10:g}" for tenth in range(0, 11, 2)})


@dataclass(frozen=True)
class Plot:
    """Axes on a card, and what is drawn between them, by its values."""

    card: Card
    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis

    def axes(self, name: str) -> None:
        """The grid, the labels, and the name of the horizontal axis."""
        for value, label in self.y.labels.items():
            x, y = self.at(self.x.low, value)
            self.card.add(f'<path d="M{x:.1f} {y:.1f}h{self.width}" class="grid"/>')
            self.card.text(self.left - 6, round(y, 1) + 4, label, "small end")
        under = self.top + self.height
        for value, label in self.x.labels.items():
            self.card.text(round(self.at(value, self.y.low)[0], 1), under + 17, label,
                           "small middle")
        self.card.text(self.left + self.width / 2, under + 35, name, "small middle")

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (self.left + self.width * self.x.share(x),
                self.top + self.height * (1 - self.y.share(y)))

    def line(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        self.card.add(f'<path d="{self._path(points)}" class="{kind}"/>')

    def band(self, lower: Sequence[tuple[float, float]],
             upper: Sequence[tuple[float, float]]) -> None:
        self.card.add(f'<path d="{self._path([*upper, *reversed(lower)])}Z" class="band"/>')

    def dot(self, x: float, y: float, radius: float, kind: str = "dot") -> None:
        x, y = self.at(x, y)
        self.card.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>')

    def interval(self, x: float, low: float, high: float) -> None:
        self.line([(x, low), (x, high)], "frame")

    def _path(self, points: Iterable[tuple[float, float]]) -> str:
        return "M" + " L".join("{:.1f} {:.1f}".format(*self.at(*point)) for point in points)
