"""Records through stages: order, attribution of errors, batches and memory."""

from __future__ import annotations

import tracemalloc
import warnings
from collections import Counter
from dataclasses import dataclass, field
from threading import Barrier, get_ident
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import run as minrisk
from commands import write
from minrisk import ChrF, InputError, MissingExtra, Ranking, Segment, Standard
from minrisk._core.adapters import as_sampler
from minrisk._core.errors import UnusableError
from minrisk._core.sampler import PartialError, Sample, Samples, columns, distinct
from minrisk.io.records import Record
from minrisk.io.weighting import Weighting
from minrisk.io.writers import count_samples
from minrisk.run.stages import (
    Decode,
    GenerateReferences,
    GenerateSamples,
    samples_to_segments,
)
from tolerance import assert_close

SAMPLES = st.lists(st.builds(
    Sample, st.sampled_from(["a", "b", ""]), st.integers(1, 4),
    st.floats(-9, 0) | st.none(), st.floats(-9, 0)), min_size=1)


@dataclass
class Lengths:
    """Ranks by length, refuses the word `bad`, and remembers the batches it saw."""

    name: ClassVar[str] = "lengths"
    metric: ClassVar[ChrF] = ChrF()
    batches: list[int] = field(default_factory=list)
    error: type[BaseException] = InputError

    def rank(self, segments):
        self.batches.append(len(segments))
        if any("bad" in s.hypotheses for s in segments):
            raise self.error("a bad word")
        return [Ranking.from_utility(np.array([len(h) for h in s.hypotheses], float))
                for s in segments]


class Concurrent(ChrF):
    """A metric whose batches are scored in two threads."""

    concurrent_batches = 2


class InThreads(Lengths):
    """Waits in each batch until another one is in work, which only another thread can do."""

    metric: ClassVar[ChrF] = Concurrent()

    def __init__(self, batches: int = 1, **options) -> None:
        super().__init__(**options)
        self._meet = Barrier(min(2, batches))

    def rank(self, segments):
        self._meet.wait(timeout=60)
        return super().rank(segments)


def records(*words):
    """A record per word; an exception is a record that could not be read."""
    for index, word in enumerate(words):
        record = Record(index, index, "in", index)
        if isinstance(word, Exception):
            yield record.failed(word)
        else:
            yield Record(index, index, "in", index, segment=Segment([word, word + word]))


def ranked(found):
    return {r.id: str(r.error) if r.error else r.ranking.best for r in found}


def choose(strategy, items, size=16, on_error="skip"):
    return Decode(strategy, size, on_error)(iter(items))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_answers_do_not_depend_on_the_batch_size(size):
    strategy = Lengths()
    assert ranked(choose(strategy, records(*"abcde"), size)) == dict.fromkeys(range(5), 1)
    assert max(strategy.batches) == min(size, 5)


def test_batches_in_threads_are_in_work_at_once_and_come_in_order():
    found = list(choose(InThreads(4), records(*"abcdefgh"), 2))
    assert [record.id for record in found] == list(range(8))
    assert ranked(found) == dict.fromkeys(range(8), 1)


def test_threads_are_prepared_before_their_first_batch():
    class Prepared(Concurrent):
        threads: ClassVar[set[int]] = set()

        def prepare_thread(self):
            self.threads.add(get_ident())

    class Checked(InThreads):
        metric: ClassVar[ChrF] = Prepared()

        def rank(self, segments):
            assert get_ident() in Prepared.threads
            return super().rank(segments)

    assert ranked(choose(Checked(2), records(*"ab"), 1)) == {0: 1, 1: 1}


@pytest.mark.parametrize("kind", [Lengths, InThreads])
def test_skipping_keeps_every_other_segment_of_the_batch(kind):
    items = records("a", "bad", InputError("unreadable"), "c")
    assert ranked(choose(kind(), items, 4)) == {0: 1, 1: "a bad word", 2: "unreadable", 3: 1}


