"""Figure 1 and its top-1 version: a row of panels for each utility, one for each dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from methods import AGGREGATION, CONTROL, EXPECTED, N_BY_S
from results import Row

from minrisk.validation import figure as drawn
from minrisk.validation.figure import Curve, Style

_STYLES = {AGGREGATION: drawn.AGGREGATION, N_BY_S: drawn.N_BY_S,
           EXPECTED: drawn.OTHERS[0], CONTROL: drawn.OTHERS[1]}
_COARSE = Style("#777777", ".", "full", ":")
_KINDS = ("png", "svg")


def draw(rows: list[Row], top: int, folder: Path) -> None:
    _draw(rows, "top", f"Top-{top} accuracy", folder / "figure-1")
    _draw(rows, "top1", "Top-1 accuracy", folder / "figure-top-1")


def _draw(rows: list[Row], field: str, label: str, path: Path) -> None:
    utilities, datasets = (_distinct(row[name] for row in rows) for name in ("utility", "dataset"))
    whole = drawn.new_figure(max(5.0, 3.4 * len(datasets)), 2.3 * len(utilities) + 0.6)
    parts = whole.subfigures(len(utilities), 1, squeeze=False)[:, 0]
    fullest = max(parts, key=lambda part: len(_panels(part, rows, field, label, datasets,
                                                      utilities[list(parts).index(part)])))
    drawn.legend(whole, fullest.axes[0])
    for kind in _KINDS:
        drawn.save(whole, f"{path}.{kind}")


def _panels(part: Any, rows: list[Row], field: str, label: str, datasets: list[str],
            utility: str) -> list[Curve]:
    """A utility's panels; returns the curves of the first."""
    part.suptitle(f"Utility metric: {utility}", fontsize=11, fontweight="bold", x=0.01, ha="left")
    panels = part.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
    found: list[Curve] = []
    for axes, dataset in zip(panels, datasets, strict=True):
        own = [row for row in rows if (row["utility"], row["dataset"]) == (utility, dataset)]
        curves = list(_curves(own, field))
        drawn.panel(axes, f"{dataset}, {own[0]['segments']} segments", curves)
        axes.set_xlabel("Effective references (log scale)", fontsize=9)
        found = found or curves
    panels[0].set_ylabel(label, fontsize=9)
    return found


def _curves(rows: list[Row], field: str) -> Iterable[Curve]:
    samples = rows[0]["samples"]
    for name in _distinct(row["curve"] for row in rows):
        points = [(float(row["effective"]), row[field]) for row in rows if row["curve"] == name]
        if name in _STYLES:  # whose limit is standard MBR
            points = [(float(samples), 1.0), *points]
        yield Curve(name, points, _STYLES.get(name, _COARSE))


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
