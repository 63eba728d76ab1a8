"""The trials of `minrisk validate`, each compared with standard MBR on the same features."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, islice
from statistics import median
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from minrisk._core.batch import Batch, bind
from minrisk._core.errors import InputError, MinriskError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.options import checked
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import parts_signature
from minrisk._core.strategy import Budget, Whole
from minrisk.evaluation.coverage import Coverage


@dataclass(frozen=True)
class Trial:
    """A strategy with one budget, or with default options."""

    strategy: str
    option: str | None = None
    value: float | None = None
    of: Whole | None = None

    @property
    def budget(self) -> str:
        """The budget as text, such as `keep n/8`."""
        if self.option is None or self.value is None:
            return ""
        if self.of is None:
            return f"{self.option} {self.value:g}"
        whole = "n²" if self.of == "pairs" else "n"
        return f"{self.option} {whole}/{1 / self.value:g}"

    @property
    def label(self) -> str:
        return f"{self.strategy} {self.budget}".rstrip()

    def options(self, segment: Segment) -> dict[str, float]:
        if self.option is None or self.value is None:
            return {}
        if self.of is None or self.of == "pairs":
            return {self.option: self.value}
        return {self.option: max(1, round(self.value * _size(segment, self.of)))}


def trials(strategies: list[str], segments: Sequence[Segment]) -> list[Trial]:
    """The trials for segments of this size: one per strategy and budget, or per strategy."""
    return [trial for name in strategies for trial in _trials(name, segments)]


def _trials(strategy: str, segments: Sequence[Segment]) -> list[Trial]:
    budget: Budget | None = getattr(STRATEGIES.get(strategy), "tried", None)
    if budget is None:
        return [Trial(strategy)]
    of, values = budget.of, budget.values
    if of is not None:
        typical = median(_size(segment, of) for segment in segments)
        values = tuple(value for value in values if value * typical >= 1)
    return [Trial(strategy, budget.option, value, of) for value in values] or [Trial(strategy)]


def _size(segment: Segment, of: Whole) -> int:
    """What a budget is a share of; for pairs the references: each hypothesis needs at least one."""
    return len(segment.hypotheses if of == "hypotheses" else segment.references)


EXACT = Trial("standard")
_PROBE_TEXTS = 16  # texts of the small segment on which strategies are tested first


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial on one segment."""

    first: bool  # it chooses the same text as standard MBR
    among: bool  # the choice of standard MBR is among its first `top` hypotheses
    lost: float  # exact utility of standard MBR's choice minus that of its own choice
    pairs: int
    seconds: float  # without feature extraction, which all trials share

    @classmethod
    def from_rankings(cls, segment: Segment, exact: Ranking, ranking: Ranking, top: int,
                      seconds: float) -> TrialResult:
        """The result of a ranking, compared with that of standard MBR."""
        target = segment.hypotheses[exact.best]
        best = [segment.hypotheses[i] for i in ranking.order[:top]]
        lost = exact.utility[exact.best] - exact.utility[ranking.best]
        return cls(best[0] == target, target in best, float(lost), ranking.pairs, seconds)


@dataclass(frozen=True)
class TrialResults:
    """The results of all trials on one segment."""

    gain: float  # utility of standard MBR's choice minus that of a random sample
    references: int
    features: float  # seconds to extract the features
    outcomes: dict[str, TrialResult]  # by the trial's label; files use this field name, too
    coverage: Coverage | None = None  # for votes with a gold answer

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        if self.coverage is None:
            del fields["coverage"]
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], labels: Sequence[str]) -> TrialResults:
        """The results of the trials with these labels, or of all; InputError if one is missing."""
        try:
            given = fields["outcomes"]
            outcomes = {label: _typed(TrialResult, given[label]) for label in labels or given}
            covered = fields.get("coverage")
            return cls(**_typed(cls, {**fields, "coverage": None}) | {
                "coverage": covered and Coverage(**_typed(Coverage, covered)),
                "outcomes": {label: TrialResult(**values) for label, values in outcomes.items()}})
        except (KeyError, TypeError) as error:
            raise InputError(f"found no results of trials ({error}); remove the file, and run "
                             "again") from None


