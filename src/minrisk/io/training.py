"""Training data from rankings: the best texts for distillation, or preference pairs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from minrisk._core.errors import InputError, Wording
from minrisk._core.sampler import Message, Prompt
from minrisk._core.segment import Ranking, Segment
from minrisk._core.templates import fill
from minrisk.io.prompts import checked_messages
from minrisk.io.record import Record

PairChoice = Literal["best-worst", "best-middle-worst", "consecutive"]  # Yang et al. 2023
NO_FIELDS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class RankedText:
    """A hypothesis with its utility."""

    text: str
    utility: float


@dataclass(frozen=True)
class TrainingRecipe:
    """The format of training examples and the choice of pairs."""

    pairs: PairChoice | None = None  # None for the best text alone
    stride: int = 1  # distance in rank between the two of a consecutive pair
    prompt: str | None = None  # template of the prompt; the prompt of the segment unless given
    conversational: bool = False  # examples are chats of messages
    tabs: bool = False  # source and target separated by a tab, not JSON

    def lines(self, segment: Segment, ranking: Ranking,
              fields: Mapping[str, Any] = NO_FIELDS) -> Iterator[str]:
        """The examples of a segment; `fields` may have its prompt or messages."""
        ranked, prompt = _ranked(segment, ranking), self.prompt_for(segment.source, fields)
        if self.tabs:
            yield f"{_cell(str(prompt))}\t{_cell(ranked[0].text)}"
        elif self.pairs is None:
            yield _json(self._best(prompt, ranked[0].text))
        else:
            for better, worse in self._chosen(ranked):
                if better.utility > worse.utility:  # no preference between equal utilities
                    yield _json(self._preference(prompt, better.text, worse.text))

    def prompt_for(self, source: str | None, fields: Mapping[str, Any]) -> Prompt:
        """The prompt of an example: that of the segment or its chat, or else the source."""
        if self.prompt is not None:
            return self._filled_prompt(source)
        if source is not None and not self._holds_prompts:
            return source
        if fields.get("messages") is not None:
            return self._messages(fields["messages"])
        if isinstance(fields.get("prompt"), str):
            return str(fields["prompt"])
        if source is None:
            raise InputError("found no source, prompt or messages, wanted one of them for every "
                             "segment")
        return source

    def _filled_prompt(self, source: str | None) -> str:
        if source is None:
            raise InputError(Wording("found no source for the prompt template; leave prompt= out, "
                                     "or give a source for every segment"))
        return fill(self.prompt, source)

    @property
    def _holds_prompts(self) -> bool:
        """Whether examples have the prompt of the model, not just the source."""
        return self.pairs is not None or self.conversational

    def _messages(self, found: Any) -> Prompt:
        if not self.conversational:
            raise InputError(Wording("found messages, which only conversational=True examples "
                                     "hold"))
        return checked_messages(found)

    def _best(self, prompt: Prompt, target: str) -> dict[str, Any]:
        if not self.conversational:
            return {"source": prompt, "target": target}
        return {"messages": [*_user_messages(prompt), *_assistant_messages(target)]}

    def _preference(self, prompt: Prompt, better: str, worse: str) -> dict[str, Any]:
        """A preference pair in the format of TRL's DPO trainer."""
        if not self.conversational:
            return {"prompt": prompt, "chosen": better, "rejected": worse}
        return {"prompt": _user_messages(prompt), "chosen": _assistant_messages(better),
                "rejected": _assistant_messages(worse)}

    def _chosen(self, ranked: list[RankedText]) -> Iterator[tuple[RankedText, RankedText]]:
        best, middle, worst = ranked[0], ranked[len(ranked) // 2], ranked[-1]
        if self.pairs == "best-worst":
            yield best, worst
        elif self.pairs == "best-middle-worst":
            yield from ((best, middle), (middle, worst))
        else:
            yield from pairwise(ranked[:: self.stride])


@dataclass(frozen=True)
class TrainingWriter:
    """Writes the training examples of a segment; none if no utilities differ."""

    recipe: TrainingRecipe

    def __call__(self, record: Record) -> str:
        return "".join(f"{line}\n" for line in self._lines(record))

    def failed(self, record: Record) -> str:
        """A segment that failed has no examples."""
        return ""

    def counts(self, record: Record) -> Mapping[str, int]:
        assert record.ranking is not None
        empty = next(self._lines(record), None) is None
        return {"pairs": record.ranking.pairs, "without_pairs": int(empty)}

    def check(self, record: Record) -> None:
        """Raise an InputError if a segment has no source, prompt or messages."""
        assert record.segment is not None
        self.recipe.prompt_for(record.segment.source, record.fields)

    def _lines(self, record: Record) -> Iterator[str]:
        assert record.segment is not None
        assert record.ranking is not None
        return self.recipe.lines(record.segment, record.ranking, record.fields)


def _ranked(segment: Segment, ranking: Ranking) -> list[RankedText]:
    """The distinct hypotheses with a utility, best first."""
    found: dict[str, RankedText] = {}
    for i in ranking.order[~np.isnan(ranking.utility[ranking.order])].tolist():
        text = segment.hypotheses[i]
        found.setdefault(text, RankedText(text, float(ranking.utility[i])))
    return list(found.values())


def _user_messages(prompt: Prompt) -> Sequence[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _assistant_messages(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _cell(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)
