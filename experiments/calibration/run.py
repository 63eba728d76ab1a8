"""Does a calibration say how often answers are right, and does its threshold keep what it says?

    python experiments/calibration/run.py gsm8k.jsonl.xz [other.jsonl.xz]

Each line has the `samples` of a problem (with `logprobs` and `lengths`, if they are known) and its
`gold` answer, a number. minrisk chooses by a vote of the boxed numbers, and by `symbolic`. Maps and
thresholds are fitted on one half of the problems and tested on the other: even and odd ones, and
200 random halves; with a second file, also fitted on the first and tested on the second. Writes
results.json, and the tables of README.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk._core.calibration import SIGNALS
from minrisk.evaluation.calibration import CalibrationReport, brier, calibrated, ece, halves
from minrisk.io.files import Input

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

BOXED = r"\\boxed\{[^}]*?(-?\d[\d,]*(?:\.\d+)?)[^}\d]*\}"
METRICS = {"exact-match": minrisk.ExactMatch(BOXED, numbers=True),
           "symbolic": minrisk.make_metric("symbolic")}
DRAWN = ("confidence.probability", "confidence.share", "confidence.logprob")
HALVES = 200
MAX_ERROR = 0.1
LEVELS = (0.5, 0.8, 0.9)


def main(path: str, other: str | None = None) -> None:
    made: dict[str, Any] = {"question": "how well signals tell right answers from wrong ones, and "
                            "what a calibration on one half is worth on the other",
                            "version": minrisk.__version__, "metrics": {}}
    for name, metric in METRICS.items():
        report = _report(path, metric)
        found = made["metrics"][name] = {
            "problems": report.choices, "right": report.right,
            "signals": {one.name: one.as_json() | {"curve": None} for one in report.signals},
            "bins": [asdict(one) for one in report.bins],
            "curves": {one.name: dict(zip(("answered", "error"),
                                          np.round(np.transpose(one.curve), 4).tolist(),
                                          strict=True))
                       for one in report.signals if one.name in DRAWN},
            "guarantees": [one.as_json() for one in report.guarantees],
            "coverage": minrisk.validate(path, metric, strategies=["standard"]).as_json()[
                "coverage"],
            "random halves": _random_halves(path, metric)}
        if other is not None:
            found["other file"] = _tested(report.calibration, other, metric)
    (HERE / "results.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", tables(made))


def _results(path: str, metric: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    source = Input(path)
    records = [json.loads(source.text(line)) for line in source]
    return records, list(minrisk.decode_corpus(records, metric=metric, confidence=True,
                                               uncertainty=True))


def _report(path: str, metric: Any, **options: Any) -> CalibrationReport:
    return minrisk.calibrate(_results(path, metric)[1], metric=metric, **options)


def _columns(path: str, metric: Any) -> tuple[dict[str, Any], Any]:
    """The signals of all problems in the order of the file, and which are right."""
    records, results = _results(path, metric)
    columns = {name: np.array([signal.value_in(one.ranking) for one in results])
               for name, signal in SIGNALS.items()}
    gold = [rf"\boxed{{{record['gold']}}}" for record in records]
    scores = minrisk.score([one.text for one in results], gold, metric=metric).sentences
    return columns, scores == 1


def _random_halves(path: str, metric: Any) -> dict[str, Any]:
    """Means over random halves, of the default signal and of the share of the vote."""
    columns, right = _columns(path, metric)
    found: dict[str, Any] = {}
    for name in ("confidence.probability", "confidence.share"):
        rows = []
        for seed in range(HALVES):
            order = np.random.default_rng(seed).permutation(right.size)
            one = {name: columns[name][order]}
            report = calibrated(one, right[order], resamples=2)
            [quality] = report.signals
            values = SIGNALS[name].in_order(one[name])
            isotonic, once = _isotonic(values, right[order]), np.ones((1, right.size))
            rows.append([quality.ece.value, quality.brier.value,
                         *(statistic(isotonic, right[order], once)[0]
                           for statistic in (ece, brier))])
        found[name] = dict(zip(("ece", "brier", "isotonic ece", "isotonic brier"),
                               np.mean(rows, axis=0).tolist(), strict=True))
        for level in LEVELS:
            found[name][f"level {level}"] = dict(zip(
                ("answered", "error", "kept"), _kept(columns[name], right, name, level),
                strict=True))
    return found


def _isotonic(values: Any, right: Any) -> Any:
    """The probability of each choice by the isotonic map of the half that it is not in."""
    found = np.empty(right.size)
    for fitted, tested in halves(right.size):
        x, place = np.unique(values[fitted], return_inverse=True)
        steps: list[tuple[float, float]] = []  # right ones and all, of neighbours that are merged
        sizes: list[int] = []
        for ours, size in zip(np.bincount(place, right[fitted]), np.bincount(place), strict=True):
            step, width = (ours, size), 1
            while steps and steps[-1][0] * step[1] >= step[0] * steps[-1][1]:
                before, width = steps.pop(), width + sizes.pop()
                step = (before[0] + step[0], before[1] + step[1])
            steps.append(step)
            sizes.append(width)
        heights = np.repeat([ours / size for ours, size in steps], sizes)
        found[tested] = np.interp(values[tested], x, heights)
    return found


def _kept(values: Any, right: Any, name: str, level: float) -> Iterator[float]:
    """The share that is answered in the other half, the error of all that are, and the share of
    splits with an error of at most 15% of at least 40% that are answered.
    """
    answered = wrong = kept = 0
    for seed in range(HALVES):
        order = np.random.default_rng(seed).permutation(right.size)
        report = calibrated({name: values[order]}, right[order], level=level, resamples=2)
        one = next(g for g in report.guarantees if g.max_error == MAX_ERROR)
        answered += one.answered * right.size
        wrong += (one.error or 0) * one.answered * right.size
        kept += one.answered >= 0.4 and (one.error or 0) <= 0.15
    yield answered / (HALVES * right.size)
    yield wrong / max(answered, 1)
    yield kept / HALVES


def _tested(calibration: minrisk.Calibration, path: str, metric: Any) -> dict[str, Any]:
    """What a calibration of the first file is worth on the second."""
    columns, right = _columns(path, metric)
    values, once = columns[calibration.signal], np.ones((1, right.size))
    probabilities = calibration.probabilities(values)
    threshold = calibration.threshold(MAX_ERROR)
    answered = np.array([calibration.is_answered(value, threshold) for value in values])
    return {"problems": right.size, "ece": float(ece(probabilities, right, once)[0]),
            "brier": float(brier(probabilities, right, once)[0]),
            "answered": float(answered.mean()), "error": float((~right[answered]).mean())}


def tables(made: dict[str, Any]) -> dict[str, str]:
    """The tables of README.md by their names."""
    makers = {"signals": _signals, "thresholds": _thresholds, "coverage": _coverage,
              "halves": _halves}
    return {name: make(made["metrics"]) for name, make in makers.items()}


def _signals(metrics: dict[str, Any]) -> str:
    return pages.table(["choice by", "signal", "AUROC", "AURC", "ECE", "Brier"], [
        [metric, f"`{name}`", *("{value:.3f} ({low:.2f} to {high:.2f})".format(**one[part])
                                for part in ("auroc", "aurc", "ece", "brier"))]
        for metric, found in metrics.items() for name, one in found["signals"].items()])


def _thresholds(metrics: dict[str, Any]) -> str:
    return pages.table(["choice by", "wanted error", "answered", "error"], [
        [metric, f"{one['max_error']:.0%}", f"{one['answered']:.0%}",
         "" if one["error"] is None else f"{one['error']:.1%}"]
        for metric, found in metrics.items() for one in found["guarantees"]])


def _coverage(metrics: dict[str, Any]) -> str:
    found = {metric: own["coverage"] for metric, own in metrics.items()}
    sizes = next(iter(found.values()))["any_of"]
    return pages.table(["choice by", "one sample", "the choice", *(f"any of {k}" for k in sizes)], [
        [metric, *("{value:.1%} ({low:.0%} to {high:.0%})".format(**part)
                   for part in (one["one"], one["chosen"], *one["any_of"].values()))]
        for metric, one in found.items()])


def _halves(metrics: dict[str, Any]) -> str:
    head = ["choice by", "signal", "ECE", "Brier", "of an isotonic map: ECE, Brier",
            *(f"level {level}: answered, error, kept" for level in LEVELS)]
    return pages.table(head, [
        [metric, f"`{name}`", f"{one['ece']:.3f}", f"{one['brier']:.3f}",
         f"{one['isotonic ece']:.3f}, {one['isotonic brier']:.3f}",
         *("{answered:.0%}, {error:.1%}, {kept:.0%}".format(**one[f"level {level}"])
           for level in LEVELS)]
        for metric, found in metrics.items() for name, one in found["random halves"].items()])


if __name__ == "__main__":
    main(*sys.argv[1:])