@pytest.mark.parametrize("kind", [Lengths, InThreads])
def test_stopping_gives_what_came_before_and_then_the_error(kind):
    found = choose(kind(), records("a", "b", "bad", "d"), 4, "stop")
    assert ranked(found) == {0: 1, 1: 1, 2: "a bad word"}


@pytest.mark.parametrize("place", [0, 15])
def test_stopping_tries_what_cannot_work_no_more_than_twice(place):
    words = ["a"] * 16
    words[place] = "bad"
    strategy = Lengths()
    list(choose(strategy, records(*words), 16, "stop"))
    assert strategy.batches == [16] + [1] * (place + 1)


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("error", [UnusableError, MissingExtra])
@pytest.mark.parametrize("kind", [Lengths, InThreads])
def test_what_concerns_every_segment_is_tried_once_and_ends_the_run(kind, error, on_error):
    strategy = kind(error=error)
    with pytest.raises(error, match="a bad word"):
        list(choose(strategy, records("a", "b", "bad", "d"), 4, on_error))
    assert strategy.batches == [4]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("kind", [Lengths, InThreads])
def test_an_input_that_breaks_off_gives_what_came_before(kind, on_error):
    def broken():
        yield from records("a", "b")
        raise InputError("truncated")

    found = choose(kind(), broken(), 16, on_error)
    assert ranked([next(found), next(found)]) == {0: 1, 1: 1}
    with pytest.raises(InputError, match="truncated"):
        next(found)


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_whatever_a_metric_raises_is_the_failure_of_its_segment(error):
    found = ranked(choose(Lengths(error=error), records("bad", "a"), 2))
    assert found == {0: f"{error.__name__}: a bad word", 1: 1}


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


@dataclass
class Small(Lengths):
    """Has memory for so many segments at a time."""

    room: int = 2

    def rank(self, segments):
        found = super().rank(segments)
        if len(segments) > self.room:
            raise OutOfMemoryError("CUDA out of memory")
        return found


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_what_does_not_fit_into_memory_is_tried_in_smaller_batches(on_error):
    strategy = Small()
    assert ranked(choose(strategy, records(*"abcde"), 5, on_error)) == dict.fromkeys(range(5), 1)
    assert strategy.batches == [5, 2, 3, 1, 2]


def test_a_segment_that_never_fits_is_told():
    reason = "OutOfMemoryError: CUDA out of memory"
    assert ranked(choose(Small(room=0), records("a", "b"), 2)) == {0: reason, 1: reason}


def test_a_batch_is_as_large_as_the_metric_likes():
    seen = []

    def watched(*words):
        for item in records(*words):
            seen.append(item)
            yield item

    next(choose(Standard(ChrF()), watched("a", "b"), None))  # features are made segment by segment
    assert len(seen) == 1


def test_memory_does_not_grow_with_the_number_of_segments(tmp_path):
    def peak(count):
        path = write(tmp_path / "in.jsonl", *({"samples": ["a", "b"], "x": "x" * 5000},) * count)
        tracemalloc.start()
        try:
            assert minrisk("decode", path, "-o", tmp_path / f"{count}.jsonl", "-q").code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # whatever is made once
    few, many = peak(20), peak(300)
    assert (tmp_path / "300.jsonl").read_text().count("\n") == 300
    assert many < few + 300_000  # holding the records alone would take 1.5 megabytes


@dataclass
class Echo:
    """Repeats the prompt with its index, refuses the word `bad`, and remembers its batches."""

    name: ClassVar[str] = "echo"
    partial: bool = False  # whether it keeps what did not fail
    batches: list[int] = field(default_factory=list)

    def batch_size(self, n):
        return 3

    def sample(self, prompts, n, seed=0, indices=None):
        self.batches.append(len(prompts))
        results = [InputError("a bad word") if prompt == "bad" else [Sample(f"{prompt}{index}", n)]
                   for prompt, index in zip(prompts, indices, strict=True)]
        for error in (r for r in results if isinstance(r, InputError)):
            raise PartialError(results) if self.partial else error
        return results


