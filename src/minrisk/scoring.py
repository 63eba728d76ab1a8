"""`minrisk.score`: how good whole outputs are, and how sure that is, with sacreBLEU's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk.adapters import as_metric
from minrisk.arrays import Floats
from minrisk.decoding import METRIC
from minrisk.errors import InputError
from minrisk.metric import Ability, AnyMetric
from minrisk.pool import Pool, bind
from minrisk.segment import Segment
from minrisk.signature import join
from minrisk.version import __version__

SEED = 12345  # as sacreBLEU's
_TAIL = 40  # one resample in so many is left out at each end: 95% remain


@dataclass(frozen=True, eq=False)
class Score:
    """What a metric thinks of a system; the last ones only if it was resampled."""

    value: float
    sentences: Floats  # (N,)
    mean: float | None = None  # over the resamples
    interval: float | None = None  # half the width of what holds 95% of them
    p_value: float | None = None  # how likely chance makes such a difference from the baseline
    ahead: tuple[float, float] | None = None  # how much better than the baseline 95% of them are
    statistics: Floats | None = None  # of the corpus, where the metric has some


def score(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str | Sequence[str]] | None = None,
    sources: Sequence[str] | None = None,
    *,
    metric: str | AnyMetric = METRIC,
    resamples: int = 0,
    seed: int = SEED,
) -> dict[str, Score]:
    """Score the outputs of systems by name; each line has one reference or a list of them.

    A metric that judges by the source alone needs no references.

    With `resamples` (sacreBLEU takes 1000), each score has a confidence interval, and each but the
    first, which is the baseline, the p-value of the paired bootstrap test against it and the
    interval of the difference from it.
    """
    chosen = as_metric(metric)
    lists = None if references is None else [[own] if isinstance(own, str) else list(own)
                                             for own in references]
    _check_systems(systems)
    _check(systems, lists, sources)
    if lists is None and Ability.QUALITY not in chosen.abilities:
        raise InputError(f"metric {chosen.name!r} compares with references; give some, or choose "
                         "a metric that judges by the source alone")
    statistics = _statistics(chosen, list(systems.values()), lists, sources)  # (K, N, S)
    samples = _resample(chosen, statistics, resamples, seed)  # (K, B)
    baseline = None
    scores: dict[str, Score] = {}
    for name, rows, sampled in zip(systems, statistics, samples, strict=True):
        summed = rows.sum(axis=0)
        value, sentences = _corpus(chosen, summed), _corpora(chosen, rows)
        _check_finite(chosen, name, value, sentences)
        scores[name] = Score(value, sentences, *_interval(sampled),
                             _p_value(value, sampled, baseline),
                             _difference_interval(sampled, baseline),
                             summed if Ability.CORPUS_STATISTICS in chosen.abilities else None)
        baseline = baseline or (value, sampled)
    return scores


def sacrebleu_signature(metric: AnyMetric, scores: Iterable[Score], references: int,
                        resamples: int = 0, seed: int = SEED,
                        of_corpus: bool = True) -> str | None:
    """As sacreBLEU writes it, so that others can compare; None where it has no such metric."""
    metric = as_metric(metric)
    if Ability.CORPUS_STATISTICS not in metric.abilities:
        return None
    statistics = np.array([score.statistics for score in scores]) if of_corpus else None
    fields = metric.sacrebleu_fields(statistics)
    if fields is None:
        return None
    bootstrap = {"bs": resamples, "seed": seed} if resamples else {}
    return join({"nrefs": references, **bootstrap, **fields}, version=f"minrisk-{__version__}")


def _check_systems(systems: Any) -> None:
    if not isinstance(systems, Mapping):
        raise InputError("systems must be a mapping of names to lists of lines, as in "
                         f'{{"mine": [...]}}; found {type(systems).__name__}')
    for name, lines in systems.items():
        if isinstance(lines, str):
            raise InputError(f"{name} must be a list of lines, not one string")


def _check(systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]] | None,
           sources: Sequence[str] | None) -> None:
    if references is None and sources is None:
        raise InputError("neither references nor sources; give what the systems are to be "
                         "judged by")
    what, wanted = ("source", sources) if references is None else ("references", references)
    assert wanted is not None
    outputs = systems if sources is None else {**systems, "the source": sources}
    for name, lines in outputs.items():
        if len(lines) != len(wanted):
            raise InputError(f"{name} has {len(lines)} lines, the {what} "
                             f"{'has' if what == 'source' else 'have'} {len(wanted)}; check that "
                             "they belong together")
    if not systems or not wanted:
        raise InputError(f"{len(systems)} systems with {len(wanted)} lines; "
                         "at least one of each is wanted")
    for number, own in enumerate(references or (), 1):
        if not own:
            raise InputError(f"line {number} has zero references; at least one is needed")


def _check_finite(metric: AnyMetric, name: str, value: float, sentences: Floats) -> None:
    wrong = np.flatnonzero(~np.isfinite(sentences))
    if wrong.size or not np.isfinite(value):
        found = f"line {wrong[0] + 1} of {name}: {sentences[wrong[0]]}" if wrong.size else (
            f"{name}: {value}")
        raise InputError(f"metric {metric.name!r} scored {found}; a finite number is needed")


def _statistics(metric: AnyMetric, systems: Sequence[Sequence[str]],
                references: Sequence[Sequence[str]] | None,
                sources: Sequence[str] | None) -> Floats:
    """(K, N, S) of K systems with N lines; a score and a one make a mean of scores."""
    if Ability.CORPUS_STATISTICS in metric.abilities and references is not None:
        return np.stack([metric.statistics(lines, references) for lines in systems])
    scores = (_best_scores(metric, systems, references, sources) if references is not None
              else _qualities(metric, systems, sources or ()))
    return np.stack([scores, np.ones_like(scores)], axis=-1)


def _qualities(metric: AnyMetric, systems: Sequence[Sequence[str]],
               sources: Sequence[str]) -> Floats:
    """(K, N) each line by its source alone."""
    segments = [Segment(outputs, source=source)
                for *outputs, source in zip(*systems, sources, strict=True)]
    return np.stack([pool.quality() for pool in bind(metric, segments)], axis=1)


def _best_scores(metric: AnyMetric, systems: Sequence[Sequence[str]],
                 references: Sequence[Sequence[str]], sources: Sequence[str] | None) -> Floats:
    """(K, N) each line against the reference that suits it best."""
    given = [None] * len(references) if sources is None else sources
    segments = [
        Segment(outputs, own, source)
        for *outputs, own, source in zip(*systems, references, given, strict=True)
    ]
    return np.stack([_best_of_line(line, pool)
                     for line, pool in enumerate(bind(metric, segments), 1)], axis=1)


def _best_of_line(line: int, pool: Pool[Any]) -> Floats:
    """(K,) each system's output against the reference that suits it best."""
    try:
        best: Floats = pool.scores().max(axis=1)
    except InputError as error:
        raise InputError(f"line {line}: {error}") from error
    return best


