"""Draws the packages of minrisk, who imports whom, and the way of a segment through them.

usage: python tools/packages.py      writes docs/images/packages.svg, as `make names` does

A package stands above those that it imports when it is loaded. An arrow is left out where others
lead to the same package. tests/test_imports.py says when the figure is old.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "minrisk"
FIGURE = ROOT / "docs" / "images" / "packages.svg"
# the way of a segment of `minrisk decode`
WAY = {"cli": "options", "tasks": "the job", "run": "blocks of records", "io": "read, written",
       "strategies": "who meets whom", "metrics": "features, scores", "_native": "n-grams"}
WIDTH, HEIGHT, GAP, MARGIN = 150, 44, 24, 20
STYLE = """\
text { font: 14px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
.role { font-size: 11px; fill: #59636e }
rect { fill: #f6f8fa; stroke: #818b98 } .way { fill: #ddf4ff; stroke: #0969da }
path { fill: none; stroke: #818b98; marker-end: url(#head) }
#head path { fill: #818b98; marker: none }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .role { fill: #9198a1 } rect { fill: #151b23; stroke: #656c76 }
.way { fill: #0c2d6b; stroke: #4493f8 } }"""


def main() -> None:
    FIGURE.write_text(figure(), encoding="utf-8")


def imports() -> dict[str, set[str]]:
    """The packages that each package imports when it is loaded."""
    names = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    found: dict[str, set[str]] = {name: set() for name in names if name != "data"} | {
        "_native": set()}
    for name in found:
        for path in (SOURCE / name).rglob("*.py"):
            found[name] |= set(_imported(path)) & found.keys() - {name}
        if name == "metrics":
            found[name].add("_native")  # which is imported by its name, where it could be built
    return found


def _imported(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("minrisk."):
            yield node.module.split(".")[1]


def figure() -> str:
    graph = imports()
    above = {name: [one for one in graph if name in graph[one]] for name in graph}
    rows = _rows(graph, above)
    widest = max(map(len, rows))
    place: dict[str, tuple[float, float]] = {}
    for number, names in enumerate(rows):
        names.sort(key=lambda name: (fmean(place[one][0] for one in above[name])
                                     if above[name] else 0, name))
        left = MARGIN + (widest - len(names)) * (WIDTH + GAP) / 2
        place |= {name: (left + i * (WIDTH + GAP), MARGIN + number * (HEIGHT + 2 * GAP))
                  for i, name in enumerate(names)}
    size = (2 * MARGIN + widest * (WIDTH + GAP) - GAP,
            2 * MARGIN + len(rows) * (HEIGHT + 2 * GAP) - 2 * GAP)
    arrows = [_arrow(place[one], place[other]) for one in graph
              for other in sorted(_direct(one, graph))]
    boxes = [_box(name, *place[name]) for name in graph]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:g} {size[1]:g}">',
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z"/></marker>', *arrows, *boxes, "</svg>", ""])


def _rows(graph: Mapping[str, set[str]], above: Mapping[str, list[str]]) -> list[list[str]]:
    """The packages from the top; what imports nothing stands right below those that import it."""
    @cache
    def height(name: str) -> int:
        return 1 + max(map(height, graph[name]), default=0)

    level = {name: height(name) if graph[name] else min(map(height, above[name])) - 1
             for name in graph}
    return [[name for name in graph if level[name] == number]
            for number in range(max(level.values()), 0, -1)]


def _direct(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    """The imports that no other import leads to."""
    @cache
    def reach(one: str) -> frozenset[str]:
        return frozenset(graph[one]).union(*map(reach, graph[one]))

    return {other for other in graph[name]
            if not any(other in reach(third) for third in graph[name])}


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to, under) = start, end
    x, to, y = x + WIDTH / 2, to + WIDTH / 2, y + HEIGHT
    return (f'<path d="M{x:g} {y:g}C{x:g} {y + GAP:g} {to:g} {y + GAP:g} {to:g} {y + 2 * GAP - 9:g}'
            f'L{to:g} {under:g}"/>')


def _box(name: str, x: float, y: float) -> str:
    role, middle = WAY.get(name), x + WIDTH / 2
    box = (f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"'
           f'{" class=" + chr(34) + "way" + chr(34) if role else ""}/>')
    if not role:
        return f'{box}<text x="{middle:g}" y="{y + 27:g}">{name}</text>'
    step = 1 + list(WAY).index(name)
    return (f'{box}<text x="{middle:g}" y="{y + 19:g}">{name}</text>'
            f'<text class="role" x="{middle:g}" y="{y + 35:g}">{step}. {role}</text>')


if __name__ == "__main__":
    main()
