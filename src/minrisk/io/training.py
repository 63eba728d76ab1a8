"""Rankings as training data: the best for distillation, or pairs of a better and a worse one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from minrisk.io.files import Output
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
class Recipe:
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


class TrainingWriter:
    """Lines that are out as soon as they are written; counts the segments that gave none."""

    def __init__(self, output: Output, recipe: Recipe) -> None:
        self._output = output
        self._recipe = recipe
        self.empty = 0

    def write(self, record: Record, ranking: Ranking) -> None:
        assert isinstance(record.segment, Segment)
        lines = [f"{line}\n" for line in self._recipe.lines(record.segment, ranking)]
        self._output.write("".join(lines))
        self.empty += not lines

    def fail(self, record: Record, error: Exception) -> None:
        """Who cannot be ranked is nothing to learn from."""


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
