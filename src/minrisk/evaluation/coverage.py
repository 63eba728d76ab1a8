"""Coverage (pass@k) compared with the choice: how often one sample, the choice, any of k are right.

If any of k samples is often right but the choice is not, a better strategy could gain much; if none
is, only a better model helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric
from minrisk.evaluation.resampling import Estimate, Verdicts, estimate, resampled_counts
from minrisk.evaluation.scoring import Score, SignificanceTest, compare_means
from minrisk.io.inputs import InputFile
from minrisk.io.records import error_location
from minrisk.io.segments import output_fields, show, text_of_choice

GOLD = "gold"  # the usual field of gold answers


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The probability that any of k samples is right, if `right` of all are (Chen et al. 2021).

    The k are drawn from all without replacement, so that the estimate is unbiased.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 4), round(pass_at_k(4, 2, 2), 2)
    (0.25, 1.0, 0.83)
    """
    if samples - right < k:
        return 1.0
    misses = 1 - k / np.arange(samples - right + 1, samples + 1)
    return float(1 - misses.prod())


def are_right(metric: AnyMetric, texts: Sequence[str], golds: Sequence[str]) -> Verdicts:
    """(N,) whether each text has one of the gold answers, by a metric that votes."""
    refs = metric.as_given(metric.features(golds))
    verdicts: Verdicts = metric.scores(metric.features(texts), refs).max(axis=1) == 1
    return verdicts


def golds_of(value: Any) -> list[str] | None:
    """The gold answers in a field: a text, a number, or a list of them; otherwise None."""
    golds = value if isinstance(value, list | tuple) else [value]
    is_known = golds and all(isinstance(one, str | int | float) for one in golds)
    return [str(one) for one in golds] if is_known else None


@dataclass(frozen=True)
class Coverage:
    """How many of the samples of a segment are right, and whether the choice is."""

    samples: int
    right: int
    chosen: bool

    @classmethod
    def from_samples(cls, metric: AnyMetric, texts: Sequence[str], counts: Sequence[int], best: int,
                     golds: Sequence[str], drawn: int = 0) -> Coverage:
        """The coverage of samples with these counts; others, up to `drawn`, count as wrong."""
        right = are_right(metric, texts, golds)
        total = int(np.sum(counts))
        return cls(max(total, drawn), int(np.asarray(counts)[right].sum()), bool(right[best]))


@dataclass(frozen=True)
class CoverageSummary:
    """Shares of segments with their 95% intervals."""

    one: Estimate  # a random sample is right
    chosen: Estimate  # the choice is right
    any_of: Mapping[int, Estimate]  # any of k samples is right, by k

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Rows of a table."""
        named = {"one sample": self.one, "the choice": self.chosen} | {
            f"any of {k}": share for k, share in self.any_of.items()}
        for name, share in named.items():
            yield name, f"{share.value:.1%}", f"{share.low:.1%} to {share.high:.1%}"


def pass_rates(segments: Sequence[Coverage]) -> dict[int, Floats]:
    """For each segment, the probability that any of k samples is right: by k, which is 1, 2, 4 and
    so on up to the number of samples that all segments have.
    """
    least = min(segment.samples for segment in segments)
    powers = (2**power for power in range(least.bit_length()))
    return {k: np.array([pass_at_k(segment.samples, segment.right, k) for segment in segments])
            for k in sorted({*powers, least})}


def summarised(segments: Sequence[Coverage]) -> CoverageSummary | None:
    """Means over segments with gold answers; None if there are no such segments."""
    if not segments:
        return None
    counts = resampled_counts(len(segments))
    ones = np.ones(len(segments), bool)

    def mean(values: Floats) -> Estimate:
        return estimate(lambda own, _, drawn: drawn @ own / drawn.sum(axis=1), values, ones, counts)

    any_of = {k: mean(rates) for k, rates in pass_rates(segments).items()}
    chosen = mean(np.array([float(segment.chosen) for segment in segments]))
    return CoverageSummary(any_of.pop(1), chosen, any_of)


@dataclass(frozen=True)
class Sampled:
    """A line of an output with its gold answers and, if present, its samples."""

    text: str
    golds: list[str]
    samples: Sequence[str] = ()
    counts: Sequence[int] = ()
    drawn: int = 0

    def coverage(self, metric: AnyMetric) -> Coverage:
        texts = [*self.samples, self.text]
        return Coverage.from_samples(metric, texts, [*self.counts, 0], len(self.samples),
                                     self.golds, self.drawn)


def read_sampled(path: str, gold: str) -> list[Sampled | None]:
    """The lines of an output in JSON lines or Parquet, with the gold answers in this field; None
    for a segment that failed, whose line has none.
    """
    return [None if fields.get("error") is not None else _sampled(where, fields, gold)
            for where, fields in output_fields(InputFile.at(path))]


def _sampled(where: str, fields: Mapping[str, Any], gold: str) -> Sampled:
    golds = golds_of(fields.get(gold))
    if golds is None:
        raise InputError(f"{where}: found {gold} {show(fields.get(gold))}; expected the gold "
                         "answer or a list of them")
    with error_location(where):
        text = text_of_choice(fields).rstrip()
    samples = fields.get("samples") or []
    counts = fields.get("counts") or [1] * len(samples)
    if not (isinstance(samples, list) and isinstance(counts, list) and len(samples) == len(counts)
            and all(isinstance(one, str) for one in samples)
            and all(type(one) is int and one > 0 for one in counts)):
        raise InputError(f"{where}: found samples and counts that do not match; expected lists of "
                         "texts and numbers, as `minrisk answer` writes them")
    drawn = fields.get("drawn")
    return Sampled(text, golds, samples, counts, drawn if type(drawn) is int else 0)


def coverage_scores(metric: AnyMetric, systems: Mapping[str, Sequence[Sampled]],
                    scores: Mapping[str, Score], resamples: int, test: SignificanceTest,
                    seed: int) -> dict[str, Score]:
    """Scores of one sample and any of k, for systems that have samples in all lines; the first
    system is the baseline.
    """
    first = next(iter(scores))
    values = {first: scores[first].sentences}
    for name, lines in systems.items():
        if all(line.samples for line in lines):
            rates = pass_rates([line.coverage(metric) for line in lines])
            values |= {f"{name}: {'one sample' if k == 1 else f'any of {k}'}": own
                       for k, own in rates.items()}
    made = compare_means(values, resamples, test, seed)
    return {name: own for name, own in made.items() if name != first}
