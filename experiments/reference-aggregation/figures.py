"""Figure 1 and its top-1 version: a row of panels for each utility, one for each dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from methods import AGGREGATION, CONTROL, EXPECTED, N_BY_S
from results import Row

from minrisk.evaluation import figure as drawn
from minrisk.evaluation.figure import Curve, Style

_STYLES = {AGGREGATION: drawn.AGGREGATION, N_BY_S: drawn.N_BY_S,
           EXPECTED: drawn.OTHERS[0], CONTROL: drawn.OTHERS[1]}
_COARSE = Style("#777777", ".", "full", ":")
_KINDS = ("png", "svg")


def draw(rows: list[Row], top: int, folder: Path) -> None:
    _draw(rows, "topk", f"Top-{top} accuracy", folder / "figure-1")
    _draw(rows, "top1", "Top-1 accuracy", folder / "figure-top-1")


def _draw(rows: list[Row], field: str, label: str, path: Path) -> None:
    utilities, datasets = (_distinct(row[name] for row in rows) for name in ("utility", "dataset"))
    whole = drawn.new_figure(max(5.0, 4.4 * len(datasets)), 2.4 * len(utilities) + 0.6)
    parts = whole.subfigures(len(utilities), 1, squeeze=False)[:, 0]
    for part, utility in zip(parts, utilities, strict=True):
        own = [row for row in rows if row["utility"] == utility]
        part.suptitle(f"Utility metric: {utility}", fontsize=11, fontweight="bold", x=0.01,
                      ha="left")
        _panels(part.subplots(1, len(datasets), sharey=True, squeeze=False)[0], own, field, label,
                datasets)
    drawn.legend(whole)
    for kind in _KINDS:
        drawn.save(whole, f"{path}.{kind}")


def _panels(panels: Any, rows: list[Row], field: str, label: str, datasets: list[str]) -> None:
    for axes, dataset in zip(panels, datasets, strict=True):
        own = [row for row in rows if row["dataset"] == dataset]
        drawn.panel(axes, f"{dataset}, {own[0]['segments']} segments", _curves(own, field))
        axes.set_xlabel("Effective references (log scale)", fontsize=9)
    panels[0].set_ylabel(label, fontsize=9)


def _curves(rows: list[Row], field: str) -> Iterable[Curve]:
    samples, names = rows[0]["samples"], _distinct(row["curve"] for row in rows)
    for name in sorted(names, key=lambda name: [*_STYLES, name].index(name)):
        own = [row for row in rows if row["curve"] == name]
        points = [(float(row["effective"]), row[field]) for row in own]
        intervals = [(row[f"{field}_low"], row[f"{field}_high"]) for row in own]
        if name in _STYLES:  # whose limit is standard MBR
            points, intervals = [(float(samples), 1.0), *points], [(1.0, 1.0), *intervals]
        yield Curve(name, points, _STYLES.get(name, _COARSE), intervals)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
