"""Checks of the contract of metrics and strategies, for authors of plug-ins.

    from minrisk.testing import check_metric, check_strategy
    check_metric(MyMetric())
    check_strategy(MyStrategy(metric=MyMetric()))

Each check raises an AssertionError that explains the problem. The tests of minrisk run the same
checks on generated cases.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from minrisk._core.adapters import as_metric
from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, mass_of
from minrisk._core.metric import Ability, AnyMetric, Features, implemented_abilities
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy, check_rankings

TEXTS = (
    "The cat sat on the mat.", "A cat sat on a mat", "", " ", "mat", "Ω≈ç√∫", "日本語のテキスト。",
    "The fat cat sat, on the mat!", "naïve café", "naïve café", "👩‍👩‍👧 emoji 👍🏽",
    "The cat sat on the mat.", "a\x1cb\u2028c", "1024 samples (of 3.5)",
)
_OTHER_TEXT = "two dogs, one cat, a mat"  # short enough for any model


@dataclass(frozen=True)
class Case:
    """Hypotheses and references, with groups and integer weights of the references."""

    hyps: Sequence[str]
    refs: Sequence[str]
    labels: Sequence[int]  # (R,) every number from 0 to the largest occurs
    weights: Sequence[int]  # (R,) at least one is positive
    source: str | None = "The source."

    @property
    def groups(self) -> Groups:
        return Groups(np.asarray(self.labels, np.intp), np.asarray(self.weights, np.float64))


def cases(texts: Sequence[str] = TEXTS, count: int = 8, seed: int = 0) -> list[Case]:
    """Cases with duplicates, unequal weights and uneven groups."""
    rng = np.random.default_rng(seed)
    return [_random_case(texts, rng) for _ in range(count)]


def check_metric(metric: AnyMetric, given: Sequence[Case] | None = None,
                 rtol: float = 1e-9) -> None:
    """Check that a metric has all properties that strategies rely on.

    Args:
        metric: the metric, its name or class, or a function of hypothesis and reference.
        given: the cases to check [default: `cases()`].
        rtol: tolerance, relative to the largest score of a case.

    Raises:
        AssertionError: if a check fails.

    >>> import minrisk
    >>> check_metric(minrisk.ChrF())
    """
    metric = as_metric(metric)
    check_abilities(metric)
    checks = [*METRIC_CHECKS,
              *([check_ignored_references] if metric.ignores_references else ()),
              *(AGGREGATE_CHECKS if Ability.AVERAGES in metric.abilities else ()),
              *(PARTS_CHECKS if Ability.PARTIAL_STATISTICS in metric.abilities else ())]
    for case in cases() if given is None else given:
        for check in checks:
            with _explained(check, metric.name, hypotheses=case.hyps, references=case.refs):
                check(metric, case, rtol)


def check_strategy(strategy: Strategy, segments: Sequence[Segment] | None = None) -> None:
    """Check that rankings are complete, repeatable, and the same in any batch.

    Args:
        strategy: the strategy.
        segments: the segments to rank [default: generated ones, some with duplicates].

    Raises:
        AssertionError: if a check fails.

    >>> import minrisk
    >>> check_strategy(minrisk.NByS("chrf", subset=1))
    """
    if segments is None:
        segments = [Segment(c.hyps, source=c.source, position=i) for i, c in enumerate(cases())]
    with _explained(check_rankings_are_complete, strategy.name):
        check_rankings_are_complete(strategy, segments)
    for segment, ranking in zip(segments, strategy.rank(segments), strict=True):
        with _explained(check_batch_does_not_change_rankings, strategy.name,
                        hypotheses=segment.hypotheses):
            check_batch_does_not_change_rankings(strategy, segment, ranking)


def check_rankings_are_complete(strategy: Strategy, segments: Sequence[Segment]) -> None:
    """Check that each segment has a ranking of all its hypotheses, the first with a utility."""
    rankings = strategy.rank(segments)
    check_rankings(strategy.name, rankings, segments)
    for number, ranking in enumerate(rankings):
        utility = ranking.utility
        assert not np.isnan(utility[ranking.best]) or np.isnan(utility).all(), (
            f"segment {number}: the choice, hypothesis {ranking.best}, has no utility, and "
            f"hypothesis {np.nanargmax(utility)} has one")


def check_batch_does_not_change_rankings(strategy: Strategy, segment: Segment,
                                         ranking: Ranking) -> None:
    """Check that a segment has the same ranking alone and in a batch, at any time."""
    alone = strategy.rank([segment])[0]
    assert_array_equal(alone.order, ranking.order, "the orders differ")
    assert_array_equal(alone.utility, ranking.utility, "the utilities differ")
    assert alone.pairs == ranking.pairs, (
        f"the numbers of evaluated pairs differ: {alone.pairs} alone, {ranking.pairs} among others")


def check_abilities(metric: AnyMetric) -> None:
    """Check that the metric has methods for the abilities that it declares.

    A metric that overrides `abilities` may declare fewer: some depend on its options.
    """
    missing = metric.abilities & ~implemented_abilities(type(metric))
    assert not missing, f"{missing!r} is declared without {' and '.join(missing.methods)}"


def check_shape(metric: AnyMetric, case: Case, rtol: float) -> None:
    """The score of every pair is a finite float64."""
    matrix, wanted = _scores(metric, case), (len(case.hyps), len(case.refs))
    assert matrix.shape == wanted, f"found an array of shape {matrix.shape}, expected {wanted}"
    assert matrix.dtype == np.float64, f"found an array of {matrix.dtype}"
    rows, columns = np.nonzero(~np.isfinite(matrix))
    assert not rows.size, (f"found {matrix[rows[0], columns[0]]} for hypothesis {rows[0]} and "
                           f"reference {columns[0]}")


def check_order_does_not_matter(metric: AnyMetric, case: Case, rtol: float) -> None:
    """The order of the texts does not change scores."""
    reversed_case = Case(case.hyps[::-1], case.refs[::-1], case.labels, case.weights, case.source)
    _assert_close(_scores(metric, reversed_case)[::-1, ::-1], _scores(metric, case), rtol)


def check_batch_does_not_matter(metric: AnyMetric, case: Case, rtol: float) -> None:
    """Features of a text do not depend on other texts of the batch."""
    hyps, refs, source = _features(metric, case)
    with_others = metric.features([_OTHER_TEXT, *case.hyps])[np.arange(len(case.hyps)) + 1]
    _assert_close(metric.scores(with_others, refs, source), metric.scores(hyps, refs, source), rtol)


def check_rows(metric: AnyMetric, case: Case, rtol: float) -> None:
    """Selecting rows of features is equivalent to selecting texts."""
    rows = np.arange(len(case.refs))[::2]
    hyps, refs, source = _features(metric, case)
    assert len(refs) == len(case.refs)
    assert len(refs[rows]) == rows.size
    _assert_close(metric.scores(hyps, refs[rows], source), _scores(metric, case)[:, rows], rtol)


def check_utility(metric: AnyMetric, case: Case, rtol: float) -> None:
    """`utility` equals `scores @ mass`, also of the references against themselves."""
    own, refs, source = _features(metric, case)
    mass = mass_of(case.groups.weights)
    for hyps in (own, refs):
        expected = metric.scores(hyps, refs, source) @ mass
        _assert_close(metric.utility(hyps, refs, mass, source), expected, rtol)


def check_ignored_references(metric: AnyMetric, case: Case, rtol: float) -> None:
    """A metric that declares `ignores_references` has the same scores for all references."""
    matrix = _scores(metric, case)
    _assert_close(matrix, np.tile(matrix[:, :1], matrix.shape[1]), rtol)


def check_singleton_groups(metric: Any, case: Case, rtol: float) -> None:
    """The aggregate of a single reference equals that reference."""
    hyps, refs, source = _features(metric, case)
    alone = metric.aggregate(refs, Groups(np.arange(len(refs)), case.groups.weights))
    _assert_close(metric.scores(hyps, alone, source), _scores(metric, case), rtol)


def check_grouped_duplicates(metric: Any, case: Case, rtol: float) -> None:
    """Grouping equal references is exact."""
    labels = np.unique(np.asarray(case.refs), return_inverse=True)[1]
    groups = Groups(labels, case.groups.weights)
    hyps, refs, source = _features(metric, case)
    grouped = metric.scores(hyps, metric.aggregate(refs, groups), source) @ groups.mass
    mass = mass_of(groups.weights)
    _assert_close(grouped, _scores(metric, case) @ mass, rtol)


def check_weights_are_repetitions(metric: Any, case: Case, rtol: float) -> None:
    """An integer weight k is equivalent to k equal references, in any group."""
    groups = _without_empty(case.groups)
    counts = groups.weights.astype(np.intp)
    hyps, refs, source = _features(metric, case)
    weighted = metric.scores(hyps, metric.aggregate(refs, groups), source) @ groups.mass
    again = np.repeat(np.arange(counts.size), counts)
    repeated = Groups(groups.labels[again], np.ones(again.size))
    copies = metric.aggregate(refs[again], repeated)
    _assert_close(metric.scores(hyps, copies, source) @ repeated.mass, weighted, rtol)


def check_aggregate_of_aggregates(metric: Any, case: Case, rtol: float) -> None:
    """The average of the averages of parts is the average of all references."""
    groups = _without_empty(case.groups)
    hyps, refs, source = _features(metric, case)
    parts = metric.aggregate(refs, groups)
    whole = Groups(np.zeros(len(groups), np.intp), groups.mass)
    merged = metric.aggregate(parts, whole)
    at_once = metric.aggregate(refs, Groups(np.zeros(len(refs), np.intp), groups.weights))
    assert len(merged) == len(at_once) == 1
    _assert_close(metric.scores(hyps, merged, source), metric.scores(hyps, at_once, source), rtol)


def check_partial_statistics(metric: Any, case: Case, rtol: float) -> None:
    """Scores from partial statistics equal scores against the average reference."""
    groups = Groups(np.zeros(len(case.refs), np.intp), case.groups.weights)
    hyps, refs, source = _features(metric, case)
    expected = metric.scores(hyps, metric.aggregate(refs, groups), source)[:, 0]
    found = metric.finalize(hyps, metric.partial_statistics(hyps, refs, groups.share), source)
    _assert_close(found, expected, rtol)


def check_partial_statistics_add_up(metric: Any, case: Case, rtol: float) -> None:
    """Partial statistics of parts, pickled and added up, equal those of all references."""
    groups = case.groups
    hyps, refs, source = _features(metric, case)
    parts = []
    for group in range(len(groups)):
        rows = np.flatnonzero(groups.labels == group)
        own = metric.features([case.refs[row] for row in rows.tolist()])
        part = metric.partial_statistics(hyps, own, groups.weights[rows])
        parts.append(pickle.loads(pickle.dumps(part)))
    total = groups.weights.sum()
    whole = metric.partial_statistics(hyps, refs, groups.weights) / total
    _assert_close(metric.finalize(hyps, sum(parts) / total, source),
                  metric.finalize(hyps, whole, source), rtol)


ContractCheck = Callable[[Any, Case, float], None]

METRIC_CHECKS: tuple[ContractCheck, ...] = (
    check_shape, check_order_does_not_matter, check_batch_does_not_matter, check_rows,
    check_utility,
)
AGGREGATE_CHECKS: tuple[ContractCheck, ...] = (
    check_singleton_groups, check_grouped_duplicates, check_weights_are_repetitions,
    check_aggregate_of_aggregates,
)
PARTS_CHECKS: tuple[ContractCheck, ...] = (check_partial_statistics,
                                           check_partial_statistics_add_up)


@contextmanager
def _explained(check: Callable[..., None], name: str, **texts: Sequence[str]) -> Iterator[None]:
    """Add to errors what was checked, and with which texts."""
    try:
        yield
    except (AssertionError, InputError) as error:
        lines = [f"{check.__name__} of {name!r}: {check.__doc__}", str(error).strip(),
                 *(f"{what}: {list(given)}" for what, given in texts.items())]
        raise AssertionError("\n".join(lines)) from error


def _features(metric: AnyMetric, case: Case) -> tuple[Features, Features, Features | None]:
    source = metric.features([case.source]) if case.source is not None else None
    return metric.features(case.hyps), metric.features(case.refs), source


def _scores(metric: AnyMetric, case: Case) -> Floats:
    return metric.scores(*_features(metric, case))


def _assert_close(found: Floats, expected: Floats, rtol: float) -> None:
    """Compare with a tolerance relative to the largest score."""
    largest = np.abs(expected).max(initial=0.0)
    assert_allclose(found, expected, rtol=0, atol=max(rtol * largest, 1e-9))


def _without_empty(groups: Groups) -> Groups:
    """The same groups, with equal weights in groups that have no weight."""
    totals = np.bincount(groups.labels, groups.weights, minlength=len(groups))
    return Groups(groups.labels, np.where(totals[groups.labels] > 0, groups.weights, 1.0))


def _random_case(texts: Sequence[str], rng: np.random.Generator) -> Case:
    hyps = [texts[i] for i in rng.integers(len(texts), size=rng.integers(1, 9))]
    refs = [texts[i] for i in rng.integers(len(texts), size=rng.integers(1, 9))]
    labels: Ints = np.unique(rng.integers(0, 4, len(refs)), return_inverse=True)[1]
    weights = rng.integers(0, 4, len(refs))
    weights[rng.integers(len(refs))] += 1
    return Case(hyps, refs, labels.tolist(), weights.tolist())
