"""Scores of systems as sacreBLEU shows them: one line or object, or a table of several systems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from minrisk.evaluation.scoring import Score, SignificanceTest
from minrisk.evaluation.validation import aligned

ScoreFormat = Literal["json", "text", "latex"]
_SIGNIFICANT = 0.05
_LATEX = str.maketrans({
    **{special: f"\\{special}" for special in "_&%#${}"}, "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$"})


@dataclass(frozen=True)
class ScoreColumn:
    """The scores of every system by one metric."""

    metric: str
    signature: str
    scores: dict[str, Score]
    test: SignificanceTest


def show(columns: Sequence[ScoreColumn], format: ScoreFormat, width: int,
         score_only: bool) -> None:
    names = list(columns[0].scores)
    if len(names) > 1:
        {"json": _objects, "text": _table, "latex": _latex}[format](columns, names, width)
    elif format == "json" and not score_only:
        found = [_object(column, width) for column in columns]
        _echo_json(found if len(found) > 1 else found[0])
    else:
        for column in columns:
            (score,) = column.scores.values()
            click.echo(_line(column, _value(score, width, "μ = "), score_only))


def show_sentences(column: ScoreColumn, width: int, score_only: bool) -> None:
    (score,) = column.scores.values()
    for sentence in score.sentences.tolist():
        click.echo(_line(column, f"{sentence:.{width}f}", score_only))


def _line(column: ScoreColumn, value: str, score_only: bool) -> str:
    return value if score_only else f"{column.metric}|{column.signature} = {value}"


def _value(score: Score, width: int, mean: str = "") -> str:
    """The score with its interval, e.g. `51.8 (μ = 51.7 ± 1.2)`."""
    shown = f"{score.value:.{width}f}"
    if score.mean is None:
        return shown
    return f"{shown} ({mean}{score.mean:.{width}f} ± {score.interval:.{width}f})"


def _p_value(score: Score) -> str:
    if score.p_value is None:
        return ""
    return f"(p = {score.p_value:.4f}){'*' * (score.p_value <= _SIGNIFICANT)}"


def _object(column: ScoreColumn, width: int) -> dict[str, Any]:
    (score,) = column.scores.values()
    found: dict[str, Any] = {"name": column.metric, "score": round(score.value, width),
                             "signature": column.signature}
    if score.mean is not None and score.interval is not None:
        found |= {"confidence_mean": round(score.mean, width),
                  "confidence_var": round(score.interval, width),
                  "confidence": _value(score, width, "μ = ").partition("(")[2][:-1]}
    return found | dict(part.partition(":")[::2] for part in column.signature.split("|"))


def _objects(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    """All digits, as sacreBLEU gives them for several systems."""
    _echo_json([
        {"system": name} | {column.metric: _numbers(column, name) for column in columns}
        for name in names
    ])


def _numbers(column: ScoreColumn, system: str) -> dict[str, float | str | None]:
    score = column.scores[system]
    return {"score": score.value, "p_value": score.p_value, "mean": score.mean,
            "ci": score.interval, "test": None if score.p_value is None else column.test}


def _table(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    echo_table([["system", *(column.metric for column in columns)],
                *([_name(name, columns), *_cells(columns, name, width)] for name in names)])
    click.echo()
    if _resampled(columns):
        click.echo("score (μ ± 95% interval of the resamples) and, against the baseline, the "
                   f"p-value of the paired\n{columns[0].test} test; * where it is 0.05 or less: "
                   "then chance is an unlikely reason for the difference.\n")
    for column in columns:
        click.echo(f"{column.metric}|{column.signature}")


def echo_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a bold head."""
    for number, line in enumerate(aligned(rows)):
        click.echo(click.style(line, bold=number == 0))


def _latex(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    rows = [["System", *(column.metric for column in columns)],
            *([_name(name, columns), *_cells(columns, name, width)] for name in names)]
    head, *body = (" & ".join(map(_escape, row)) + r" \\" for row in rows)
    click.echo("\n".join([rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", head,
                          r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]))


def _cells(columns: Sequence[ScoreColumn], name: str, width: int) -> list[str]:
    scores = [column.scores[name] for column in columns]
    return [f"{_value(score, width)} {_p_value(score)}".rstrip() for score in scores]


def _name(name: str, columns: Sequence[ScoreColumn]) -> str:
    is_baseline = _resampled(columns) and name == next(iter(columns[0].scores))
    return f"Baseline: {name}" if is_baseline else name


def _resampled(columns: Sequence[ScoreColumn]) -> bool:
    return any(score.mean is not None for score in columns[0].scores.values())


def _escape(text: str) -> str:
    return text.translate(_LATEX)


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))
