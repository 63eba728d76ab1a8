"""Whatever objects a corpus is made of: a result for each, or one line about what was wanted."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

import minrisk
from fuzzing import fuzz
from minrisk.plugins import Sample, Sampler

FIELDS = ["samples", "counts", "weights", "references", "id", "source", "logprobs", "lengths",
          "outcomes", "prompt", "messages", "role", "other", 3]
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.binary(max_size=3), st.sampled_from([np.array([1.0, 2.0]), np.float32(2), np.int8(1)]),
    st.builds(object), st.just(minrisk.Segment(["a", "b"])))
OBJECTS = st.recursive(LEAVES, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.tuples(inner, inner),
    st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)), max_leaves=8)


@dataclass(frozen=True)
class Echo(Sampler):
    name: ClassVar[str] = "echo"
    takes_messages: ClassVar[bool] = True

    def sample(self, prompts, n, seed=0, indices=None):
        return [[Sample(str(prompt)[:5], n)] for prompt in prompts]


@fuzz(given=OBJECTS, weights=st.sampled_from(["auto", "uniform", "logprobs"]))
def test_objects_are_decoded_or_told(given, weights):
    with warnings.catch_warnings(action="ignore"):
        with suppress(minrisk.InputError):
            list(minrisk.decode_corpus(given, weights=weights))
        check(list(minrisk.decode_corpus([{"samples": ["a"], "logprobs": [-1.0]}, given, given],
                                         weights=weights)))
        list(minrisk.export([{"source": "s", "samples": ["a"]}, given]))


@fuzz(given=OBJECTS)
def test_objects_are_sampled_from_or_told(given):
    with suppress(minrisk.InputError):
        list(minrisk.translate(given, 2, sampler=Echo()))
    check(list(minrisk.sample(["a", given, given], 2, sampler=Echo())))


def check(found: list[Any]) -> None:
    assert [result.position for result in found] == [0, 1, 2]
    assert found[0].error is None
    assert (found[1].error is None) == (found[2].error is None)
