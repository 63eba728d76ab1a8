"""Plots of accuracy against the number of effective references, like Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, NamedTuple

from minrisk._core.errors import InputError, needs_extra
from minrisk.evaluation.calibration import CalibrationReport
from minrisk.evaluation.study import Study
from minrisk.evaluation.validation import TrialSummary, Validation
from minrisk.io.store import write_whole

_KINDS = (".png", ".svg", ".pdf")
_WITHOUT_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


class Style(NamedTuple):
    """Colour, marker and line of a curve; curves differ in all three, to be legible in grey."""

    colour: str
    marker: str
    fill: str = "full"
    line: str = "-"


AGGREGATION = Style("#0028a5", "o")  # as in the paper
N_BY_S = Style("#dc6027", "o", "none")
OTHERS = (Style("#2a7f62", "s", "full", "--"), Style("#91328f", "^", "none", "-."),
          Style("#8a6d00", "D", "full", ":"), Style("#0f9bd7", "v", "none", "--"),
          Style("#b3261e", "<", "full", "-."), Style("#5b5b5b", ">", "none", ":"),
          Style("#6a8f00", "P", "full", "--"))
_LAST = Style("#888888", "x")
_MAX_SIGNALS = 6  # signals with a curve in the figure of a calibration
_STYLES = {"aggregate": AGGREGATION, "n-by-s": N_BY_S}


@dataclass(frozen=True)
class Curve:
    """A method's accuracy at several numbers of effective references."""

    name: str
    points: list[tuple[float, float]]
    style: Style
    intervals: list[tuple[float, float]] = field(default_factory=list)  # one per point, or none


def check_figure(path: str) -> None:
    """Check the file type and that matplotlib is installed, before any work is done."""
    if Path(path).suffix not in _KINDS:
        raise InputError(f"cannot plot to {path}: the name must end in {', '.join(_KINDS)}")
    _figure_class()


def _figure_class() -> Any:
    with needs_extra("a plot", "plot"):
        from matplotlib.figure import Figure
    return Figure


def plot(summary: Validation, study: Study, path: str) -> None:
    figure = new_figure(9.6, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    panel(panels[0], "Top-1 accuracy", _curves(summary, lambda row: row.first))
    panel(panels[1], f"Top-{study.top} accuracy", _curves(summary, lambda row: row.among))
    for axes in panels:
        axes.set_xlabel("Effective references: pairs per hypothesis (log scale)", fontsize=9)
    figure.suptitle(f"Accuracy of efficiency methods with {study.metric.name} as utility metric "
                    f"({summary.segments} segments)", fontsize=11, fontweight="bold", y=1.04)
    legend(figure)
    save(figure, path)


def plot_calibration(report: CalibrationReport, path: str) -> None:
    """Plot a reliability diagram, and risk-coverage curves of signals."""
    figure = new_figure(8.4, 3.6)
    reliability, risk = figure.subplots(1, 2)
    colour = AGGREGATION.colour
    reliability.plot([0, 1], [0, 1], color="#888888", linewidth=0.8, zorder=2)
    for group in report.bins:
        reliability.plot([group.probability] * 2, [group.right.low, group.right.high],
                         color=colour, linewidth=1.4, alpha=0.4, zorder=3)
    reliability.plot([group.probability for group in report.bins],
                     [group.right.value for group in report.bins], color=colour, marker="o",
                     linestyle="none", markersize=5, zorder=4)
    _shares(reliability, "Share of right choices, by probability", "probability")
    styles = [AGGREGATION, N_BY_S, *OTHERS]
    for signal, style in zip(report.distinct_signals(_MAX_SIGNALS), styles, strict=False):
        places, errors = zip(*signal.curve, strict=True)
        risk.plot(places, errors, label=signal.name, color=style.colour, linestyle=style.line,
                  linewidth=2.0 if signal.name == report.calibration.signal else 1.0, zorder=3)
    _shares(risk, "Share of wrong choices, by what is answered", "share that is answered")
    legend(figure)
    save(figure, path)


def _shares(axes: Any, title: str, label: str) -> None:
    """Style axes from 0 to 1 on both sides."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(label, fontsize=9)
    for side in (axes.set_xlim, axes.set_ylim):
        side(0, 1)
    _style(axes)


def new_figure(width: float, height: float) -> Any:
    figure = _figure_class()(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    return figure


def panel(axes: Any, title: str, curves: Iterable[Curve]) -> None:
    """Plot the curves of one panel."""
    curves = list(curves)
    for curve in curves:
        colour, marker, fill, line = curve.style
        places, accuracies = zip(*curve.points, strict=True)
        axes.plot(places, [100 * accuracy for accuracy in accuracies], label=curve.name,
                  color=colour, marker=marker, fillstyle=fill, linestyle=line, markersize=5,
                  linewidth=1.4, clip_on=False, zorder=3)
        if curve.intervals:
            low, high = zip(*curve.intervals, strict=True)
            axes.fill_between(places, [100 * value for value in low],
                              [100 * value for value in high], color=colour, alpha=0.1,
                              linewidth=0, zorder=2)
    axes.set_title(title, fontsize=10)
    _axis(axes, max(place for curve in curves for place, _ in curve.points))


def legend(figure: Any) -> None:
    """One legend below all panels."""
    parts = [axes.get_legend_handles_labels() for axes in figure.get_axes()]
    shown = {label: handle for part in parts for handle, label in zip(*part, strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=5,
                  frameon=False, fontsize=9)


def save(figure: Any, path: str) -> None:
    """Write the figure without dates and random identifiers, so that files are reproducible."""
    import matplotlib

    content, suffix = BytesIO(), Path(path).suffix
    with matplotlib.rc_context({"svg.hashsalt": "minrisk"}):
        figure.savefig(content, format=suffix[1:], dpi=200, bbox_inches="tight",
                       metadata=_WITHOUT_DATE.get(suffix))
    write_whole(path, [content.getvalue()])


def _curves(summary: Validation, accuracy: Callable[[TrialSummary], float]) -> Iterator[Curve]:
    """One curve per strategy; if its budgets are shares of the whole, it starts at standard MBR."""
    spare = chain(OTHERS, repeat(_LAST))
    for name, group in groupby(summary.rows[1:], key=lambda row: row.trial.strategy):
        rows = list(group)
        rows = [summary.exact, *rows] if rows[0].trial.of else rows
        yield Curve(name, [(_effective(row, summary), accuracy(row)) for row in rows],
                    _STYLES.get(name) or next(spare))


def _effective(row: TrialSummary, summary: Validation) -> float:
    """Pairs per hypothesis; strategies without pairs are plotted at 1, the end of the axis."""
    hypotheses = summary.exact.pairs / summary.references
    return max(1.0, row.pairs / hypotheses)


def _axis(axes: Any, most: float) -> None:
    ticks = [2.0**i for i in range(64) if 2.0**i <= most]
    axes.set_xscale("log", base=2)
    axes.set_xlim(most * 1.15, 1 / 1.15)  # descending, as in the paper
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_yticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    _style(axes)


def _style(axes: Any) -> None:
    axes.tick_params(labelsize=9)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
