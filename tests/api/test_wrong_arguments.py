"""Arguments of a wrong type are told by name, whatever the call."""

from __future__ import annotations

import numpy as np
import pytest

import minrisk

CORPUS = [["a b", "a c"], ["d"]]
WRONG = {
    "metric": lambda: minrisk.make_metric(None),
    "strategy": lambda: minrisk.make_strategy(3),
    "sampler": lambda: minrisk.make_sampler(["hf"]),
    "parts": lambda: minrisk.decode_parts(["a"], None),
    "threads": lambda: minrisk.set_threads("2"),
    "matrix": lambda: minrisk.decode(["a"], matrix=10**400),
    "seed": lambda: minrisk.decode_corpus(CORPUS, seed=np.zeros(0)),
    "against": lambda: minrisk.inspect(CORPUS, against=["a b", "d"]),
    "the system": lambda: minrisk.inspect(CORPUS, against={"the system": 3}),
    "references": lambda: minrisk.inspect(CORPUS, references=3),
    "decode_corpus": lambda: minrisk.decode({"samples": CORPUS[0]}),
    "one": lambda: minrisk.score({"one": 3}, ["a"]),
    "the source": lambda: minrisk.score(["a"], sources=0),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_type_is_named(name):
    with pytest.raises(minrisk.InputError, match=name):
        WRONG[name]()


@pytest.mark.parametrize("value", [{"a", "b"}, {1: object()}])
def test_objects_that_json_does_not_hold_are_shown(value):
    found, _ = minrisk.decode_corpus([{"samples": value}, ["a"]])
    assert found.error == f"segment 0: found samples {value!r}, expected a list"


def test_a_table_is_no_choice():
    polars = pytest.importorskip("polars")
    with pytest.raises(minrisk.InputError, match="format"):
        minrisk.decode_corpus(CORPUS, format=polars.DataFrame({"a": [1]}), output="unwritten")
