"""What the paper says, asked of the rows that were measured here: a number, and yes or no."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import paper
from methods import AGGREGATION, CONTROL, N_BY_S, STANDARD, TO_FINE
from paper import LEXICAL
from results import AVERAGE, BEAM, Results, Row, processor

ENOUGH, LEVEL, FEW, MANY = 0.97, 0.05, 16, 10  # accuracy, p-value, references, times


def claims(results: Results, times: dict[str, Any]) -> Iterator[Row]:
    """Those that can be asked of what there is."""
    trained = [u.name for u in results.settings.utilities if u.name != LEXICAL]
    yield from _lexical(results)
    for utility in trained:
        yield from _trained(results, utility)
    for utility in [u.name for u in results.settings.utilities]:
        yield from _to_fine(results, utility)
    yield from _cost(times)
    for utility in trained:
        yield from _corrected(results, utility)
    yield from _more(results)
    yield from _beam(results)


def _claim(claim: str, paper: str, found: str, holds: bool | None, segments: int) -> Row:
    return {"claim": claim, "paper": paper, "found": found,
            "holds": {True: "yes", False: "no", None: "-"}[holds], "segments": segments,
            "machine": processor()}


def _lexical(results: Results) -> Iterator[Row]:
    at_one = _points(results, LEXICAL, AGGREGATION, 1)
    if at_one:
        lowest = min(row["topk"] for row in at_one)
        yield _claim(f"{LEXICAL}: one aggregate keeps top-{results.settings.top} accuracy at "
                     f"{ENOUGH} or above", paper.span(paper.accuracy(LEXICAL, AGGREGATION, 1, 20)),
                     _each(at_one, "topk"),
                     lowest >= ENOUGH, _segments(at_one))
        rivals = _points(results, LEXICAL, N_BY_S, 1)
        yield _claim(f"{LEXICAL}: aggregation is never less accurate than N-by-S, at any s",
                     "yes", f"at s = 1: {fmean(r['topk'] for r in at_one):.3f} against "
                     f"{fmean(r['topk'] for r in rivals):.3f}",
                     _dominates(results, LEXICAL), _segments(at_one))


def _trained(results: Results, utility: str) -> Iterator[Row]:
    own, lexical = (_points(results, name, AGGREGATION, 1) for name in (utility, LEXICAL))
    if own and lexical:
        lost = fmean(r["topk"] for r in lexical) - fmean(r["topk"] for r in own)
        theirs, least = (paper.accuracy(name, AGGREGATION, 1, 20) for name in (utility, LEXICAL))
        error = 1.96 * math.hypot(*(_standard_error(rows) for rows in (own, lexical)))
        yield _claim(f"{utility} loses more accuracy by one aggregate than {LEXICAL}",
                     f"{paper.span(theirs)}: {fmean(least) - fmean(theirs):.3f} more",
                     f"{_each(own, 'topk')}: {lost:.3f} ± {error:.3f} more",
                     lost > 0 if abs(lost) > error else None, _segments(own))


def _standard_error(rows: list[Row]) -> float:
    """Of a mean accuracy; one more success and failure keep it from being nothing for few."""
    count = _segments(rows)
    share = (fmean(row["topk"] for row in rows) * count + 1) / (count + 2)
    return math.sqrt(share * (1 - share) / (count + 2))


def _to_fine(results: Results, utility: str) -> Iterator[Row]:
    rows = [row for row in _tests(results, utility) if row["method"] == TO_FINE]
    if rows:
        alike = sum(row["p_value"] >= LEVEL for row in rows)
        yield _claim(f"{utility}: aggregate-to-fine with {results.settings.keep} is not "
                     "significantly different from standard MBR, by any judge",
                     "for most judges", f"p >= {LEVEL} for {alike} of {len(rows)} judges, smallest "
                     f"{min(row['p_value'] for row in rows):.3f}", alike == len(rows),
                     rows[0]["segments"])


def _cost(times: dict[str, Any]) -> Iterator[Row]:
    """How many times what aggregation costs: the utility alone, features included."""
    for time in times.values():
        for utility, methods in time["utilities"].items():
            exact, aggregate = (methods["minrisk"][name]["utility_s"]
                                for name in (STANDARD, AGGREGATION))
            yield {**_claim(f"{utility}: standard MBR costs {MANY} times what aggregation does, or "
                            "more", paper.cost(utility), f"{exact / aggregate:.1f} times",
                            exact / aggregate >= MANY, time["segments"]),
                   "machine": time["machine"]["name"]}


def _corrected(results: Results, utility: str) -> Iterator[Row]:
    curves = {name: _points(results, utility, name, FEW) for name in
              (CONTROL, N_BY_S, AGGREGATION)}
    if all(curves.values()):
        means = {name: fmean(row["top1"] for row in rows) for name, rows in curves.items()}
        yield _claim(f"{utility}: at {FEW} references a control variate finds the exact choice "
                     "more often than the paper's methods do", "(ours)",
                     ", ".join(f"{name} {value:.3f}" for name, value in means.items()),
                     means[CONTROL] > max(means[N_BY_S], means[AGGREGATION]),
                     _segments(curves[CONTROL]))


def _more(results: Results) -> Iterator[Row]:
    judge = next(iter(results.settings.judges))
    for row in results.more_samples:
        if row["method"] == STANDARD and row["judge"] == judge:
            yield _claim(f"{row['utility']}: {row['samples']} samples improve standard MBR "
                         f"({judge})", paper.gain(row["utility"]),
                         f"{row['before']:.2f} to {row['after']:.2f}, p = {row['p_value']:.3f}",
                         row["difference"] > 0 and row["p_value"] < LEVEL, row["segments"])


def _beam(results: Results) -> Iterator[Row]:
    for utility in results.settings.utilities:
        rows = [r for r in _tests(results, utility.name) if r["method"] == BEAM]
        if rows:
            better = sum(r["difference"] < 0 and r["p_value"] < LEVEL for r in rows)
            yield _claim(f"standard MBR by {utility.name} is significantly better than beam "
                         "search, by judges other than itself", "yes, by BLEURT-20",
                         f"by {better} of {len(rows)}", better == len(rows), rows[0]["segments"])


def _tests(results: Results, utility: str) -> list[Row]:
    """Of all segments with the most samples, by judges that are not the utility."""
    most = max(results.settings.samples)
    return [row for row in results.quality
            if (row["utility"], row["samples"], row["dataset"]) == (utility, most, AVERAGE)
            and row["judge"] != utility]


def _points(results: Results, utility: str, curve: str, effective: int) -> list[Row]:
    return [row for row in results.accuracy
            if (row["utility"], row["curve"], row["effective"]) == (utility, curve, effective)]


def _dominates(results: Results, utility: str) -> bool:
    own, rival = ({(row["dataset"], row["effective"]): row["topk"] for row in results.accuracy
                   if (row["utility"], row["curve"]) == (utility, curve)}
                  for curve in (AGGREGATION, N_BY_S))
    return all(own[place] >= rival[place] for place in own)


def _each(rows: list[Row], field: str) -> str:
    return ", ".join(f"{row[field]:.3f} ({row['dataset']})" for row in rows)


def _segments(rows: list[Row]) -> int:
    return sum(row["segments"] for row in rows)