@dataclass
class Streaming(Echo):
    """Gives results in another order, as they come."""

    def stream(self, requests, n, seed=0):
        held = []
        for request in requests:
            held.append(request)
            if len(held) == 2:
                yield held[1], [Sample(f"{held[1].prompt}{held[1].index}", n)]
                held.pop()
        for request in held:
            yield request, InputError("a bad word")


def prompts(*given):
    for index, prompt in enumerate(given):
        record = Record(index, index, "in", index)
        if isinstance(prompt, Exception):
            yield record.failed(prompt)
        else:
            yield Record(index, index, "in", index, prompt=prompt)


def sampled(found):
    return {r.id: str(r.error) if r.error else r.samples[0].text for r in found}


def draw(sampler, items, **options):
    return GenerateSamples(as_sampler(sampler), 4, **options)(iter(items))


@pytest.mark.parametrize(("size", "batches"), [(None, [3, 2]), (1, [1] * 5), (9, [5])])
def test_a_sampler_gets_batches_of_its_size_with_the_indices_of_its_prompts(size, batches):
    sampler = Echo()
    assert sampled(draw(sampler, prompts(*"abcde"), batch_size=size)) == {
        0: "a0", 1: "b1", 2: "c2", 3: "d3", 4: "e4"}
    assert sampler.batches == batches


@pytest.mark.parametrize("partial", [False, True])
def test_skipping_keeps_every_other_prompt_of_the_batch(partial):
    items = prompts("a", "bad", InputError("unreadable"), "c")
    assert sampled(draw(Echo(partial), items, batch_size=9)) == {
        0: "a0", 1: "a bad word", 2: "unreadable", 3: "c3"}


def test_a_failure_keeps_the_rest_of_its_batch_which_was_paid_for():
    found = draw(Echo(partial=True), prompts("a", "bad", "c"), on_error="stop")
    assert sampled(found) == {0: "a0", 1: "a bad word", 2: "c2"}


def test_a_sampler_that_streams_gives_samples_as_they_come():
    found = list(draw(Streaming(), prompts("a", "b", InputError("unreadable"), "c", " ")))
    assert sampled(found) == {0: "a bad word", 1: "b1", 2: "unreadable", 3: "c3", 4: ""}
    assert [r.id for r in found] == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("sampler", [Echo(), Streaming()], ids=["batches", "stream"])
def test_a_blank_source_has_blank_samples_unless_it_is_to_fail(sampler):
    [record] = draw(sampler, prompts(" "))
    assert record.samples == [Sample("", 4, 0.0)]
    [record] = draw(sampler, prompts(" "), fail_blank=True)
    assert "the source is blank" in str(record.error)
    assert sampler.batches == []


@pytest.mark.parametrize("sampler", [Echo(), Streaming()], ids=["batches", "stream"])
def test_references_are_sampled_as_samples_are_and_leave_these_alone(sampler):
    items = draw(Echo(), prompts("bad", "b", InputError("unreadable"), "c", " "))
    references = GenerateReferences(GenerateSamples(as_sampler(sampler), 7))
    found = {record.id: record for record in references(items)}
    failed = {i: str(r.error) for i, r in found.items() if r.error}
    first = {1: "a bad word"} if isinstance(sampler, Streaming) else {}  # which it always refuses
    assert failed == {0: "a bad word", 2: "unreadable"} | first
    assert found[3].samples == [Sample("c3", 4)]
    assert found[3].reference_samples == [Sample("c3", 7)]
    assert found[4].samples == [Sample("", 4, 0.0)]
    assert found[4].reference_samples == [Sample("", 7, 0.0)]


def test_a_prompt_whose_references_fail_has_no_samples_either():
    record = Record(0, 0, "in", 0, prompt="bad", samples=[Sample("a")])
    [found] = GenerateReferences(GenerateSamples(as_sampler(Echo()), 7))(iter([record]))
    assert str(found.error) == "a bad word"
    assert found.samples is None
    assert found.reference_samples is None


