"""One segment: what standard MBR picks, and what every trial makes of the same features."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, islice
from typing import Any, get_type_hints

import numpy as np

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.groups import Groups
from minrisk._core.metric import AnyMetric
from minrisk._core.options import checked
from minrisk._core.pool import Batch, bind
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import parts_signature
from minrisk.evaluation.budgets import Trial, trials

EXACT = Trial("standard")
_PROBE = 16  # texts


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial made of a segment."""

    first: bool  # picks the string that standard MBR picks
    among: bool  # has that string among its first `top` samples
    lost: float  # exact utility of that string, less that of its own choice
    pairs: int
    seconds: float  # without the features, which all trials share

    @classmethod
    def of(cls, segment: Segment, exact: Ranking, ranking: Ranking, top: int,
           seconds: float) -> TrialOutcome:
        """Of a ranking, measured by that of standard MBR."""
        target = segment.hypotheses[exact.best]
        best = [segment.hypotheses[i] for i in ranking.order[:top]]
        lost = exact.utility[exact.best] - exact.utility[ranking.best]
        return cls(best[0] == target, target in best, float(lost), ranking.pairs, seconds)


@dataclass(frozen=True)
class SegmentOutcomes:
    """A segment's outcomes, and what they are to be measured by."""

    gain: float  # what standard MBR wins over a sample at random
    references: int
    features: float  # seconds
    outcomes: dict[str, TrialOutcome]  # by the label of the trial

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], labels: Iterable[str]) -> SegmentOutcomes:
        """Of the trials with these labels; what `as_json` would not give is an error."""
        try:
            found = {label: _typed(TrialOutcome, fields["outcomes"][label]) for label in labels}
            return cls(**_typed(cls, fields) | {
                "outcomes": {label: TrialOutcome(**values) for label, values in found.items()}})
        except (KeyError, TypeError) as error:
            raise InputError(f"found no outcomes of a segment ({error}); remove the file to have "
                             "it made again") from None


def _typed(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass, each of its type."""
    hints = get_type_hints(cls)
    return {name: checked(name, fields[name], hint) for name, hint in hints.items()}


class Study:
    """Strategies that a metric can do, at the budgets that suit the size of typical segments."""

    def __init__(self, metric: AnyMetric, typical: Sequence[Segment], strategies: Iterable[str],
                 top: int = 20, note: Callable[[str], None] = lambda message: None,
                 **options: Any) -> None:
        self.metric = metric
        self.top = top
        self._options = options  # in the signature, and for the strategies with such fields
        others = [name for name in strategies if name != EXACT.strategy]
        self.trials = [EXACT, *self._possible(trials(others, typical), _probe(typical), note)]

    @property
    def signature(self) -> str:
        return parts_signature(metric=self.metric, top=self.top, **self._options)

    def evaluate(self, segment: Segment) -> SegmentOutcomes:
        batch, features = self._prepared(segment)
        exact, seconds = self._timed(EXACT, batch)
        found = {EXACT: (exact, seconds)}
        found |= {trial: self._timed(trial, batch) for trial in self.trials[1:]}
        gain = exact.utility[exact.best] - np.average(exact.utility, weights=segment.counts)
        return SegmentOutcomes(float(gain), len(segment.references), features, {
            trial.label: TrialOutcome.of(segment, exact, ranking, self.top, seconds)
            for trial, (ranking, seconds) in found.items()
        })

    def _prepared(self, segment: Segment) -> tuple[Batch, float]:
        """The segment with its features, and the seconds they took."""
        start = time.perf_counter()
        batch = Batch([segment])
        (pool,) = bind(self.metric, batch)
        # one pair: a metric may put off some of its work until it is needed
        one = np.array([0])
        pool.keep(one).utility(Groups.subset(np.ones(len(segment.references)), one))
        return batch, time.perf_counter() - start

    def _timed(self, trial: Trial, batch: Batch) -> tuple[Ranking, float]:
        strategy = self._strategy(trial, batch[0])
        # of its own, so that features of further metrics are not found by the next trial
        own = batch.keep([np.arange(len(batch[0].hypotheses))])
        start = time.perf_counter()
        (ranking,) = strategy.rank(own)
        return ranking, time.perf_counter() - start

    def _strategy(self, trial: Trial, segment: Segment) -> Any:
        fields = {field.name for field in dataclasses.fields(STRATEGIES.get(trial.strategy))}
        own = {key: value for key, value in self._options.items() if key in fields}
        return STRATEGIES.make(trial.strategy, metric=self.metric, **own | trial.options(segment))

    def _possible(self, candidates: Iterable[Trial], probe: Segment,
                  note: Callable[[str], None]) -> Iterator[Trial]:
        """Trials of the strategies that this metric can do, as a small problem shows."""
        batch = Batch([probe])
        self._timed(EXACT, batch)  # whatever is wrong here is wrong with all of them
        for strategy, found in groupby(candidates, key=lambda trial: trial.strategy):
            own = list(found)
            try:
                for trial in own:
                    self._timed(trial, batch)
                yield from own
            except MinriskError as error:
                note(f"without {strategy}: {error}")


def _probe(segments: Sequence[Segment]) -> Segment:
    """A small problem with so many different texts that no stage of a strategy is left out."""
    hyps = chain.from_iterable(segment.hypotheses for segment in segments)
    refs = chain.from_iterable(segment.references for segment in segments)
    return Segment(_different(hyps), _different(refs), segments[0].source)


def _different(texts: Iterable[str]) -> list[str]:
    """The first different ones; where they are too few, others that are made of the first."""
    found = list(islice(dict.fromkeys(texts), _PROBE))
    return [*found, *(f"{found[0]} {number}" for number in range(_PROBE - len(found)))]
