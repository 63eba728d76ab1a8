"""Every call takes what every other call gives, and tables of other packages."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from commands import run, write
from minrisk.plugins import Sample, Sampler, Samples

PROMPTS = [{"id": "a", "source": "the cat sat", "reference": "the cat sat down"},
           {"id": "b", "source": "a dog ran"}]


@dataclass(frozen=True)
class Cut(Sampler):
    """The prompt, and several times its beginning."""

    name: ClassVar[str] = "cut"

    def sample(self, prompts, n, seed=0, indices=None):
        return [Samples([Sample(prompt, logprob=-1.0, length=3),
                         Sample(prompt[:5], n - 1, logprob=-2.0, length=1)])
                for prompt in prompts]


def drawn():
    return list(minrisk.sample(PROMPTS, 3, sampler=Cut()))


RESULTS = {
    "sample": drawn,
    "translate": lambda: list(minrisk.translate(PROMPTS, 3, sampler=Cut())),
    "decode_corpus": lambda: list(minrisk.decode_corpus(drawn()))}
CALLS = {
    "decode_corpus": lambda found: [best.text for best in minrisk.decode_corpus(found)],
    "export": lambda found: list(minrisk.export(found)),
    "inspect": lambda found: minrisk.inspect(found, title="x").segments,
    "validate": lambda found: minrisk.validate(found, strategies=["aggregate"]).signature,
    "translate": lambda found: [
        one.text for one in minrisk.translate(found, 3, sampler=Cut(), input_format="json")]}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", RESULTS)
def test_a_call_takes_the_results_of_another_as_it_takes_a_file(kind, call, tmp_path):
    path = tmp_path / "in.jsonl"
    minrisk.sample(PROMPTS, 3, sampler=Cut(), output=path)
    assert CALLS[call](RESULTS[kind]()) == CALLS[call](path)


@pytest.mark.parametrize("kind", RESULTS)
def test_one_result_is_decoded(kind):
    assert [minrisk.decode(one).text for one in RESULTS[kind]()] == [
        best.text for best in minrisk.decode_corpus(drawn())]


def test_a_result_has_the_fields_of_its_line(tmp_path):
    minrisk.sample(PROMPTS, 3, sampler=Cut(), output=tmp_path / "samples.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [one.as_record() for one in drawn()] == lines
    for one, line in zip(minrisk.decode_corpus(lines), lines, strict=True):
        record = one.as_record()
        assert (record["text"], record["utility"]) == (one.text, one.utility)
        for name in ("id", "source", "samples", "counts", "logprobs"):
            assert record[name] == line[name]


@pytest.mark.parametrize("weights", ["logprobs", "length-normalised"])
def test_weights_of_samples_are_those_of_their_file(weights, tmp_path):
    path = write(tmp_path / "in.jsonl", *(one.as_record() for one in drawn()))
    ours = [one.ranking for one in minrisk.decode_corpus(drawn(), weights=weights)]
    assert ours == [one.ranking for one in minrisk.decode_corpus(path, weights=weights)]


def test_a_segment_survives_a_round():
    """Its references, weights and so on are those of the result."""
    given = [{"samples": ["a b", "c"], "counts": [2, 1], "references": ["a", "c d"],
              "weights": [0.25, 0.75], "sample_logprobs": [-1.0, -2.0], "note": "x"},
             {"samples": ["a b", "c"], "weights": [0.25, 0.75], "source": "s"}]
    first = list(minrisk.decode_corpus(given))
    again = list(minrisk.decode_corpus(first))
    assert [one.ranking for one in again] == [one.ranking for one in first]
    assert again[0].fields["note"] == "x"
    assert again[1].segment.source == "s"
    np.testing.assert_array_equal(again[0].segment.logprobs, [-1.0, -2.0])


def test_a_result_that_failed_fails_again():
    first = list(minrisk.decode_corpus([["a"], []]))
    good, bad = minrisk.decode_corpus(first)
    assert "zero hypotheses" in bad.error
    assert good.text == "a"
    with pytest.raises(minrisk.InputError, match="zero hypotheses"):
        minrisk.decode(first[1])


def test_a_segment_is_decoded_alone():
    segment = minrisk.Segment(["a b", "c", "c"], index=4)
    assert minrisk.decode(segment).text == "c"
    with pytest.raises(minrisk.InputError, match="give it alone"):
        minrisk.decode(segment, source="x")


def test_results_are_scored_and_compared():
    best = list(minrisk.decode_corpus([["a b", "a b"], [], ["c"]]))
    texts, references = ["a b", "", "c"], ["a b", "x", "c"]
    assert minrisk.score(best, references) == minrisk.score(texts, references)
    assert minrisk.score({"mbr": best}, references) == minrisk.score({"mbr": texts}, references)
    assert minrisk.inspect([["a"]] * 3, against={"mbr": best}).failed == 0


def test_log_probabilities_of_drawn_samples_need_no_warning(tmp_path):
    path = tmp_path / "own.jsonl"
    minrisk.sample(PROMPTS, 3, sampler=Cut(), output=path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(minrisk.decode_corpus(path))) == 2
    assert "not used as weights" not in run("decode", path).err


ROWS = [{"id": "x", "samples": ["a b", "c", "a b"], "source": None},
        {"id": "y", "samples": ["d"], "source": "s"}]


def table(kind):
    """The rows as a table, or its column of samples."""
    if kind == "arrow":
        return pytest.importorskip("pyarrow").Table.from_pylist(ROWS)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(ROWS)
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    if kind == "arrays":
        return frame.assign(samples=frame["samples"].map(np.array))
    return frame.assign(source=[float("nan"), "s"]) if kind == "missing" else frame


@pytest.mark.parametrize("kind", ["pandas", "arrays", "missing", "arrow", "polars"])
def test_tables_are_segments(kind):
    first, second = minrisk.decode_corpus(table(kind))
    assert (first.text, second.text) == ("a b", "d")
    assert (first.id, second.id) == ("x", "y")
    assert (first.segment.source, second.segment.source) == (None, "s")


@pytest.mark.parametrize("kind", ["pandas", "arrays", "polars"])
def test_columns_are_segments(kind):
    assert [one.text for one in minrisk.decode_corpus(table(kind)["samples"])] == ["a b", "d"]


def test_texts_of_numpy_become_strings():
    texts = np.array(["a", "b", "b"])
    assert type(minrisk.decode(texts).text) is str
    assert [one.text for one in minrisk.decode_corpus([texts])] == ["b"]


def test_a_table_has_prompts_too():
    frame = pytest.importorskip("pandas").DataFrame(PROMPTS)
    found = minrisk.sample(frame, 3, sampler=Cut())
    assert [one.texts[0] for one in found] == ["the cat sat", "a dog ran"]
