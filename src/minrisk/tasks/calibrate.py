"""`calibrate` and `minrisk.calibrate`: a calibration from choices known to be right or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from minrisk._core.adapters import as_metric
from minrisk._core.calibration import SIGNALS
from minrisk._core.decoding import MetricLike, make_metric
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, flag
from minrisk._core.signature import choice_settings, choose_alike, join
from minrisk.evaluation.calibration import CalibrationReport, calibrated
from minrisk.evaluation.coverage import GOLD, golds_of
from minrisk.evaluation.metric_bias import origin_of
from minrisk.evaluation.scoring import score
from minrisk.io.segments import output_fields, show
from minrisk.io.text import FilePath
from minrisk.tasks.corpus import segments_of
from minrisk.tasks.results import DecodedSegment

Results = FilePath | Iterable[DecodedSegment | Mapping[str, Any] | FilePath]


@dataclass(frozen=True)
class CalibrateOptions(Options):
    """How choices are judged right or wrong, and which signal is calibrated."""

    gold: str = flag(
        GOLD, section="Input", metavar="FIELD",
        help="Field with the gold answer or reference, or a list of them.")
    verdict: str | None = flag(
        None, section="Input", metavar="FIELD",
        help="Field with a human verdict (true or false), instead of --gold.")
    threshold: float | None = flag(
        None, section="Method", metavar="T",
        help="Minimum score of a right choice against the gold answer; for error metrics, the "
        "maximum. [default for votes: 1]")
    signal: str | None = flag(
        None, section="Method", metavar="NAME",
        help="Signal to calibrate, such as confidence.share. [default: the first of the manual's "
        "list that is in the input]")
    level: float = flag(
        0.5, section="Method", metavar="P", gt=0, lt=1,
        help="Probability that the error above a threshold is at most the target. Near 1, more "
        "data are needed.")


class _Line(NamedTuple):
    """A choice, as in a line of the output of `decode`."""

    where: str
    fields: Mapping[str, Any]
    signature: str | None


def calibrate(
    results: Results,
    *,
    gold: str | Sequence[Any] = GOLD,
    verdict: str | Sequence[bool] | None = None,
    metric: MetricLike | None = None,
    threshold: float | None = None,
    signal: str | None = None,
    level: float = 0.5,
) -> CalibrationReport:
    """Calibrate the confidence of choices that are known to be right or wrong.

    Args:
        results: results of `decode_corpus` or `answer`, with `confidence=True` and, for more
            signals, `uncertainty=True`; or files that they wrote, or dicts like their lines.
        gold: the field with the gold answer or a reference, or a list of them; or the answers
            themselves, one (or a list) for each result.
        verdict: instead of a gold answer, the field that says whether a choice is right, or a list
            of true and false.
        metric: a metric, its name or class, or a function, by which a text is compared with its
            gold answer. By default, its `answer` (or the whole text, if it has none) must equal the
            gold answer; numbers are compared by value.
        threshold: lowest score of a right choice (for error metrics, the highest); default for
            votes: 1.
        signal: name of the signal to calibrate; default: the first in the guide's list that the
            results have.
        level: probability with which the error above a threshold is at most the target.

    Returns:
        The report, whose `calibration` and `save` are for `calibration=` of other calls.

    Raises:
        InputError: if results are too few, all right or all wrong, or lack what is named.

    >>> import minrisk
    >>> corpus = [{"samples": ["7"] * n + ["8"] * (16 - n), "gold": "7"} for n in range(3, 16)] * 2
    >>> results = minrisk.decode_corpus(corpus, metric="exact-match", confidence=True)
    >>> found = calibrate(results)
    >>> round(found.right, 2), found.calibration.signal
    (0.62, 'confidence.probability')
    """
    columns = {name: value for name, value in (("gold", gold), ("verdict", verdict))
               if value is not None and not isinstance(value, str)}
    named = {name: value for name, value in (("gold", gold), ("verdict", verdict))
             if isinstance(value, str)}
    options = CalibrateOptions(threshold=threshold, signal=signal, level=level, **named)
    return report_of(results, options, None if metric is None else as_metric(metric), **columns)


def report_of(results: Results, options: CalibrateOptions, metric: AnyMetric | None,
              gold: Sequence[Any] | None = None,
              verdict: Sequence[Any] | None = None) -> CalibrationReport:
    """The calibration of results; gold answers and verdicts default to their fields."""
    lines = list(_lines(results))
    for given, name in ((gold, "gold"), (verdict, "verdict")):
        if given is not None and len(given) != len(lines):
            raise InputError(f"{name} has {len(given)} values for {len(lines)} results; expected "
                             "one for each")
    kept = [index for index, line in enumerate(lines) if line.fields.get("error") is None]
    chosen = [lines[index] for index in kept]
    if verdict is None and options.verdict is not None:
        verdict = [line.fields.get(options.verdict) for line in lines]
    if verdict is not None:
        right = [_verdict(line, verdict[index]) for line, index in zip(chosen, kept, strict=True)]
    else:
        golds = [line.fields.get(options.gold) for line in lines] if gold is None else gold
        wanted = [_golds(line, golds[index], options.gold)
                  for line, index in zip(chosen, kept, strict=True)]
        right = _are_right(chosen, wanted, metric, options.threshold)
    columns = {name: np.array([_signal(line, name) for line in chosen], np.float64)
               for name in SIGNALS}
    return calibrated(columns, np.array(right, bool), options.signal, options.level,
                      _signature(chosen), len(lines) - len(chosen))


def _lines(results: Results) -> Iterator[_Line]:
    corpus = segments_of(results)
    for file in corpus.files:
        origin = origin_of(file.location)
        made = None if origin is None else join({
            name: tuple(value) if isinstance(value, list) else value
            for name, value in choice_settings(origin).items()})
        for where, fields in output_fields(file):
            yield _Line(where, fields, made)
    for index, given in enumerate(corpus.objects):
        where = f"result {index}"
        if isinstance(given, DecodedSegment):
            yield _Line(where, _fields_of(given),
                        None if given.error is not None else given.ranking.signature)
        elif isinstance(given, Mapping):
            yield _Line(where, given, given.get("signature"))
        else:
            raise InputError(f"{where}: found {brief(given)}, expected what minrisk.decode_corpus "
                             "gives, or the fields of a line that it wrote")


def _fields_of(found: DecodedSegment) -> dict[str, Any]:
    measured = {name: asdict(part) for name, part in (
        ("confidence", found.confidence), ("uncertainty", found.uncertainty)) if part is not None}
    choice = {"text": found.text, "utility": found.utility, "error": found.error,
              "abstained": found.abstained}
    return {**found.fields, **choice, **found.details, **measured}


def _signature(lines: Sequence[_Line]) -> str | None:
    """The signature that all choices share, if known; InputError if they differ."""
    signature = next((line.signature for line in lines if line.signature is not None), None)
    for line in lines:
        if signature is not None and line.signature is not None and not choose_alike(
                signature, line.signature):
            raise InputError(f"{line.where}: found a choice by {line.signature} among choices by "
                             f"{signature}; calibrate them separately")
    return signature


def _signal(line: _Line, name: str) -> float:
    value: Any = line.fields
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return np.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{line.where}: found {name} {show(value)}, expected a number")
    return float(value)


def _verdict(line: _Line, found: Any) -> bool:
    if found not in (0, 1):
        raise InputError(f"{line.where}: found the verdict {show(found)}, expected true or false")
    return bool(found)


def _golds(line: _Line, found: Any, name: str) -> list[str]:
    golds = golds_of(found)
    if golds is None or not any(gold.strip() for gold in golds):
        raise InputError(Wording("{where}: found {name} {found}, expected the gold answer or a "
                                 "list of them; name another field as gold=, or the one with "
                                 "verdicts as "
                                 "verdict=", where=line.where, name=name, found=show(found)))
    return golds


def _are_right(lines: Sequence[_Line], golds: Sequence[list[str]], metric: AnyMetric | None,
               threshold: float | None) -> list[bool]:
    for line in lines:
        if line.fields.keys().isdisjoint(("text", "answer")):
            raise InputError(f"{line.where}: found no text of a choice, expected what `minrisk "
                             "decode` or `answer` wrote with --confidence; decode samples first")
        if line.fields.get("abstained"):
            raise InputError(Wording("{where}: this segment abstained, so it has no text to "
                                     "compare; decode without abstain= and max_error=",
                                     where=line.where))
    if metric is not None and not metric.is_vote and threshold is None:
        raise InputError(Wording("metric {metric!r} measures how good a choice is, not whether it "
                                 "is right; give the minimum score of a right choice as "
                                 "threshold=",
                                 metric=metric.name))
    names = ("answer", "text") if metric is None else ("text", "answer")
    answers = [next(line.fields[name] for name in names if name in line.fields) for line in lines]
    if not lines:
        return []
    chosen = make_metric("exact-match", numbers=True) if metric is None else metric
    scores = score([answer or "" for answer in answers], golds, metric=chosen).sentences
    limit = 1.0 if threshold is None else threshold
    found = -scores <= limit if chosen.is_error else scores >= limit
    return [bool(answer) and is_right
            for answer, is_right in zip(answers, found.tolist(), strict=True)]
