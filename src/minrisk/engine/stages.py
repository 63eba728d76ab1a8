"""What workers do with a block: draw samples, choose among them, and write what came of it.

A stage is frozen data. Every worker builds the models behind it for itself, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, ClassVar, Protocol

from minrisk.engine.block import Block, Done
from minrisk.engine.ranking import run
from minrisk.engine.sampling import Drawn, draw, instructed
from minrisk.errors import InputError, MinriskError
from minrisk.io.folder import Failure
from minrisk.io.jsonl import JsonLines
from minrisk.io.prompts import Asked, read_prompt
from minrisk.io.record import AUTO, Record, Weighting
from minrisk.io.writer import SegmentWriter, Sink, json_line
from minrisk.metric import AnyMetric
from minrisk.sampling.columns import columns
from minrisk.sampling.sample import Sampler
from minrisk.segment import Ranking, Segment
from minrisk.strategy import Strategy, is_light


class Stage(Protocol):
    """Takes a block one step further."""

    @property
    def name(self) -> str: ...

    @property
    def is_light(self) -> bool:
        """Whether a worker for each core costs little."""

    def __call__(self, block: Block) -> Block | Done: ...

    def refusing(self, reason: str) -> Stage:
        """The same, but every segment fails, for this reason."""


@dataclass(frozen=True)
class Decode:
    """From lines of samples, or samples as they were drawn, to lines of the output."""

    name: ClassVar[str] = "decode"

    strategy: Strategy
    writer: Callable[[Sink], SegmentWriter]
    weighting: Weighting = AUTO
    oracle: str | None = None
    batch_size: int | None = None

    @property
    def is_light(self) -> bool:
        return is_light(self.strategy)

    def __call__(self, block: Block) -> Done:
        text, failures = StringIO(newline=""), []
        writer, pairs = self.writer(text), 0
        for record, result in run(self.strategy, self._records(block), self.batch_size, "skip"):
            if isinstance(result, MinriskError):
                writer.fail(record, result)
                failures.append(_failure(record.id, record.where, result))
            else:
                writer.write(record, result)
                pairs += result.pairs
        return _done(block, text, failures, block.counts | {"pairs": pairs})

    def refusing(self, reason: str) -> Decode:
        return replace(self, strategy=_Refusing(reason), batch_size=1)

    def _records(self, block: Block) -> Iterator[Record]:
        if block.is_drawn:
            return records(block.items, self.weighting)
        reader = JsonLines([], self.weighting, oracle=self.oracle)
        return (reader.line(line.content, block.shard.path, line.number, index)
                for index, line in enumerate(block.items, block.start))


@dataclass(frozen=True)
class Draw:
    """From lines of prompts to samples, for another stage to choose from."""

    name: ClassVar[str] = "sample"
    is_light: ClassVar[bool] = False

    sampler: Sampler
    n: int
    seed: int = 0
    batch_size: int | None = None

    def __call__(self, block: Block) -> Block:
        asked = instructed(_asked(block), self.sampler)
        drawn = list(draw(self.sampler, asked, self.n, self.seed, self.batch_size, "skip"))
        return replace(block, items=drawn, is_drawn=True, counts=_count(drawn))

    def refusing(self, reason: str) -> Draw:
        return replace(self, sampler=_Refusing(reason))


@dataclass(frozen=True)
class Sample:
    """From lines of prompts to lines of samples."""

    name: ClassVar[str] = "sample"
    is_light: ClassVar[bool] = False

    sampler: Sampler
    n: int
    seed: int = 0
    repeat: bool = False
    batch_size: int | None = None

    def __call__(self, block: Block) -> Done:
        drawn = list(draw(self.sampler, _asked(block), self.n, self.seed, self.batch_size, "skip"))
        text = StringIO("".join(samples_line(*pair, self.repeat) for pair in drawn), newline="")
        failures = [_failure(item.id, item.where, result) for item, result in drawn
                    if isinstance(result, MinriskError)]
        return _done(block, text, failures, _count(drawn))

    def refusing(self, reason: str) -> Sample:
        return replace(self, sampler=_Refusing(reason))


def records(drawn: Iterable[tuple[Asked, Drawn]], weighting: Weighting) -> Iterator[Record]:
    """As if the samples had been written and read again."""
    reader = JsonLines([], weighting)
    for item, result in drawn:
        if isinstance(result, MinriskError):
            yield Record(item.id, item.where, InputError(str(result)), item.fields)
        else:
            fields = {"id": item.id, **item.fields, **columns(result)}
            yield replace(reader.record(fields, item.where, item.index), extra=item.fields)


def samples_line(item: Asked, result: Drawn, repeat: bool) -> str:
    """The samples of a prompt as `minrisk decode` reads them, or why there are none."""
    fields = {"id": item.id, **item.fields}
    if isinstance(result, MinriskError):
        return json_line(fields | {"error": str(result)})
    return json_line(fields | columns(result, repeat))


def count_samples(result: Drawn) -> dict[str, int]:
    """How many samples and tokens were drawn."""
    found = [] if isinstance(result, MinriskError) else result
    return {"samples": sum(s.count for s in found),
            "tokens": sum(s.count * len(s.tokens) for s in found)}


@dataclass(frozen=True)
class _Refusing:
    """A strategy and a sampler that fails, in place of one that brings its worker down."""

    reason: str
    name: ClassVar[str] = "refusing"

    @property
    def metric(self) -> AnyMetric:
        raise InputError(self.reason)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        raise InputError(self.reason)

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Any]]:
        raise InputError(self.reason)


def _asked(block: Block) -> Iterator[Asked]:
    return (read_prompt(line.content, block.shard.path, line.number, index, block.shard.as_json)
            for index, line in enumerate(block.items, block.start))


def _count(drawn: Iterable[tuple[Asked, Drawn]]) -> Counter[str]:
    return sum((Counter(count_samples(result)) for _, result in drawn), Counter())


def _failure(name: Any, where: str, error: MinriskError) -> Failure:
    file, _, line = where.rpartition(":")
    return {"file": file, "line": int(line), "id": name,
            "reason": str(error).removeprefix(f"{where}: ")}


def _done(block: Block, text: StringIO, failures: Sequence[Failure],
          counts: dict[str, int]) -> Done:
    return Done(block.number, block.start, len(block.items), text.getvalue(), block.read, counts,
                failures, block.seconds)
