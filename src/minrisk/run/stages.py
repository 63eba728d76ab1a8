"""The stages of a run: parse records, generate samples, decode, and render the output.

A stage is frozen data that can be sent to a worker, which then loads its models once. It takes an
iterator of records and yields each of them with its result, in any order; records that failed
earlier pass through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from minrisk._core.arrays import Floats
from minrisk._core.batch import Batch
from minrisk._core.errors import (
    InputError,
    MinriskError,
    MissingExtra,
    UnusableError,
    Wording,
    warn,
)
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
from minrisk._core.segment import Ranking
from minrisk._core.signature import choose_alike, signature
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
from minrisk.io.records import RawRecord, Reader, Record, Result, segment_among, segment_of
from minrisk.io.segments import source_of
from minrisk.io.weighting import AUTO, Weighting
from minrisk.io.writers import Writer

if TYPE_CHECKING:
    from concurrent.futures import Future

BATCH = 16  # segments; metrics and samplers may prefer another number
# segments per block if each takes milliseconds: sending a block costs more than decoding one
LIGHT_BLOCK = 64
OnError = Literal["stop", "skip"]
BatchWork = Callable[[Sequence[Record]], Sequence[Record]]
_PROMPTS_WITH_EQUAL_SAMPLES = 3  # prompts after which to warn


class Stage(Protocol):
    """A step of a run, from records to records."""

    @property
    def name(self) -> str: ...

    @property
    def loads_model(self) -> bool:
        """Whether it loads a model; otherwise one worker per core is cheap."""

    def prepare(self) -> None:
        """Load models; raises errors that would affect every record."""

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Map:
    """A stage that applies a function to each record, without a model."""

    loads_model: ClassVar[bool] = False

    name: str
    function: Callable[[Any], Any]

    def prepare(self) -> None:
        pass

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]:
        return map(self.function, items)


def parsed(reader: Reader, raw: RawRecord) -> Record:
    """The record of a raw one; parsing needs no open files."""
    try:
        return reader.parse(raw)
    except Exception as error:  # unexpected content must not end a long run
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
    fail_blank: bool = False  # fail blank sources; otherwise their samples are blank
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
        """The record; with blank samples or an error if it cannot be sampled from."""
        if record.error is not None:
            return record
        if isinstance(record.prompt, str) and not record.prompt.strip():
            if self.fail_blank:
                return record.failed(InputError("the source is blank; leave it out"))
            return record.replace(samples=[Sample("", self.n, 0.0)])
        if not isinstance(record.prompt, str) and not self.sampler.takes_messages:
            return record.failed(InputError("found messages, which the sampler "
                                            f"{self.sampler.name!r} does not support; expected a "
                                            "source or a prompt"))
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
            results: Sequence[Any] = self.sampler.sample(prompts, self.n, self.seed,
                                                         [record.index for record in batch])
        except PartialError as error:
            results = error.results
        return [self._with_samples(*pair) for pair in zip(batch, results, strict=True)]

    def _streamed(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield records as their samples arrive, in any order."""
        passing: list[Record] = []
        unanswered: dict[tuple[int, int], Record] = {}  # by shard and index

        def requests() -> Iterator[Any]:  # records to sample for
            for record in records:
                if is_finished(record):
                    passing.append(record)
                else:
                    unanswered[record.shard, record.index] = record
                    yield record

        # closing the generator cancels pending requests
        with closing(self.sampler.stream(requests(), self.n, self.seed)) as results:
            for record, found in results:
                yield from passing
                passing.clear()
                unanswered.pop((record.shard, record.index), None)
                yield self._with_samples(record, found)
        yield from passing
        for record in unanswered.values():
            yield record.failed(InputError(f"sampler {self.sampler.name!r} returned neither "
                                           "samples nor an error for this prompt"))

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
    """Warns once if each of the first prompts has only equal samples.

    A single prompt may have one likely answer; several in a row suggest that a server ignores the
    temperature or returns cached answers.
    """

    def __init__(self) -> None:
        self._prompts = 0  # number so far, all with equal samples
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
                         "temperature, return cached answers or truncate the distribution: check "
                         "its settings, or raise temperature=",
                         prompts=self._prompts))


