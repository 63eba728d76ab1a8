"""Decoding of every segment with every method, compared with standard MBR."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from material import Material
from methods import Methods
from resumable import Fields, StoredResults, resume
from settings import Settings, Utility

from minrisk import Batch, Ranking, Segment
from minrisk._core.signature import parts_signature
from minrisk.evaluation.study import TrialResult


@dataclass(frozen=True)
class Outcome(TrialResult):
    """What became of a method on one segment, as the paper counts and with distinct texts."""

    among_distinct: bool  # whether the text that standard MBR chooses is among the first `top`

    @classmethod
    def judged(cls, segment: Segment, exact: Ranking, ranking: Ranking, top: int) -> Outcome:
        target = segment.hypotheses[exact.best]
        distinct = dict.fromkeys(segment.hypotheses[row] for row in ranking.order.tolist())
        found = TrialResult.from_rankings(segment, exact, ranking, top, 0.0)
        return cls(**asdict(found), among_distinct=target in islice(distinct, top))


class Decoded:
    """What all methods made of the first n samples of each segment of a dataset."""

    def __init__(self, utility: Utility, material: Material, count: int,
                 found: StoredResults) -> None:
        self.utility, self.material, self.count = utility, material, count
        self.machine, self._records = found.machine, found.results

    @property
    def methods(self) -> list[str]:
        return list(self._records[0]["choices"])

    @property
    def labels(self) -> list[str]:
        return list(self._records[0]["outcomes"])

    def texts(self, method: str) -> list[str]:
        """What a method chose for each segment."""
        return [record["choices"][method] for record in self._records]

    def outcomes(self, label: str) -> list[Outcome]:
        return [Outcome(**record["outcomes"][label]) for record in self._records]


def decode(utility: Utility, material: Material, count: int, settings: Settings, work: Path,
           curves: bool, processes: int = 1) -> Decoded:
    """With the points of all curves, or only the choices."""
    def judge(left: Sequence[int]) -> Iterator[Fields]:
        segments = (Segment(material.samples[index][:count], position=index,
                            source=material.items[index].source) for index in left)
        if left:
            yield from _spread(segments, partial(_judge, utility, _alone(settings), curves),
                               processes)

    path = work / material.name / f"{utility.name}-{count}{'-curves' if curves else ''}.jsonl"
    found = resume(path, _made(utility, settings, count), range(len(material.items)), judge)
    return Decoded(utility, material, count, found)


def _judge(utility: Utility, settings: Settings, curves: bool) -> Callable[[Segment], Fields]:
    return partial(_judged, methods=Methods(utility, settings), top=settings.top, curves=curves)


def _spread(segments: Iterable[Segment], make: Callable[[], Callable[[Segment], Fields]],
            processes: int) -> Iterator[Fields]:
    """What each segment comes to, in order; processes that share a GPU wait less for it."""
    if processes == 1:
        yield from map(make(), segments)
    else:
        with get_context("spawn").Pool(processes, _begin, [make]) as pool:
            yield from pool.imap(_next, segments)


def _alone(settings: Settings) -> Settings:
    """Without judges, who may have loaded models."""
    return replace(settings, judges={}, utilities=())


def _begin(make: Callable[[], Callable[[Segment], Fields]]) -> None:
    global _work  # which a process builds once
    warnings.simplefilter("ignore")  # the first process has said it
    _work = make()


def _next(segment: Segment) -> Fields:
    return _work(segment)


def _judged(segment: Segment, methods: Methods, top: int, curves: bool) -> Fields:
    batch = Batch([segment])
    [exact] = methods.exact.rank(batch)
    outcomes, choices, count = {}, {}, len(segment.hypotheses)
    for point in methods.points(count) if curves else ():
        [ranking] = point.strategy.rank(batch)
        outcomes[point.label] = asdict(Outcome.judged(segment, exact, ranking, top))
    for name, strategy in methods.choices(count):
        [ranking] = strategy.rank(batch)
        choices[name] = segment.hypotheses[ranking.best]
    return {"choices": choices, "outcomes": outcomes}


def _made(utility: Utility, settings: Settings, count: int) -> str:
    metrics: dict[str, Any] = {f.name: getattr(utility, f.name) for f in fields(utility)
                               if f.name in ("metric", "expected", "coarse")}
    return parts_signature(**metrics, curves=json.dumps(dict(utility.curves)),
                           effective=list(settings.effective), n=count, keep=settings.keep,
                           top=settings.top, corrected=settings.corrected, seed=settings.seed)
