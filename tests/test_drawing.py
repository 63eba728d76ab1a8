"""Prompts through a sampler: batches, attribution of errors, and samples as lists."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minrisk.engine.sampling import draw
from minrisk.errors import InputError
from minrisk.io.prompts import Asked
from minrisk.sampling.columns import columns, distinct
from minrisk.sampling.sample import PartialError, Sample

SAMPLES = st.lists(st.builds(
    Sample, st.sampled_from(["a", "b", ""]), st.integers(1, 4),
    st.floats(-9, 0) | st.none(), st.floats(-9, 0)), min_size=1)


@dataclass
class Echo:
    """Repeats the prompt with its place, refuses the word `bad`, and remembers its batches."""

    name: ClassVar[str] = "echo"
    partial: bool = False  # whether it keeps what did not fail
    batches: list[int] = field(default_factory=list)

    def batch_size(self, n):
        return 3

    def sample(self, prompts, n, seed=0, places=None):
        self.batches.append(len(prompts))
        results = [InputError("a bad word") if prompt == "bad" else [Sample(f"{prompt}{place}", n)]
                   for prompt, place in zip(prompts, places, strict=True)]
        for error in (r for r in results if isinstance(r, InputError)):
            raise PartialError(results) if self.partial else error
        return results


def asked(*prompts):
    return [Asked(i, f"in:{i}", i, prompt) for i, prompt in enumerate(prompts)]


def outcomes(results):
    return [str(r) if isinstance(r, Exception) else r[0].text for _, r in results]


@pytest.mark.parametrize(("size", "batches"), [(None, [3, 2]), (1, [1] * 5), (9, [5])])
def test_a_sampler_gets_batches_of_its_size_with_the_places_of_its_prompts(size, batches):
    sampler = Echo()
    assert outcomes(draw(sampler, asked(*"abcde"), 4, batch_size=size)) == [
        "a0", "b1", "c2", "d3", "e4"]
    assert sampler.batches == batches


@pytest.mark.parametrize("partial", [False, True])
def test_skipping_keeps_every_other_prompt_of_the_batch(partial):
    items = asked("a", "bad", InputError("unreadable"), "c")
    found = outcomes(draw(Echo(partial), items, 1, on_error="skip", batch_size=9))
    assert found == ["a0", "in:1: a bad word", "unreadable", "c3"]


def test_what_is_unreadable_stops_after_everything_before_it():
    results = draw(Echo(), asked("a", "b", InputError("unreadable"), "c"), 1, batch_size=9)
    assert outcomes([next(results), next(results)]) == ["a0", "b1"]
    with pytest.raises(InputError, match="unreadable"):
        next(results)


def test_a_failure_stops_after_the_rest_of_its_batch_which_was_paid_for():
    results = draw(Echo(partial=True), asked("a", "bad", "c", "d"), 1)
    assert outcomes(next(results) for _ in range(3)) == ["a0", "in:1: a bad word", "c2"]
    with pytest.raises(InputError, match="in:1: a bad word"):
        next(results)


def test_a_batch_that_failed_as_a_whole_stops_at_once():
    sampler = Echo()
    with pytest.raises(InputError, match="a bad word"):
        list(draw(sampler, asked("a", "bad", "c", "d"), 1))
    assert sampler.batches == [3]


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
