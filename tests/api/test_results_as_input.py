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
    with pytest.raises(minrisk.InputError, match="zero"):
        minrisk.decode(first[1])


def test_a_segment_is_decoded_alone():
    segment = minrisk.Segment(["a b", "c", "c"], position=4)
    assert minrisk.decode(segment).text == "c"
    with pytest.raises(minrisk.InputError, match="alone"):
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
    logprobs = write(tmp_path / "logprobs.jsonl", {"samples": ["a", "b"], "logprobs": [-1, -2]})
    assert "--weights logprobs" in run("decode", logprobs).err


ROWS = [{"id": "x", "samples": ["a b", "c", "a b"], "source": None},
        {"id": "y", "samples": ["d"], "source": "s"}]


def table(kind):
    """The rows as a table, or its column of samples."""
    if kind in ("arrow", "batch"):
        pyarrow = pytest.importorskip("pyarrow")
        return (pyarrow.Table if kind == "arrow" else pyarrow.RecordBatch).from_pylist(ROWS)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(ROWS)
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    if kind == "arrays":
        return frame.assign(samples=frame["samples"].map(np.array))
    return frame.assign(source=[float("nan"), "s"]) if kind == "missing" else frame


@pytest.mark.parametrize("kind", ["pandas", "arrays", "missing", "arrow", "batch", "polars"])
def test_tables_are_segments(kind):
    first, second = minrisk.decode_corpus(table(kind))
    assert (first.text, second.text) == ("a b", "d")
    assert (first.id, second.id) == ("x", "y")
    assert (first.segment.source, second.segment.source) == (None, "s")


@pytest.mark.parametrize("kind", ["pandas", "arrays", "arrow", "batch", "polars"])
def test_columns_are_segments(kind):
    assert [one.text for one in minrisk.decode_corpus(table(kind)["samples"])] == ["a b", "d"]


def test_texts_of_numpy_become_strings():
    texts = np.array(["a", "b", "b"])
    assert type(minrisk.decode(texts).text) is str
    assert [one.text for one in minrisk.decode_corpus([texts])] == ["b"]


def test_texts_may_be_a_column_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    assert minrisk.decode(pyarrow.array(["a", "b", "b"])).text == "b"


def test_a_table_has_prompts_too():
    frame = pytest.importorskip("pandas").DataFrame(PROMPTS)
    found = minrisk.sample(frame, 3, sampler=Cut())
    assert [one.texts[0] for one in found] == ["the cat sat", "a dog ran"]


def results():
    """A choice, a failure and an abstention, and the results of two prompts."""
    samples = {"x": ["c", "a b", "a b"], "y": [], "z": ["u", "v"]}
    decoded = minrisk.decode_corpus([{"id": id, "samples": samples[id]} for id in samples],
                                    metric="exact-match", confidence=True, abstain=0.6)
    return list(decoded), list(minrisk.translate(PROMPTS, 3, sampler=Cut()))


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_results_are_a_table(package):
    frame = pytest.importorskip(package).DataFrame
    decoded, translated = results()
    for found in (decoded, translated):
        table = frame(found)
        assert not [name for name in table.columns if name.startswith("_")]
        for name in ("id", "text", "index", "utility", "answer"):  # pandas has None as NaN
            assert [None if value != value else value for value in table[name].to_list()] == [
                getattr(one, name) for one in found]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("call", [minrisk.sample, minrisk.translate])
def test_a_table_of_results_is_decoded_as_they_are(package, call):
    frame = pytest.importorskip(package).DataFrame
    found = list(call(PROMPTS, 3, sampler=Cut(), reference_samples=2))
    again = list(minrisk.decode_corpus(frame(found)))
    expected = list(minrisk.decode_corpus(found))
    assert [one.ranking for one in again] == [one.ranking for one in expected]
    assert [(one.id, one.segment.source) for one in again] == [
        (one.id, one.segment.source) for one in expected]


def test_texts_of_a_function_are_strings():
    [found] = minrisk.sample(["p"], 2, sampler=lambda prompt, n: np.array(["a"] * n))
    assert {type(text) for text in found.texts} == {str}


def test_an_index_is_the_place_of_the_choice_in_python_as_in_json(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["c", "a b", "a b"]}, {"samples": ["d"]})
    lines = run("decode", path).records
    found = list(minrisk.decode_corpus(path))
    assert [line["index"] for line in lines] == [one.index for one in found] == [1, 0]
    assert [one.position for one in found] == [one.segment.position for one in found] == [0, 1]
    assert [one.as_record()["index"] for one in found] == [1, 0]


def test_an_index_counts_samples_that_are_no_candidates(tmp_path):
    def draw(prompt, n):
        return [Sample("cut", finish_reason="length"), Sample("a", count=n - 2), Sample("b")]

    minrisk.answer(["?"], 4, sampler=draw, output=tmp_path / "a.jsonl")
    found = minrisk.answer("?", 4, sampler=draw)
    line = json.loads((tmp_path / "a.jsonl").read_text())
    assert found.index == line["index"] == 1
    assert found.samples[found.index].text == found.text == line["text"]


ABSTAINING = {
    "decode_corpus": lambda **given: list(minrisk.decode_corpus([["u", "v"], ["a", "a"]], **given)),
    "translate": lambda **given: list(minrisk.translate(
        ["uv", "aa"], 2, sampler=lambda prompt, n: list(prompt), **given)),
    "answer": lambda **given: [minrisk.answer(
        prompt, 2, sampler=lambda prompt, n: list(prompt), **given) for prompt in ("uv", "aa")]}


@pytest.mark.parametrize("call", ABSTAINING)
def test_a_call_abstains_without_an_output(call):
    torn, sure = ABSTAINING[call](abstain=0.6)
    assert (torn.text, torn.abstained, torn.uncertainty.largest) == (None, True, 0.5)
    assert (sure.text, sure.abstained) == ("a", False)
    assert torn.segment.hypotheses[torn.ranking.best] == "u"
    assert torn.as_record()["abstained"] is True
    assert minrisk.score([torn, sure], ["u", "a"]) == minrisk.score(["", "a"], ["u", "a"])


def test_a_ranking_abstains():
    torn, sure = (minrisk.decode(texts, abstain=0.6) for texts in (["u", "v"], ["a", "a"]))
    assert (sure.text, sure.abstained, torn.abstained) == ("a", False, True)
    assert "abstained" in repr(torn)
    with pytest.raises(minrisk.InputError, match="abstained"):
        torn.text  # noqa: B018
    with pytest.raises(minrisk.InputError, match="abstain"):
        minrisk.decode(["a"], abstain=2)