def _typed(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass, with their types checked."""
    hints = get_type_hints(cls)
    return {name: checked(name, fields[name], hint) for name, hint in hints.items()}


class LeftOut(NamedTuple):
    """Strategies that are not tried, with the reason."""

    strategies: Sequence[str]
    reason: MinriskError | str

    def __str__(self) -> str:
        return Wording("without {names}: {reason}", names=", ".join(self.strategies),
                       reason=self.reason)


class Study:
    """A comparison of strategies for a metric, at budgets that suit typical segments.

    A strategy that does not work with the metric is reported to `note` and left out; without
    `note`, it is an error.
    """

    def __init__(self, metric: AnyMetric, typical: Sequence[Segment], strategies: Iterable[str],
                 top: int = 20, note: Callable[[LeftOut], None] | None = None,
                 **options: Any) -> None:
        self.metric = metric
        self.top = top
        self._options = options  # for strategies that have them; they are part of the signature
        others = [name for name in strategies if name != EXACT.strategy]
        self.trials = [EXACT, *self._possible(trials(others, typical), _probe(typical), note)]

    @property
    def signature(self) -> str:
        return parts_signature(metric=self.metric, top=self.top, **self._options)

    def evaluate(self, segment: Segment, golds: Sequence[str] | None = None) -> TrialResults:
        """The results of all trials on a segment, which may have gold answers."""
        batch, features = self._prepared(segment)
        exact, seconds = self._timed(EXACT, batch)
        rankings = {EXACT: (exact, seconds)}
        rankings |= {trial: self._timed(trial, batch) for trial in self.trials[1:]}
        gain = exact.utility[exact.best] - np.average(exact.utility, weights=segment.counts)
        return TrialResults(float(gain), len(segment.references), features, {
            trial.label: TrialResult.from_rankings(segment, exact, ranking, self.top, seconds)
            for trial, (ranking, seconds) in rankings.items()
        }, self._coverage(segment, exact, golds))

    def _coverage(self, segment: Segment, exact: Ranking,
                  golds: Sequence[str] | None) -> Coverage | None:
        if golds is None or not self.metric.is_vote or self.metric.compares_outcomes:
            return None
        return Coverage.from_samples(self.metric, segment.hypotheses, segment.counts.tolist(),
                                     exact.best, golds)

    def _prepared(self, segment: Segment) -> tuple[Batch, float]:
        """The segment with its features, and the seconds it took to extract them."""
        start = time.perf_counter()
        batch = Batch([segment])
        (pool,) = bind(self.metric, batch)
        # score one pair, because a metric may do part of the extraction on first use
        pool.keep(np.array([0])).utility(np.flatnonzero(segment.weights)[:1])
        return batch, time.perf_counter() - start

    def _timed(self, trial: Trial, batch: Batch) -> tuple[Ranking, float]:
        strategy = self._strategy(trial, batch[0])
        # a fresh batch: features that the strategy adds must not speed up the next trial
        own = batch.keep([np.arange(len(batch[0].hypotheses))])
        start = time.perf_counter()
        (ranking,) = strategy.rank(own)
        return ranking, time.perf_counter() - start

    def _strategy(self, trial: Trial, segment: Segment) -> Any:
        fields = {field.name for field in dataclasses.fields(STRATEGIES.get(trial.strategy))}
        own = {key: value for key, value in self._options.items() if key in fields}
        return STRATEGIES.make(trial.strategy, metric=self.metric, **own | trial.options(segment))

    def _possible(self, candidates: Iterable[Trial], probe: Segment,
                  note: Callable[[LeftOut], None] | None) -> Iterator[Trial]:
        """The trials of the strategies that work with this metric, tested on a small segment."""
        batch = Batch([probe])
        self._timed(EXACT, batch)  # an error here would affect every strategy
        for strategy, group in groupby(candidates, key=lambda trial: trial.strategy):
            own = list(group)
            try:
                for trial in own:
                    self._timed(trial, batch)
                yield from own
            except MinriskError as error:
                if note is None:
                    raise InputError(Wording("cannot try {strategy}: {error}", strategy=strategy,
                                             error=error)) from None
                note(LeftOut([strategy], error))


def _probe(segments: Sequence[Segment]) -> Segment:
    """A small segment with enough distinct texts for every stage of a strategy."""
    hyps = _distinct_texts(chain.from_iterable(segment.hypotheses for segment in segments))
    refs = _distinct_texts(chain.from_iterable(segment.references for segment in segments))
    return Segment(hyps, refs, segments[0].source, outcomes=hyps)


def _distinct_texts(texts: Iterable[str]) -> list[str]:
    """The first 16 distinct texts; if there are too few, variants of the first."""
    distinct = list(islice(dict.fromkeys(texts), _PROBE_TEXTS))
    missing = _PROBE_TEXTS - len(distinct)
    return [*distinct, *(f"{distinct[0]} {number}" for number in range(missing))]
