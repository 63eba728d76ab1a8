"""Rankings as training data: the best for distillation, or pairs of a better and a worse one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from minrisk.io.record import Record
from minrisk.segment import Ranking, Segment

PairChoice = Literal["best-worst", "best-middle-worst", "consecutive"]  # Yang et al. 2023
SOURCE = "{source}"


@dataclass(frozen=True)
class Example:
    """A hypothesis that a segment ranks, with its utility."""

    text: str
    utility: float


@dataclass(frozen=True)
class TrainingRecipe:
    """What a segment becomes."""

    pairs: PairChoice | None = None  # the best alone unless given
    stride: int = 1  # of consecutive pairs
    prompt: str = SOURCE  # the template of what a model is asked
    conversational: bool = False
    tabs: bool = False  # source and target in columns instead of JSON

    def lines(self, segment: Segment, ranking: Ranking) -> Iterator[str]:
        ranked, source = _ranked(segment, ranking), segment.source
        assert source is not None  # who reads the segments sees to it
        if self.tabs:
            yield f"{_cell(source)}\t{_cell(ranked[0].text)}"
        elif self.pairs is None:
            yield _json(self._best(source, ranked[0].text))
        else:
            for better, worse in self._chosen(ranked):
                if better.utility > worse.utility:  # of equals, none is preferred
                    yield _json(self._preference(source, better.text, worse.text))

    def _best(self, source: str, target: str) -> dict[str, Any]:
        if not self.conversational:
            return {"source": source, "target": target}
        return {"messages": [*self._asked(source), *_answered(target)]}

    def _preference(self, source: str, better: str, worse: str) -> dict[str, Any]:
        """As TRL's DPO trainer reads it."""
        if not self.conversational:
            return {"prompt": self._prompt(source), "chosen": better, "rejected": worse}
        return {"prompt": self._asked(source), "chosen": _answered(better),
                "rejected": _answered(worse)}

    def _chosen(self, ranked: list[Example]) -> Iterator[tuple[Example, Example]]:
        best, middle, worst = ranked[0], ranked[len(ranked) // 2], ranked[-1]
        if self.pairs == "best-worst":
            yield best, worst
        elif self.pairs == "best-middle-worst":
            yield from ((best, middle), (middle, worst))
        else:
            yield from pairwise(ranked[:: self.stride])

    def _prompt(self, source: str) -> str:
        return self.prompt.replace(SOURCE, source)

    def _asked(self, source: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": self._prompt(source)}]


@dataclass(frozen=True)
class TrainingWriter:
    """The lines that a segment becomes: none where no two hypotheses differ in utility."""

    recipe: TrainingRecipe

    def __call__(self, record: Record) -> str:
        assert record.segment is not None
        assert record.ranking is not None
        return "".join(f"{line}\n" for line in self.recipe.lines(record.segment, record.ranking))

    def failed(self, record: Record) -> str:
        """A segment that cannot be ranked is nothing to learn from."""
        return ""

    def counts(self, record: Record) -> Mapping[str, int]:
        assert record.segment is not None
        assert record.ranking is not None
        lines = self.recipe.lines(record.segment, record.ranking)
        return {"pairs": record.ranking.pairs, "without_pairs": int(next(lines, None) is None)}


def _ranked(segment: Segment, ranking: Ranking) -> list[Example]:
    """Each string once, best first, if the last stage looked at it."""
    found: dict[str, Example] = {}
    for i in ranking.order[~np.isnan(ranking.utility[ranking.order])].tolist():
        text = segment.hypotheses[i]
        found.setdefault(text, Example(text, float(ranking.utility[i])))
    return list(found.values())


def _answered(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _cell(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)