@dataclass(frozen=True)
class GenerateReferences:
    """The stage that samples again, for references that are separate from the hypotheses."""

    name: ClassVar[str] = "references"
    loads_model: ClassVar[bool] = True

    generate: GenerateSamples

    def prepare(self) -> None:
        self.generate.prepare()

    def __call__(self, items: Iterator[Record]) -> Iterator[Record]:
        return map(_swapped, self.generate(map(_swapped, items)))


def _swapped(record: Record) -> Record:
    """The record with samples and reference samples exchanged, to sample a second time."""
    return record.replace(samples=record.reference_samples, reference_samples=record.samples)


def samples_to_segments(weighting: Weighting = AUTO, prefer_finished: bool = False,
                        is_vote: bool = False) -> Map:
    """The stage from samples to segments.

    Args:
        weighting: how references are weighted.
        prefer_finished: truncated samples are candidates only if all are truncated.
        is_vote: samples that are not candidates count as votes for no answer.
    """
    return Map("segment", partial(_unless_failed, partial(
        _with_segment, weighting, prefer_finished, is_vote)))


def _with_segment(weighting: Weighting, prefer_finished: bool, is_vote: bool,
                  record: Record) -> Record:
    samples, source = record.samples or (), source_of(dict(record.fields))
    candidates = finished_samples(samples) if prefer_finished else samples
    if not is_vote or record.reference_samples is not None:
        return record.replace(segment=segment_of(candidates, source, weighting, record.index,
                                                 record.reference_samples))
    others = [sample for sample in samples if sample not in candidates]
    without_text = number_drawn(samples) - sum(sample.count for sample in samples)
    if without_text and weighting.column is None:
        others.append(Sample("", count=without_text))
    return record.replace(segment=segment_among(candidates, others, source, weighting,
                                                record.index))


def check_records(check: Callable[[Record], None]) -> Map:
    """The stage that fails records that the output cannot represent."""
    return Map("check", partial(_unless_failed, partial(_checked, check)))


def _checked(check: Callable[[Record], None], record: Record) -> Record:
    check(record)
    return record


def _unless_failed(function: Callable[[Record], Record], record: Record) -> Record:
    if record.error is not None:
        return record
    try:
        return function(record)
    except InputError as error:
        return record.failed(error)


@dataclass(frozen=True)
class Decode:
    """The stage from segments to rankings."""

    name: ClassVar[str] = "decode"

    strategy: Strategy
    batch_size: int | None = None
    on_error: OnError = "skip"
    scores: bool = False  # also keep the matrices of scores

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
            if isinstance(recorded := record.fields.get("signature"), str):
                warn_of_other_choice(recorded, self._signature)
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
        details = pool.details(ranking)
        return details | {"judge_usage": dict(usage)} if usage else details


def warn_of_other_choice(recorded: str, ours: str) -> None:
    """Warn if the choice in a record, such as a server's, was made by another method."""
    if not choose_alike(ours, recorded):
        warn(f"the choices in the input were made by {recorded}, and this run uses {ours}; for the "
             "same choices, use the same strategy and metric")


def written(writer: Writer, rephrase: Callable[[object], str], record: Record) -> Result:
    """The lines of a record in the output.

    `rephrase` is applied to errors; commands use it to name options by flags.
    """
    if record.error is None:
        try:
            return _result(record, writer(record), writer.counts(record), record.scores)
        except (ValueError, RecursionError, MinriskError) as error:  # such as deeply nested fields
            record = record.failed(error).replace(fields={})
    record = record.replace(error=InputError(rephrase(record.error)))
    return _result(record, writer.failed(record))


