"""Draws the packages of minrisk, who imports whom, and the way of a segment through them.

usage: python tools/packages.py      writes docs/images/packages.svg, as `make names` does

A package stands above those that it imports when it is loaded. An arrow is left out where others
lead to the same package. tests/test_imports.py says when the figure is old.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "minrisk"
sys.path.append(str(ROOT / "docs" / "figures"))

from card import WIDTH as CARD  # noqa: E402
from card import Card  # noqa: E402

FIGURE = ROOT / "docs" / "images" / "packages.svg"
# the way of a segment of `minrisk decode`
WAY = {"cli": "reads the options", "tasks": "sets up the run", "run": "batches the records",
       "io": "reads and writes them", "strategies": "selects the pairs to score",
       "metrics": "extracts features, scores pairs", "_native": "the same for n-grams, in C++"}
BOX, HEIGHT, GAP, MARGIN = 80, 26, 4, 14
ROW = 54  # from one row of boxes to the next
LEGEND = "What minrisk decode does with a segment:"


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
    under = 56 + ROW * len(rows)
    card = Card(under + 18 * (1 + len(WAY)), "The packages of minrisk")
    card.text(MARGIN, 26, "The packages of minrisk, above those that they import", "bold")
    place: dict[str, tuple[float, float]] = {}
    for number, names in enumerate(rows):
        names.sort(key=lambda name: (fmean(place[one][0] for one in above[name])
                                     if above[name] else 0, name))
        left = (CARD - len(names) * (BOX + GAP) + GAP) / 2
        place |= {name: (left + i * (BOX + GAP), 46 + number * ROW)
                  for i, name in enumerate(names)}
    for one in graph:
        for other in sorted(_direct(one, graph)):
            _arrow(card, place[one], place[other])
    for name in graph:
        _box(card, name, *place[name])
    card.text(MARGIN, under, LEGEND, "small")
    for number, (name, role) in enumerate(WAY.items(), 1):
        card.text(MARGIN, under + 18 * number, f"{number}. {name}: {role}", "small")
    return card.svg()


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


def _arrow(card: Card, start: tuple[float, float], end: tuple[float, float]) -> None:
    (x, y), (to, under) = start, end
    x, to, y, bend = x + BOX / 2, to + BOX / 2, y + HEIGHT, (ROW - HEIGHT) / 2
    card.add(f'<path d="M{x:g} {y:g}C{x:g} {y + bend:g} {to:g} {y + bend:g} {to:g} '
             f'{y + 2 * bend - 5:g}L{to:g} {under:g}" class="arrow"/>')
    card.add(f'<path d="M{to:g} {under:g}l-4 -7h8z" class="head"/>')


def _box(card: Card, name: str, x: float, y: float) -> None:
    card.rect(x, y, BOX, HEIGHT, "way" if name in WAY else "box")
    step = f"{1 + list(WAY).index(name)}. " if name in WAY else ""
    card.text(x + BOX / 2, y + 18, step + name, "label middle")


if __name__ == "__main__":
    main()