def _corpus(metric: AnyMetric, statistics: Floats) -> float:
    if Ability.CORPUS_STATISTICS in metric.abilities:
        return metric.corpus(statistics)
    total, count = statistics.tolist()
    return float(total / count)


def _corpora(metric: AnyMetric, rows: Floats) -> Floats:
    return np.array([_corpus(metric, row) for row in rows])


def _resample(metric: AnyMetric, statistics: Floats, resamples: int, seed: int) -> Floats:
    """(K, B) the scores of corpora of the same size, whose lines are resampled with replacement."""
    resampled = list(_resampled_sums(statistics, resamples, seed))
    return np.array([
        _corpora(metric, np.array([sums[k] for sums in resampled])) for k in range(len(statistics))
    ])


def _resampled_sums(statistics: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """(K, S) per resample: the same lines for every system, in the order sacreBLEU draws them."""
    rng = np.random.default_rng(seed)
    lines = statistics.shape[1]
    for _ in range(resamples):
        counts = np.bincount(rng.integers(lines, size=lines), minlength=lines)
        yield counts @ statistics


def _interval(sampled: Floats) -> tuple[float | None, float | None]:
    if not sampled.size:
        return None, None
    low, high = _central_95(sampled)
    return float(sampled.mean()), (high - low) / 2


def _central_95(sampled: Floats) -> tuple[float, float]:
    """The bounds between which 95% of them are."""
    ordered = np.sort(sampled)
    cut = ordered.size // _TAIL
    return float(ordered[cut]), float(ordered[-1 - cut])


def _difference_interval(
        sampled: Floats, baseline: tuple[float, Floats] | None) -> tuple[float, float] | None:
    if baseline is None or not sampled.size:
        return None
    return _central_95(sampled - baseline[1])


def _p_value(value: float, sampled: Floats, baseline: tuple[float, Floats] | None) -> float | None:
    """How often the difference strays from its mean by more than what was observed."""
    if baseline is None or not sampled.size:
        return None
    difference = abs(value - baseline[0])
    strays = np.abs(sampled - baseline[1])
    beyond = np.count_nonzero(strays - strays.mean() > difference)
    return float(beyond + 1) / (sampled.size + 1)
