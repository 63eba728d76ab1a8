"""`minrisk.score`: corpus scores, confidence intervals and significance tests, like sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, replace
from functools import partial
from html import escape
from typing import Any, Literal, overload

import numpy as np

from minrisk._core.adapters import as_metric
from minrisk._core.arrays import Floats
from minrisk._core.batch import bind
from minrisk._core.decoding import METRIC, MetricLike
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Bounds, checked
from minrisk._core.pool import Pool
from minrisk._core.segment import Segment
from minrisk._core.signature import join, metric_signature
from minrisk._core.weights import checked_texts
from minrisk.evaluation.metric_bias import warn_of_bias
from minrisk.version import __version__

SignificanceTest = Literal["permutation", "bootstrap"]
SEED = 12345  # sacreBLEU's default
_ROUNDING = 1e-9  # relative difference up to which two values count as equal
_EXCHANGES_PER_BLOCK = 1 << 22
_TAIL = 40  # cutting 1/40 of the resamples off at each end leaves 95%


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """The score of a system; `str` shows it with its interval and p-value.

    Args:
        value: the score of the corpus.
        sentences: (N,) the scores of the sentences.
        mean: mean score of the resamples; None without resampling, like the next three.
        interval: half the width of the 95% confidence interval.
        p_value: p-value of a paired test against the baseline.
        ahead: bootstrap 95% confidence interval of the difference from the baseline.
        statistics: corpus statistics, if the metric has them.
        signature: the options of the metric and of the resampling.

    >>> Score(25.0, np.array([20.0, 30.0]), interval=2.5)
    Score(25 ± 2.5, of 2 sentences)
    """

    value: float
    sentences: Floats
    mean: float | None = None
    interval: float | None = None
    p_value: float | None = None
    ahead: tuple[float, float] | None = None
    statistics: Floats | None = None
    signature: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Score):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name))
                   for f in fields(self))

    def __repr__(self) -> str:
        return f"Score({self}, of {self.sentences.size} sentences)"

    def __str__(self) -> str:
        parts = [f"{self.value:.6g}"]
        if self.interval is not None:
            parts.append(f"± {self.interval:.3g}")
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.3g}")
        return " ".join(parts)

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}<br><code>{escape(self.signature or '')}</code></p>"


@overload
def score(systems: Mapping[str, Sequence[str]],
          references: Sequence[str | Sequence[str]] | None = None,
          sources: Sequence[str] | None = None, *, metric: MetricLike = METRIC, resamples: int = 0,
          test: SignificanceTest = "permutation", seed: int = SEED,
          origins: Mapping[str, str] | None = None) -> dict[str, Score]: ...


@overload
def score(systems: Sequence[str], references: Sequence[str | Sequence[str]] | None = None,
          sources: Sequence[str] | None = None, *, metric: MetricLike = METRIC, resamples: int = 0,
          test: SignificanceTest = "permutation", seed: int = SEED) -> Score: ...


@overload
def score(systems: Mapping[str, Sequence[str]] | Sequence[str],
          references: Sequence[str | Sequence[str]] | None = None,
          sources: Sequence[str] | None = None, *, metric: list[Any] | tuple[Any, ...],
          resamples: int = 0, test: SignificanceTest = "permutation", seed: int = SEED,
          origins: Mapping[str, str] | None = None) -> dict[str, Any]: ...


def score(
    systems: Mapping[str, Sequence[str]] | Sequence[str],
    references: Sequence[str | Sequence[str]] | None = None,
    sources: Sequence[str] | None = None,
    *,
    metric: MetricLike | list[Any] | tuple[Any, ...] = METRIC,
    resamples: int = 0,
    test: SignificanceTest = "permutation",
    seed: int = SEED,
    origins: Mapping[str, str] | None = None,
) -> dict[str, Any] | Score:
    """Score the output of a system, or of several by name.

    Args:
        systems: the lines of one output (or the results of `decode_corpus` and the like), or a
            mapping from names to such lists.
        references: for each line one reference, or a list of them; not needed by a metric that
            judges by the source alone.
        sources: one source per line, for metrics that need it.
        metric: a metric, its name or class, or a function of hypothesis and reference; or a list
            of them.
        resamples: number of bootstrap resamples (sacreBLEU uses 1000); 0 for none. With resamples
            each score has a confidence interval, and each but the first system, which is the
            baseline, has the p-value of a paired test against it.
        test: "permutation" exchanges lines of the two systems at random, as often as there are
            resamples: p is the share with at least the observed difference, in either direction.
            "bootstrap" is sacreBLEU's paired bootstrap test, for comparison with published
            p-values; at p < 0.05 it has more than 5% false positives.
        seed: seed of the resamples and permutations.
        origins: how systems were made: their signatures (`Ranking.signature`) by name; a
            warning names each system that is judged by a metric that chose it (Kovacs et al.
            2024).

    Returns:
        The score of the output, or the scores of the systems by name; for a list of metrics, a
        mapping from the names of the metrics to these.

    Raises:
        InputError: if lists differ in length, or a score is not finite.

    >>> score(["a b"], ["a c"])
    Score(25, of 1 sentences)
    >>> score({"one": ["a b"], "two": ["a c"]}, [["a c", "a d"]])["two"].value
    100.0
    """
    if isinstance(metric, list | tuple):
        given: Any = systems
        return {own.name: score(given, references, sources, metric=own, resamples=resamples,
                                test=test, seed=seed, origins=origins)
                for own in map(as_metric, metric)}
    if not isinstance(systems, Mapping):
        lines = checked_texts(texts_of(systems), "systems")
        return score({"systems": lines}, references, sources, metric=metric, resamples=resamples,
                     test=test, seed=seed)["systems"]
    systems = {name: texts_of(lines) for name, lines in systems.items()}
    chosen = as_metric(metric)
    resamples, seed = (checked(name, value, int, Bounds(ge=0))
                       for name, value in (("resamples", resamples), ("seed", seed)))
    checked("test", test, SignificanceTest)
    lists = None if references is None else list(reference_lists(references))
    _check(systems, lists, sources)
    warn_of_bias({name: origin for name, origin in (origins or {}).items() if name in systems},
                 chosen)
    if lists is None and Ability.QUALITY not in chosen.abilities:
        raise InputError(f"metric {chosen.name!r} compares with references; give some, or choose "
                         "a metric that judges by the source alone")
    statistics = _statistics(chosen, list(systems.values()), lists, sources)  # (K, N, S)
    most = max(map(len, lists)) if lists else 0
    scores = _scores(systems, statistics, partial(_corpus, chosen), resamples, test, seed)
    for name, result in scores.items():
        _check_finite(chosen, name, result.value, result.sentences)
    permutations = resamples if test == "permutation" and len(systems) > 1 else 0
    signature = score_signature(chosen, most, resamples, seed, statistics.sum(axis=1),
                                permutations)
    has_statistics = Ability.CORPUS_STATISTICS in chosen.abilities
    return {name: replace(result, signature=f"{chosen.name}|{signature}",
                          statistics=result.statistics if has_statistics else None)
            for name, result in scores.items()}


def texts_of(lines: Any) -> Any:
    """The texts of lines or of results of a call; failed segments have an empty text."""
    if isinstance(lines, str) or not isinstance(lines, Iterable):
        return lines
    return [(line.text or "") if hasattr(line, "as_record") else line
            for line in lines]


def compare_means(values: Mapping[str, Floats], resamples: int = 1000,
                  test: SignificanceTest = "permutation", seed: int = SEED) -> dict[str, Score]:
    """Means of precomputed segment values, compared like systems; the first is the baseline."""
    statistics = np.stack([np.stack([v, np.ones_like(v)], axis=-1) for v in values.values()])
    return _scores(values, statistics, _mean, resamples, test, seed)


def _scores(names: Iterable[str], statistics: Floats, corpus: Callable[[Floats], float],
            resamples: int, test: SignificanceTest, seed: int) -> dict[str, Score]:
    """Scores of systems from additive statistics (K, N, S); the first system is the baseline."""
    samples = _resample(corpus, statistics, resamples, seed)  # (K, B)
    sums = statistics.sum(axis=1)
    values = [corpus(own) for own in sums]
    p_values: list[float | None] = [None] * len(values)
    if resamples and test == "permutation":
        p_values[1:] = _permutation_p_values(corpus, statistics, resamples, seed)
    elif resamples:
        p_values[1:] = _bootstrap_p_values(values, samples)
    return {
        name: Score(values[k], np.array([corpus(row) for row in statistics[k]]),
                    *_interval(samples[k]), p_values[k],
                    _central_95(samples[k] - samples[0]) if k and resamples else None, sums[k])
        for k, name in enumerate(names)
    }


def score_signature(metric: AnyMetric, references: int, resamples: int = 0, seed: int = SEED,
                    statistics: Floats | None = None, permutations: int = 0) -> str:
    """The signature of scores: sacreBLEU's if it can express all options, otherwise minrisk's.

    `references` is the largest number of references of a line; `statistics` (K, S) are those of the
    scored corpora, or None for sentence scores.
    """
    randomness = {"bs": resamples, "ar": permutations, "seed": seed}  # sacreBLEU's names
    counts = {"nrefs": references} | {
        key: value for key, value in randomness.items() if resamples and (value or key == "seed")}
    theirs = metric.sacrebleu_fields(statistics)
    if theirs is None:
        return metric_signature(metric, **counts)
    return join({**counts, **theirs}, version=f"minrisk-{__version__}")


def reference_lists(references: Sequence[str | Sequence[str]]) -> Iterator[Sequence[str]]:
    if isinstance(references, str | Mapping) or not isinstance(references, Iterable):
        raise InputError("references must be a list with a reference, or a list of them, for each "
                         f"line; found {type(references).__name__}")
    for line, own in enumerate(references, 1):
        try:
            yield checked_texts([own] if isinstance(own, str) else own, "references")
        except InputError as error:
            raise InputError(Wording("line {line}: {error}", line=line, error=error)) from None


def _check(systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]] | None,
           sources: Sequence[str] | None) -> None:
    if references is None and sources is None:
        raise InputError("neither references nor sources; give references, or sources for a "
                         "quality-estimation metric")
    what, wanted = ("source", sources) if references is None else ("references", references)
    assert wanted is not None
    outputs = systems if sources is None else {**systems, "the source": sources}
    for name, lines in outputs.items():
        if not isinstance(lines, Sized):
            checked_texts(lines, name)
    for name, lines in outputs.items():
        if len(lines) != len(wanted):
            raise InputError(f"{name} has {len(lines)} lines, the {what} "
                             f"{'has' if what == 'source' else 'have'} {len(wanted)}; check that "
                             "they are from the same corpus")
    if not systems or not wanted:
        raise InputError(f"{len(systems)} systems with {len(wanted)} lines; at least one of each "
                         "is required")
    for name, lines in outputs.items():
        checked_texts(lines, name)


def _check_finite(metric: AnyMetric, name: str, value: float, sentences: Floats) -> None:
    wrong = np.flatnonzero(~np.isfinite(sentences))
    if wrong.size or not np.isfinite(value):
        scored = f"line {wrong[0] + 1} of {name}: {sentences[wrong[0]]}" if wrong.size else (
            f"{name}: {value}")
        raise InputError(f"metric {metric.name!r} scored {scored}; expected a finite number")


def _statistics(metric: AnyMetric, systems: Sequence[Sequence[str]],
                references: Sequence[Sequence[str]] | None,
                sources: Sequence[str] | None) -> Floats:
    """(K, N, S) statistics of K systems with N lines; (score, 1) if the corpus score is a mean."""
    if Ability.CORPUS_STATISTICS in metric.abilities and references is not None:
        return _statistics_of_lines(metric, systems, references)
    scores = (_best_scores(metric, systems, references, sources) if references is not None
              else _qualities(metric, systems, sources or ()))
    return np.stack([scores, np.ones_like(scores)], axis=-1)


def _statistics_of_lines(metric: AnyMetric, systems: Sequence[Sequence[str]],
                         references: Sequence[Sequence[str]]) -> Floats:
    """(K, N, S); systems with equal lines share one computation."""
    places: dict[tuple[int, str], int] = {}
    rows = [[places.setdefault(pair, len(places)) for pair in enumerate(lines)]
            for lines in systems]
    statistics = metric.statistics([text for _, text in places], [references[n] for n, _ in places])
    return statistics[np.array(rows, np.intp)]


def _qualities(metric: AnyMetric, systems: Sequence[Sequence[str]],
               sources: Sequence[str]) -> Floats:
    """(K, N) quality estimates of the lines, given their sources."""
    segments = [Segment(outputs, source=source)
                for *outputs, source in zip(*systems, sources, strict=True)]
    return np.stack([pool.quality() for pool in bind(metric, segments)], axis=1)


def _best_scores(metric: AnyMetric, systems: Sequence[Sequence[str]],
                 references: Sequence[Sequence[str]], sources: Sequence[str] | None) -> Floats:
    """(K, N) the score of each line against its best reference."""
    given = [None] * len(references) if sources is None else sources
    segments = [
        Segment(outputs, own, source)
        for *outputs, own, source in zip(*systems, references, given, strict=True)
    ]
    return np.stack([_best_of_line(line, pool)
                     for line, pool in enumerate(bind(metric, segments), 1)], axis=1)


def _best_of_line(line: int, pool: Pool[Any]) -> Floats:
    """(K,) the score of each system's output against its best reference."""
    try:
        best: Floats = pool.scores().max(axis=1)
    except InputError as error:
        raise InputError(Wording("line {line}: {error}", line=line, error=error)) from error
    return best


