"""A picture on a card of its own, legible on a light and on a dark page."""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "images"
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d0d7de }
.small { font-size: 11px; fill: #59636e }
.bold { font-weight: 700 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke: #0969da; stroke-width: 2.5 }
.dot, .bar { fill: #0969da }
.quiet { fill: #afb8c1 }
.band { fill: #0969da; opacity: 0.18 }
.rule { stroke: #9a6700; stroke-width: 2; stroke-dasharray: 6 4 }
.rule-text { fill: #9a6700 }
.cell { fill: #0969da }
.frame { fill: none; stroke: #0969da; stroke-width: 2 }
.choice { fill: #0969da; opacity: 0.12 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #3d444d }
  .small { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .line, .frame { stroke: #4493f8 }
  .dot, .bar, .cell, .band, .choice { fill: #4493f8 }
  .quiet { fill: #656c76 }
  .rule { stroke: #d29922 }
  .rule-text { fill: #d29922 }
}
"""


class Card:
    """An SVG picture; elements are added in the order in which they are painted."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = width, height
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
        width, height = self._size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(self._title)}</title>", f"<style>{STYLE}</style>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
            'class="card"/>',
            *self._parts, "</svg>", ""])

    def save(self, name: str) -> None:
        (IMAGES / name).write_text(self.svg(), encoding="utf-8")