def with_references():
    return Record(0, 0, "in", 0, samples=[Sample("a", 3, -1.0), Sample("b", 1, -2.0)],
                  reference_samples=[Sample("c", 1, -2.0), Sample("a", 2, -1.0), Sample("c", 1)])


def test_counts_of_separate_references_are_their_weights():
    [record] = samples_to_segments()(iter([with_references()]))
    assert record.segment.hypotheses == ("a", "b")
    assert record.segment.counts.tolist() == [3, 1]
    assert record.segment.references == ("c", "a")
    assert record.segment.weights.tolist() == [0.5, 0.5]
    assert record.segment.logprobs.tolist() == [-1.0, -2.0]


def test_separate_references_are_weighted_by_their_own_log_probabilities():
    [record] = samples_to_segments(Weighting("logprobs"))(iter([with_references()]))
    assert record.segment.references == ("c", "a")
    assert_close(record.segment.weights, np.exp([-2, -1]) / np.exp([-2, -1]).sum())


def test_samples_and_usage_of_separate_references_are_counted():
    record = Record(0, 0, "in", 0, samples=Samples([Sample("a", 3, tokens=(1, 2))], {"x": 5}),
                    reference_samples=Samples([Sample("b", 2, tokens=(1,))], {"x": 7}))
    assert count_samples(record) == {"samples": 5, "tokens": 8, "x": 12}


@dataclass
class Dice:
    """Samples of each prompt are the given ones."""

    name: ClassVar[str] = "dice"
    is_random: bool = True

    def sample(self, prompts, n, seed=0, indices=None):
        return [list(map(Sample, prompt.split())) for prompt in prompts]


def warnings_of(prompts_given, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = list(draw(Dice(**options), prompts(*prompts_given), batch_size=2))
    assert len(found) == len(prompts_given)
    return [str(warning.message) for warning in caught]


def test_samples_that_are_always_equal_are_warned_about_once():
    [message] = warnings_of(["a a", "b b", " ", "c c", "d d", "e e", "f f", "g g"])
    assert "equal, for each of the first 3 prompts" in message
    assert "raise temperature=" in message


@pytest.mark.parametrize(("given", "options"), [
    (["a a", "b b"], {}), (["a a", "b b", "c x", "d d", "e e", "f f"], {}),
    (["a", "b", "c", "d"], {}), ([" ", " ", " ", " "], {}),
    (["a a", "b b", "c c", "d d"], {"is_random": False}),
], ids=["few prompts", "one differs", "one sample each", "blank sources", "search"])
def test_equal_samples_may_be_right(given, options):
    assert warnings_of(given, **options) == []


@given(SAMPLES)
def test_counts_are_repetitions(samples):
    counted, repeated = columns(samples), columns(samples, repeat=True)
    assert Counter(repeated["samples"]) == dict(
        zip(counted["samples"], counted["counts"], strict=True))
    assert sum(counted["counts"]) == sum(sample.count for sample in samples)
    assert "counts" not in repeated


@given(SAMPLES)
def test_lists_are_whole_or_absent(samples):
    for found in (columns(samples), columns(samples, repeat=True)):
        assert {len(values) for values in found.values()} == {len(found["samples"])}
        assert None not in found.get("logprobs", [])
        assert "truncated_logprobs" in found
    if all(sample.logprob is not None for sample in samples):
        assert "logprobs" in columns(samples)


def test_equal_texts_keep_the_likeliest_way_to_write_them():
    ways = [Sample("a", 2, -3.0, -2.0, (1, 2)), Sample("b", 1, -1.0),
            Sample("a", 1, -2.0, -1.0, (3,))]
    assert distinct(ways) == [Sample("a", 3, -2.0, -1.0, (3,)), Sample("b", 1, -1.0)]