def _corpus(metric: AnyMetric, statistics: Floats) -> float:
    if Ability.CORPUS_STATISTICS in metric.abilities:
        return metric.corpus(statistics)
    return _mean(statistics)


def _mean(statistics: Floats) -> float:
    total, count = statistics.tolist()
    return float(total / count)


def _resample(corpus: Callable[[Floats], float], statistics: Floats, resamples: int,
              seed: int) -> Floats:
    """(K, B) scores of bootstrap resamples of the corpus."""
    rng = np.random.default_rng(seed)
    lines = statistics.shape[1]
    # the same lines for all systems, as in sacreBLEU
    drawn = [np.bincount(rng.integers(lines, size=lines), minlength=lines) @ statistics
             for _ in range(resamples)]  # (K, S) each
    return np.array([[corpus(sums[k]) for sums in drawn] for k in range(len(statistics))])


def _interval(sampled: Floats) -> tuple[float | None, float | None]:
    if not sampled.size:
        return None, None
    low, high = _central_95(sampled)
    return float(sampled.mean()), (high - low) / 2


def _central_95(sampled: Floats) -> tuple[float, float]:
    """The bounds of the central 95% of the values."""
    ordered = np.sort(sampled)
    cut = ordered.size // _TAIL
    return float(ordered[cut]), float(ordered[-1 - cut])


