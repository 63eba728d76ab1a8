"""The stages of the pipeline: parse records, generate samples, decode, and render the output.

A stage is frozen data that can be sent to a worker, which then loads its models once. It takes an
iterator of records and yields each of them with its result, in any order; records that failed
earlier pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from minrisk._core.arrays import Floats
from minrisk._core.batch import Batch
from minrisk._core.errors import InputError, MinriskError, Wording, warn
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric, concurrent_batches_of
from minrisk._core.pool import Pool
from minrisk._core.sampler import (
    PartialError,
    Sample,
    Sampler,
    finished_samples,
    number_drawn,
)
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import (
    Strategy,
    all_metrics,
    batch_size_of,
    check_rankings,
    loads_model,
    metrics_of,
    prepare,
    prepare_thread,
    take_usage,
)
from minrisk.io.prompts import is_source
from minrisk.io.records import (
    AUTO,
    RawRecord,
    Reader,
    Record,
    Result,
    Weighting,
    segment_among,
    segment_of,
)
from minrisk.io.segments import source_of
from minrisk.io.writers import Writer
from minrisk.pipeline.batches import OnError, in_batches, in_threads, is_finished

_PROMPTS_WITH_EQUAL_SAMPLES = 3  # that make a warning


class Stage(Protocol):
    """A step of the pipeline, from records to records."""

    @property
    def name(self) -> str: ...

    @property
    def loads_model(self) -> bool:
        """Whether it loads a model; otherwise one worker per core is cheap."""

    def prepare(self) -> None:
        """Load models; raises errors that would concern every record."""

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Parse:
    """The stage from raw records to records."""

    name: ClassVar[str] = "parse"
    loads_model: ClassVar[bool] = False

    reader: Reader  # the reader of any shard; parsing does not depend on its files

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[RawRecord | Record]) -> Iterator[Record]:
        for item in items:
            yield item if isinstance(item, Record) else self.record(item)

    def record(self, raw: RawRecord) -> Record:
        try:
            return self.reader.parse(raw)
        except Exception as error:  # an unforeseen record must not end a long run
            return Record.of(raw).failed(error)


@dataclass(frozen=True)
class GenerateSamples:
    """The stage from prompts to samples."""

    name: ClassVar[str] = "sample"
    loads_model: ClassVar[bool] = True

    sampler: Sampler
    n: int
    seed: int = 0
    batch_size: int | None = None
    on_error: OnError = "skip"
    fail_blank: bool = False  # otherwise a blank source has blank samples
    must_instruct: bool = False  # a causal model needs an instruction besides the source

    def prepare(self) -> None:
        self.sampler.prepare()

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        checked = map(self._checked, items)
        if self.sampler.streams:
            return self._streamed(checked)
        size = self.batch_size or self.sampler.batch_size(self.n)
        return in_batches(checked, size, self._sample, self.on_error)

    def _checked(self, record: Record) -> Record:
        """The record, with blank samples if its source is blank, or with its error."""
        if record.error is not None:
            return record
        if isinstance(record.prompt, str) and not record.prompt.strip():
            if self.fail_blank:
                return record.failed(InputError("the source is blank; there is nothing to sample "
                                                "from"))
            return record.replace(samples=[Sample("", self.n, 0.0)])
        if not isinstance(record.prompt, str) and not self.sampler.takes_messages:
            return record.failed(InputError(f"found messages, which sampler {self.sampler.name!r} "
                                            "does not take; wanted a source or a prompt"))
        if self._lacks_instruction(record):
            return record.failed(InputError(Wording('the model needs an instruction besides the '
                                                    'source; give prompt="Translate into French: '
                                                    '{source}"')))
        return record

    def _lacks_instruction(self, record: Record) -> bool:
        return (self.must_instruct and is_source(record) and self.sampler.is_causal
                and self.sampler.prompt is None)

    def _sample(self, batch: Sequence[Record]) -> Sequence[Record]:
        prompts: list[Any] = [record.prompt for record in batch]
        try:
            found: Sequence[Any] = self.sampler.sample(prompts, self.n, self.seed,
                                                       [record.index for record in batch])
        except PartialError as error:
            found = error.results
        return [self._with_samples(*pair) for pair in zip(batch, found, strict=True)]

    def _streamed(self, records: Iterator[Record]) -> Iterator[Record]:
        """Samples as they finish; no record waits for another."""
        passing: list[Record] = []

        def requests() -> Iterator[Any]:  # records with a prompt
            for record in records:
                if is_finished(record):
                    passing.append(record)
                else:
                    yield record

        # closing the generator cancels pending requests
        with closing(self.sampler.stream(requests(), self.n, self.seed)) as results:
            for record, found in results:
                yield from passing
                passing.clear()
                yield self._with_samples(record, found)
        yield from passing

    def _with_samples(self, record: Record, found: Sequence[Sample] | MinriskError) -> Record:
        if isinstance(found, MinriskError):
            return record.failed(found)
        if self.sampler.is_random:
            self._equality.check(found)
        return record.replace(samples=found)

    @lazy
    def _equality(self) -> EqualSamples:
        return EqualSamples()


class EqualSamples:
    """Warns once if the samples of each of the first prompts are all equal.

    One prompt may have a single likely answer; that several in a row do is a sign of a server that
    ignores the temperature or returns cached answers.
    """

    def __init__(self) -> None:
        self._prompts = 0  # so far, all of them with equal samples
        self._is_decided = False

    def check(self, samples: Sequence[Sample]) -> None:
        if self._is_decided or sum(sample.count for sample in samples) < 2:
            return
        is_equal = len({sample.text for sample in samples}) == 1
        self._prompts += is_equal
        self._is_decided = not is_equal or self._prompts == _PROMPTS_WITH_EQUAL_SAMPLES
        if is_equal and self._is_decided:
            warn(Wording("all samples of a prompt are equal, for each of the first {prompts} "
                         "prompts, so there is nothing to choose from; the server may ignore the "
                         "temperature or return cached answers, or sampling is cut to the "
                         "likeliest tokens: check the server's settings, or raise temperature=",
                         prompts=self._prompts))


@dataclass(frozen=True)
class GenerateReferences:
    """The stage that samples again, for references that are no hypotheses."""

    name: ClassVar[str] = "references"
    loads_model: ClassVar[bool] = True

    generate: GenerateSamples

    def prepare(self) -> None:
        self.generate.prepare()

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        return map(_swapped, self.generate(map(_swapped, items)))


def _swapped(record: Record) -> Record:
    """The record with its samples aside, so that it can be sampled for again; and back."""
    return record.replace(samples=record.reference_samples, reference_samples=record.samples)


@dataclass(frozen=True)
class SamplesToSegments:
    """The stage from samples to segments."""

    name: ClassVar[str] = "segment"
    loads_model: ClassVar[bool] = False

    weighting: Weighting = AUTO
    prefer_finished: bool = False  # truncated samples are candidates only if all are truncated
    is_vote: bool = False  # so that those that are no candidates vote for no answer

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        return map(self._record, items)

    def _record(self, record: Record) -> Record:
        if record.error is not None:
            return record
        try:
            return record.replace(segment=self._segment(record))
        except InputError as error:
            return record.failed(error)

    def _segment(self, record: Record) -> Segment:
        samples, source = record.samples or (), source_of(dict(record.fields))
        found = finished_samples(samples) if self.prefer_finished else samples
        if not self.is_vote or record.reference_samples is not None:
            return segment_of(found, source, self.weighting, record.index,
                              record.reference_samples)
        others = [sample for sample in samples if sample not in found]
        without_text = number_drawn(samples) - sum(sample.count for sample in samples)
        if without_text and not self.weighting.by_logprobs:
            others.append(Sample("", count=without_text))
        return segment_among(found, others, source, self.weighting, record.index)


@dataclass(frozen=True)
class Decode:
    """The stage from segments to rankings."""

    name: ClassVar[str] = "decode"

    strategy: Strategy
    batch_size: int | None = None
    on_error: OnError = "skip"
    scores: bool = False  # also keep the matrix of all scores

    @property
    def loads_model(self) -> bool:
        return loads_model(self.strategy)

    def prepare(self) -> None:
        prepare(self.strategy)

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        size = self.batch_size or batch_size_of(self.strategy)
        threads = concurrent_batches_of(metrics_of(self.strategy))
        if threads == 1:
            return in_batches(items, size, self._rank, self.on_error)
        return in_threads(items, size, self._rank, self.on_error, threads,
                          partial(prepare_thread, self.strategy))

    def _rank(self, batch: Sequence[Record]) -> Sequence[Record]:
        for record in batch:
            warn_of_other_choice(record.fields.get("signature"), self._signature)
        matrices: list[Floats | None] = [None] * len(batch)
        segments = Batch(r.segment for r in batch if r.segment is not None)
        metric = self.strategy.metric
        if self.scores:
            matrices = [pool.keep_scores() for pool in segments.pools(metric)]
        rankings = self.strategy.rank(segments)
        check_rankings(self.strategy.name, rankings, segments)
        return [record.replace(ranking=ranking, scores=matrix,
                               details=self._details(pool, ranking))
                for record, pool, ranking, matrix
                in zip(batch, segments.pools(metric), rankings, matrices, strict=True)]

    @lazy
    def _signature(self) -> str:
        return signature(self.strategy)

    @lazy
    def _metrics(self) -> list[AnyMetric]:
        return [*all_metrics(self.strategy)]

    def _details(self, pool: Pool[Any], ranking: Ranking) -> dict[str, Any]:
        usage = take_usage(self._metrics, pool.segment)
        found = pool.details(ranking)
        return found | {"judge_usage": dict(usage)} if usage else found


def warn_of_other_choice(recorded: object, ours: str) -> None:
    """Warn of a record whose choice, by a server for one, was made in another way."""
    if not isinstance(recorded, str):
        return
    theirs, own = (dict(part.partition(":")[::2] for part in text.split("|"))
                   for text in (recorded, ours))
    if any(theirs.get(name, value) != value or name not in theirs for name, value in own.items()
           if name in ("strategy", "metric") or name.startswith("metric.")):
        warn(f"the input has choices by {recorded}; this run chooses by {ours}: name the "
             "same strategy and metric for the same choices")


@dataclass(frozen=True)
class CheckRecords:
    """The stage that fails the records that an output cannot use."""

    name: ClassVar[str] = "check"
    loads_model: ClassVar[bool] = False

    check: Callable[[Record], None]

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        for record in items:
            try:
                if record.error is None:
                    self.check(record)
            except InputError as error:
                yield record.failed(error)
            else:
                yield record


@dataclass(frozen=True)
class Write:
    """The stage from records to their lines of the output."""

    name: ClassVar[str] = "render"
    loads_model: ClassVar[bool] = False

    writer: Writer
    rephrase: Callable[[object], str] = str  # of errors, for a command that names options by flags

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Result]:
        return map(self._result, items)

    def _result(self, record: Record) -> Result:
        if record.error is None:
            try:
                return self._made(record, self.writer(record), record.scores)
            except (ValueError, RecursionError, MinriskError) as error:  # nested too deeply
                record = record.failed(error).replace(fields={})
        record = record.replace(error=InputError(self.rephrase(record.error)))
        return self._made(record, self.writer.failed(record), None)

    def _made(self, record: Record, text: str, scores: Any) -> Result:
        counts = {} if record.error is not None else self.writer.counts(record)
        return Result(record.shard, record.index, record.checksum, text, counts, record.failure,
                      scores, record.value)


@dataclass(frozen=True)
class Collect:
    """The last stage if nothing is written: turns each record into an object for the caller."""

    name: ClassVar[str] = "render"
    loads_model: ClassVar[bool] = False

    make: Callable[[Record], Any]

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Record]) -> Iterator[Result]:
        for record in items:
            yield Result(record.shard, record.index, record.checksum, "", {}, record.failure,
                         value=self.make(record))
