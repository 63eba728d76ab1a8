"""The page of `minrisk calibrate`: figures and tables in one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from minrisk.evaluation.calibration import CalibrationReport, Guarantee, SignalQuality
from minrisk.report.page import asset, escaped, policy
from minrisk.version import __version__

_COLOURS = 8  # of curves, in the style of all pages
_SIZE, _EDGE = 300, 44  # pixels of a figure and of the room for its labels
_STYLE = """
html, body { height: auto; }
body { display: block; }
main { max-width: 62rem; margin: auto; padding: 1rem 1.25rem 3rem; }
section { margin-top: 1.75rem; }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; }
.scroll { overflow-x: auto; }
svg { width: 344px; max-width: 100%; height: auto; font-size: 11px; fill: var(--soft); }
svg .axis { stroke: var(--line); fill: none; }
svg .even { stroke: var(--soft); stroke-dasharray: 3 3; }
svg polyline { fill: none; stroke-width: 1.25; }
svg .main { stroke-width: 2.5; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.main td { font-weight: 650; }
.key { list-style: none; font-size: .85rem; }
.key span { display: inline-block; width: 1.2rem; height: .25rem; margin-inline-end: .4rem; }
""" + "".join(
    f"svg .c{n} {{ stroke: var(--c{n}); }} .key .c{n} {{ background: var(--c{n}); }}\n"
    for n in range(_COLOURS))


def calibration_page(report: CalibrationReport, title: str) -> str:
    """The page: a reliability diagram, risk-coverage curves, the signals and the thresholds."""
    style = asset("style.css") + _STYLE
    curves = report.distinct_signals(_COLOURS)
    calibration = report.calibration
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy(style, ""))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escaped(title)} · minrisk calibrate</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header class="top"><div class="title"><h1>{escaped(title)}</h1>
<p>{report.choices} choices, {report.right:.1%} of them right; calibrated by
{escaped(calibration.signal)}{f"; {report.left_out} failed" if report.left_out else ""}</p></div>
</header>
<main>
<section class="figures">
<figure><h2>Reliability</h2>{_reliability(report)}
<figcaption class="note">Share of right choices by probability, with 95% intervals,<br>
of a map fitted on the other half</figcaption></figure>
<figure><h2>Risk and coverage</h2>{_risk(report, curves)}
<ul class="key">{"".join(_key(n, one) for n, one in enumerate(curves))}</ul></figure>
</section>
<section><h2>Signals</h2><div class="scroll">{_signals(report)}</div>
<p class="note">AUROC: probability that a right choice has the higher signal. AURC: area under the
risk-coverage curve. ECE and Brier: of a map fitted on the other half. 95% intervals.</p></section>
<section><h2>Thresholds</h2><div class="scroll">{_guarantees(report.guarantees)}</div>
<p class="note">Answered and error: in the half of the choices that did not set the threshold. The
error is at most the target with a probability of {calibration.level:.4g}.</p></section>
<section><p class="note">minrisk {__version__}{_made(calibration.signature)}</p></section>
</main>
</body>
</html>
"""


def _made(signature: str | None) -> str:
    return "" if signature is None else f" · choices by <code>{escaped(signature)}</code>"


def _at(x: float, y: float) -> tuple[float, float]:
    """Pixels of a point between 0 and 1."""
    return round(_EDGE + x * _SIZE, 1), round(_SIZE - y * _SIZE + 10, 1)


def _figure(across: str, label: str, content: str) -> str:
    """A square from 0 to 1 on both sides."""
    left, bottom = _at(0, 0)
    lines = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _at(tick, tick)
        lines.append(f'<path class="axis" d="M{left} {y}h{_SIZE}M{x} {bottom}v{-_SIZE}"/>'
                     f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{tick:.0%}</text>'
                     f'<text x="{x}" y="{bottom + 15}" text-anchor="middle">{tick:.0%}</text>')
    middle = left + _SIZE / 2
    return (f'<svg viewBox="0 0 {_SIZE + _EDGE + 20} {_SIZE + _EDGE + 10}" role="img" '
            f'aria-label="{escape(label)}">{"".join(lines)}{content}'
            f'<text x="{middle}" y="{bottom + 32}" text-anchor="middle">{across}</text></svg>')


def _reliability(report: CalibrationReport) -> str:
    (x, y), (end, top) = _at(0, 0), _at(1, 1)
    marks = [f'<path class="even" d="M{x} {y}L{end} {top}"/>']
    for group in report.bins:
        x, y = _at(group.probability, group.right.value)
        low, high = (_at(0, value)[1] for value in (group.right.low, group.right.high))
        marks.append(f'<path class="c0 main" d="M{x} {low}V{high}" opacity="0.4"/>'
                     f'<circle class="c0" cx="{x}" cy="{y}" r="4"><title>{group.probability:.0%}: '
                     f'{group.right.value:.0%} right</title></circle>')
    return _figure("probability", "Share of right choices, by probability", "".join(marks))


def _risk(report: CalibrationReport, curves: Sequence[SignalQuality]) -> str:
    lines = []
    for number, one in enumerate(curves):
        points = " ".join("{},{}".format(*_at(*point)) for point in one.curve)
        main = " main" if one.name == report.calibration.signal else ""
        lines.append(f'<polyline class="c{number}{main}" points="{points}"/>')
    return _figure("share that is answered", "Share of wrong choices, by what is answered",
                   "".join(reversed(lines)))


def _key(number: int, one: SignalQuality) -> str:
    return f'<li><span class="c{number}"></span>{escaped(one.name)}</li>'


def _signals(report: CalibrationReport) -> str:
    def rows() -> Iterator[str]:
        for one in report.signals:
            main = ' class="main"' if one.name == report.calibration.signal else ""
            cells = [escaped(one.name), *map(str, (one.auroc, one.aurc, one.ece, one.brier)),
                     str(one.missing)]
            yield f"<tr{main}>{_cells(cells)}</tr>"

    return _table(("signal", "AUROC", "AURC", "ECE", "Brier", "without it"), rows())


def _guarantees(guarantees: Iterable[Guarantee]) -> str:
    def rows() -> Iterator[str]:
        for one in guarantees:
            yield "<tr>" + _cells([
                f"{one.max_error:.0%}",
                "none" if one.threshold is None else f"{one.threshold:.4g}",
                f"{one.answered:.0%}", "" if one.error is None else f"{one.error:.1%}"]) + "</tr>"

    return _table(("target error", "threshold", "answered", "error"), rows())


def _cells(texts: Iterable[str]) -> str:
    return "".join(f'<td class="number">{text}</td>' for text in texts)


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    names = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