def _bootstrap_p_values(values: Sequence[float], samples: Floats) -> list[float]:
    """(K - 1,) sacreBLEU's p-values of its paired bootstrap test.

    The test centres the absolute differences of the resamples at their mean, and counts those above
    the observed difference. So it is nearly one-sided, and rejects more often than its level.
    """
    differences = np.abs(samples[1:] - samples[0])
    observed = np.abs(np.array(values[1:]) - values[0])
    centred = differences - differences.mean(axis=1, keepdims=True)
    as_large = (centred > observed[:, None]).sum(axis=1)
    p_values: list[float] = ((as_large + 1) / (samples.shape[1] + 1)).tolist()
    return p_values


def _permutation_p_values(corpus: Callable[[Floats], float], statistics: Floats,
                          permutations: int, seed: int) -> list[float]:
    """(K - 1,) p-values of a paired permutation test (approximate randomization).

    Under the null hypothesis, the two outputs of a line can be exchanged. So random lines are
    exchanged with the baseline, the first system, and the p-value is the share of permutations
    whose difference is at least the observed one. The observed one is counted as a permutation, so
    that the level holds for any number of them; ties are counted, too, as they are frequent if few
    lines differ.
    """
    baseline, *others = statistics.sum(axis=1)
    observed = [_difference(corpus, baseline, other) for other in others]
    as_large = np.ones(len(others))
    for exchanged in _exchanges(statistics.shape[1], permutations, seed):
        for k, (rows, total) in enumerate(zip(statistics[1:], others, strict=True)):
            moved = exchanged @ (rows - statistics[0])  # (B, S) from the system to the baseline
            differences = np.array([_difference(corpus, baseline + m, total - m) for m in moved])
            as_large[k] += np.count_nonzero(differences >= observed[k] * (1 - _ROUNDING))
    p_values: list[float] = (as_large / (permutations + 1)).tolist()
    return p_values


def _difference(corpus: Callable[[Floats], float], one: Floats, other: Floats) -> float:
    return abs(corpus(one) - corpus(other))


def _exchanges(lines: int, permutations: int, seed: int) -> Iterator[Floats]:
    """(B, N) blocks of sacreBLEU's permutations: 1 where a line is exchanged, in all systems."""
    rng = np.random.default_rng(seed)
    # the generator draws 32 booleans from one number: whole multiples keep the random stream
    rows = max(1, _EXCHANGES_PER_BLOCK // (32 * lines)) * 32
    for start in range(0, permutations, rows):
        size = (min(rows, permutations - start), lines)
        yield rng.integers(2, size=size, dtype=bool).astype(np.float64)
