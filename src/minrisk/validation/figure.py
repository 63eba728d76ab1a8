"""Accuracy over the number of effective references: the paper's Figure 1 for one's own samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from minrisk.errors import InputError, MissingExtra
from minrisk.io.files import told
from minrisk.validation.study import Study
from minrisk.validation.summary import Row, Summary

_KINDS = (".png", ".svg", ".pdf")
_STYLES = {"aggregate": ("#0028a5", "o", "full"), "n-by-s": ("#dc6027", "o", "none")}  # the paper's
_COLOURS = ("#2a7f62", "#91328f", "#8a6d00", "#0f9bd7", "#b3261e", "#5b5b5b", "#6a8f00")
_MARKERS = "s^Dv<>P"


def check_figure(path: str) -> None:
    """Before hours of work, not after them."""
    if Path(path).suffix not in _KINDS:
        raise InputError(f"--plot {path}: wanted a name that ends in {', '.join(_KINDS)}")
    _figure_class()


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plots need matplotlib: pip install 'minrisk[plot]'") from None
    return Figure


def draw(summary: Summary, study: Study, path: str) -> None:
    figure = _figure_class()(figsize=(9.6, 4.2), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    panels = figure.subplots(1, 2, sharey=True)
    _panel(panels[0], summary, "Top-1 accuracy", lambda row: row.first)
    _panel(panels[1], summary, f"Top-{study.top} accuracy", lambda row: row.among)
    figure.suptitle(f"Accuracy of efficiency methods with {study.metric.name} as utility metric "
                    f"({summary.segments} segments)", fontsize=11, fontweight="bold", y=1.04)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=9)
    with told("write", path):
        figure.savefig(path, dpi=200, bbox_inches="tight")


def _panel(axes: Any, summary: Summary, title: str, accuracy: Callable[[Row], float]) -> None:
    for style, (name, rows) in zip(_styles(summary), _curves(summary), strict=True):
        colour, marker, fill = style
        axes.plot([_effective(row, summary) for row in rows],
                  [100 * accuracy(row) for row in rows], label=name, color=colour, marker=marker,
                  fillstyle=fill, markersize=5, linewidth=1.4, clip_on=False, zorder=3)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("Effective references: pairs per hypothesis (log scale)", fontsize=9)
    _axis(axes, summary)


def _curves(summary: Summary) -> Iterator[tuple[str, list[Row]]]:
    """Each strategy's trials; all that approach standard MBR begin with it."""
    for name, found in groupby(summary.rows[1:], key=lambda row: row.trial.strategy):
        rows = list(found)
        yield name, [summary.exact, *rows] if rows[0].trial.of else rows


def _styles(summary: Summary) -> Iterator[tuple[str, str, str]]:
    spare = iter(zip(_COLOURS, _MARKERS, strict=True))
    for name, _ in _curves(summary):
        yield _STYLES.get(name) or (*next(spare, ("#888888", "x")), "full")


def _effective(row: Row, summary: Summary) -> float:
    """Pairs per hypothesis; who needs no pair stands with those who need one."""
    hypotheses = summary.exact.pairs / summary.references
    return max(1.0, row.pairs / hypotheses)


def _axis(axes: Any, summary: Summary) -> None:
    most = max(_effective(row, summary) for row in summary.rows)
    ticks = [2.0**i for i in range(64) if 2.0**i <= most]
    axes.set_xscale("log", base=2)
    axes.set_xlim(most * 1.15, 1 / 1.15)  # as in the paper, from all references to one
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_yticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    axes.tick_params(labelsize=9)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