def collect(make: Callable[[Record], Any]) -> Map:
    """The last stage of a run without an output: makes an object for the caller of each record."""
    return Map("render", partial(_collected, make))


def _collected(make: Callable[[Record], Any], record: Record) -> Result:
    return _result(record, value=make(record))


def _result(record: Record, text: str = "", counts: Mapping[str, int] | None = None,
            scores: Floats | None = None, value: Any = None) -> Result:
    return Result(record.shard, record.index, record.checksum, text, counts or {}, record.failure,
                  scores, value)


# batches


def batched(records: Iterable[Record], size: int) -> Iterator[Record | list[Record]]:
    """Records in batches of this size; finished records are passed through alone.

    If the input raises an error, the records before it are yielded first.
    """
    batch: list[Record] = []
    broken: MinriskError | None = None
    try:
        for record in records:
            if is_finished(record):
                yield record
                continue
            batch.append(record)
            if len(batch) == size:
                yield batch
                batch = []
    except MinriskError as error:
        broken = error
    if batch:
        yield batch
    if broken:
        raise broken


def is_finished(record: Record) -> bool:
    """Whether there is nothing to do: the record failed, or has the samples of a blank source."""
    return record.error is not None or (record.samples is not None and record.segment is None)


def in_batches(records: Iterable[Record], size: int, work: BatchWork,
               on_error: OnError) -> Iterator[Record]:
    """Process records in batches; yields each record with its result or its error."""
    for batch in batched(records, size):
        if isinstance(batch, Record):
            yield batch
        else:
            yield from _attempt(work, batch, on_error)


def in_threads(records: Iterable[Record], size: int, work: BatchWork, on_error: OnError,
               threads: int, prepare_thread: Callable[[], None]) -> Iterator[Record]:
    """The same with several batches at once, in threads; one more batch is read ahead."""
    from concurrent.futures import ThreadPoolExecutor  # few runs need it

    def process(batch: Record | list[Record]) -> list[Record]:
        return [batch] if isinstance(batch, Record) else list(_attempt(work, batch, on_error))

    batches = batched(records, size)
    waiting: deque[Future[list[Record]]] = deque()
    broken: MinriskError | None = None  # the error that ended the input
    with ThreadPoolExecutor(threads, "minrisk-batch", prepare_thread) as pool:
        while True:
            try:
                batch = next(batches, None)
            except MinriskError as error:
                broken = error
                break
            if batch is None:
                break
            waiting.append(pool.submit(process, batch))
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        for result in waiting:
            yield from result.result()
    if broken:
        raise broken


def _attempt(work: BatchWork, batch: Sequence[Record], on_error: OnError) -> Iterator[Record]:
    """Process a batch; if that fails, retry its halves, down to single records.

    So a bad record does not fail the others, and a batch that is too large for memory succeeds in
    smaller parts. With `on_error="stop"`, records are retried one by one instead, up to the first
    failure.
    """
    made: Sequence[Record] = ()
    parts: Sequence[Sequence[Record]] = ()
    try:  # no yield inside: an exception of the consumer must not count as a failure
        made = work(batch)
    except BaseException as error:
        if is_fatal(error):
            raise
        if len(batch) == 1:
            made = [batch[0].failed(error)]
        else:
            half = len(batch) // 2
            parts = ([batch[:half], batch[half:]] if on_error == "skip" or is_out_of_memory(error)
                     else [[record] for record in batch])
    yield from made
    for part in parts:
        for record in _attempt(work, part, on_error):
            yield record
            if on_error == "stop" and record.error is not None:
                return


def is_fatal(error: BaseException) -> bool:
    """Whether an error affects every record, so that the run ends.

    Any other exception of a model, metric or program, including `SystemExit` and a panic of a
    native library, only fails its record.
    """
    return isinstance(error, UnusableError | MissingExtra | KeyboardInterrupt)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; checks the class name, to avoid importing torch."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
