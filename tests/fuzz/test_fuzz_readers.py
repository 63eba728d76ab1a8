"""Whatever an input holds: each record is what it says or an error, in its place, and no more."""

from __future__ import annotations

import gzip
import json
import lzma
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import strategies as st

from commands import Result, run
from fuzzing import altered, dump, fuzz, json_values, mutated, scalars
from minrisk._core.errors import InputError
from minrisk._core.registry import SAMPLERS
from minrisk._core.sampler import Sample, distinct
from minrisk.io.files import Input, codec_of
from minrisk.io.prompts import PromptReader
from minrisk.io.records import RawRecord, Record
from minrisk.io.segments import ReferenceFile, SampleReader
from minrisk.io.text import Column, TextReader
from minrisk.io.weighting import Weighting
from records import check_ids, files, parse, read

zstandard = pytest.importorskip("zstandard", reason="needs the extra minrisk[zst]")

SEGMENTS = [
    {"id": "first", "source": "eins zwei", "samples": ["one two", "one too", "one two"],
     "counts": [1, 2, 1], "weights": [0.5, 0.25, 1], "extra": {"deep": [1, {"er": None}]}},
    {"id": 2, "samples": ["a b", "a c"], "logprobs": [-1.5, -2.5], "lengths": [3, 4],
     "outcomes": ["4", {"b": [1, None]}]},
    {"hypotheses": ["x y z", "x"], "references": ["x y", "x y z", "z"], "weights": [1, 2, 3]},
    {"id": 4, "source": "vier", "error": "in.txt:4: it failed before"},
]
PROMPTS = [
    {"id": "first", "source": "eins zwei", "domain": {"name": ["news"]}},
    {"id": 2, "prompt": "Say two", "source": "zwei", "samples": ["old"], "counts": [1]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
]
WEIGHTINGS = [Weighting(by) for by in ("auto", "uniform", "logprobs", "length-normalised",
                                       "mean-logprob", "tail-logprob")]
COMPRESS = {"gz": gzip.compress, "xz": lzma.compress,
            "zst": zstandard.ZstdCompressor(write_checksum=True).compress}


def lines_of(valid: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """JSON lines: of wrong values, of damaged bytes, or no JSON at all."""
    record = st.sampled_from(valid).flatmap(altered) | json_values
    lines = st.lists(record.map(dump), max_size=5).map(lambda found: "\n".join(found).encode())
    whole = "".join(json.dumps(fields) + "\n" for fields in valid).encode()
    return st.one_of(lines, mutated(st.just(whole)), st.binary(max_size=60))


def check_places(raws: Sequence[RawRecord], content: bytes, blanks: bool = False) -> None:
    """All lines are there, with their numbers; those that are blank only where they count."""
    if codec_of(content):
        return
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    expected = [(number, line) for number, line in enumerate(lines, 1) if line.strip() or blanks]
    assert [(raw.line, raw.content) for raw in raws] == expected
    assert [raw.index for raw in raws] == list(range(len(raws)))


def strict(line: str) -> Any:
    """JSON as other programs read it."""
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(line, parse_constant=refuse)


def told(result: Result) -> bool:
    """Whether a run ended with a line that says why; there is no other way but to its end."""
    assert result.code in (0, 2, 3), result
    if result.code == 2:
        *_, last = result.err.splitlines()
        assert last.startswith("minrisk: error: ")
    return result.code == 2


@fuzz(content=lines_of(SEGMENTS), weighting=st.sampled_from(WEIGHTINGS),
      oracle=st.sampled_from([None, None, "references", "source"]))
def test_lines_with_samples_are_segments_or_errors(content, weighting, oracle, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    reader = SampleReader(files(path), weighting, oracle)
    raws, broken = read(reader)
    if not broken:
        check_places(raws, content)
    records = parse(reader, raws)
    check_ids(records)
    for record in records:
        assert (record.segment is None) == (record.error is not None)
        if record.segment is not None:
            assert abs(record.segment.weights.sum() - 1) < 1e-9
            assert record.segment.position == record.index


@fuzz(content=lines_of(PROMPTS), form=st.sampled_from(["auto", "text", "json"]),
      name=st.sampled_from(["in.txt", "in.jsonl"]))
def test_lines_to_sample_from_are_prompts_or_errors(content, form, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    reader = PromptReader(files(path), form)
    raws, broken = read(reader)
    if not broken:
        as_json = raws[0].as_json if raws else form == "json" or name == "in.jsonl"
        check_places(raws, content, blanks=not as_json)
    records = parse(reader, raws)
    check_ids(records)
    for record in records:
        assert (record.prompt is None) == (record.error is not None)


TEXT = mutated(st.lists(st.sampled_from(["one two", "", "-1.5", "0", "nan", "\u2028 x"]),
                        max_size=6).map(lambda lines: "\n".join(lines).encode()))


@fuzz(hypotheses=TEXT, source=st.none() | TEXT, references=st.none() | TEXT,
      logprobs=st.none() | TEXT, sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
      weighting=st.sampled_from(WEIGHTINGS))
def test_columns_of_text_are_segments_or_errors(hypotheses, source, references, logprobs, sizes,
                                                weighting, tmp_path):
    def column(name, content, size):
        if content is None:
            return None
        (tmp_path / name).write_bytes(content)
        return Column(files(tmp_path / name), size, "--num-candidates")

    hyps, refs = sizes if references is not None else (sizes[0], sizes[0])
    reader = TextReader(column("hyps", hypotheses, hyps), column("source", source, 1),
                        column("refs", references, refs), column("logprobs", logprobs, refs),
                        weighting)
    raws, _ = read(reader)
    for number, record in enumerate(parse(reader, raws)):
        assert (record.segment is None) == (record.error is not None)
        assert (record.index, record.line) == (number, number * hyps + 1)
        assert record.id == number
        if record.segment is not None:
            assert len(record.segment.hypotheses) == hyps


@st.composite
def archives(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text, and a damaged file that holds it."""
    text = draw(st.binary(max_size=300) | st.just(b"ab\n" * 9999))
    compress = COMPRESS[draw(st.sampled_from(sorted(COMPRESS)))]
    return text, draw(mutated(st.just(compress(text))))


def _has_checksum(content: bytes) -> bool:
    """All three formats have checksums, but a flag in the header of zst can turn its own off."""
    return not content.startswith(b"\x28\xb5\x2f\xfd") or bool(content[4:5] and content[4] & 4)


@fuzz(archive=archives())
def test_damaged_archives_are_read_right_or_told(archive, tmp_path):
    text, content = archive
    path = tmp_path / "in"
    path.write_bytes(content)
    source, found = Input(str(path)), []
    try:
        for line in source:
            found.append(line)
    except InputError:
        assert source.number == len(found)
        return
    if codec_of(content) and _has_checksum(content):
        whole = b"\n".join(found) + b"\n" * text.endswith(b"\n")
        assert whole in {text * times for times in range(5)}  # the whole file may be there twice


@fuzz(piece=st.sampled_from([b"\n", b"a\n", b'{"samples": ["a"]}\n', bytes(1000) + b"\n"]),
      size=st.integers(2**20, 2**26), kind=st.sampled_from(sorted(COMPRESS)), cut=st.integers(0, 9))
def test_archives_that_become_huge_take_little_memory(piece, size, kind, cut, tmp_path):
    content = COMPRESS[kind](piece * (size // len(piece)))
    path = tmp_path / "in"
    path.write_bytes(content[:len(content) - cut])
    tracemalloc.start()
    try:
        with suppress(InputError):
            for _ in islice(Input(str(path)), 5000):
                pass
        assert tracemalloc.get_traced_memory()[1] < 2**26 + 2**22
    finally:
        tracemalloc.stop()


@fuzz(content=lines_of(SEGMENTS), name=st.sampled_from(["refs.txt", "refs.jsonl"]))
def test_references_of_a_file_are_texts_with_weights_or_told(content, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with suppress(InputError), np.errstate(over="ignore"):  # an infinite sum is told later
        for block in ReferenceFile(str(path)).blocks():
            assert all(isinstance(text, str) for text in block.texts)
            assert (block.mass() >= 0).tolist() == [True] * len(block.texts)


@fuzz(content=lines_of(SEGMENTS), form=st.sampled_from(["json", "text"]),
      weights=st.sampled_from(["auto", "logprobs", "length-normalised"]),
      options=st.sampled_from([[], ["--confidence"], ["--nbest", 2], ["--utilities"]]))
def test_what_decode_writes_has_a_line_for_each_record(content, form, weights, options, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    options = options if form == "json" else []
    result = run("decode", path, "--format", form, "--weights", weights, "-q", *options)
    if told(result):
        return
    reader = SampleReader(files(path), Weighting(weights))
    records = parse(reader, read(reader)[0])
    *lines, end = result.out.split("\n")
    assert (len(lines), end) == (len(records), "")
    if form == "text":
        return
    for line, record in zip(map(strict, lines), records, strict=True):
        if record.error is None:
            assert line["id"] == record.id
            assert line["text"] == record.segment.hypotheses[line["index"]]
        else:
            # messages of the library name arguments, those of the command line flags
            told_by_flag = str(record.error).replace("num_candidates=", "--num-candidates")
            assert told_by_flag in line["error"]


@dataclass(frozen=True)
class Scripted:
    """a sampler that gives what the test says"""

    name: ClassVar[str] = "scripted"
    samples: ClassVar[list[list[Sample]]] = []

    def sample(self, prompts, n, seed=0, indices=None):
        return [self.samples[index % len(self.samples)] for index in indices]


SAMPLES = st.builds(
    Sample, text=scalars.filter(lambda found: isinstance(found, str)), count=st.integers(1, 3),
    logprob=st.none() | st.floats(), tokens=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    length=st.none() | st.integers(0, 5), finish_reason=st.sampled_from([None, "stop", "length"]),
    reasoning=st.sampled_from([None, "hm"]))


@fuzz(content=lines_of(PROMPTS), repeat=st.sampled_from(["--repeat", "--no-repeat"]),
      form=st.sampled_from(["auto", "text", "json"]),
      samples=st.lists(st.lists(SAMPLES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_what_sample_writes_decode_reads(content, repeat, form, samples, tmp_path):
    path, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    path.write_bytes(content)
    with (patch.dict(SAMPLERS.builtin, {"scripted": f"{__name__}:Scripted"}),
          patch.object(Scripted, "samples", samples)):
        result = run("sample", path, "--sampler", "scripted", "-n", 3, "-q", "--input-format", form,
                     repeat, "-o", out, "--overwrite")
    if told(result):
        return
    reader = PromptReader(files(path), form)
    prompts = parse(reader, read(reader)[0])
    for weighting in WEIGHTINGS:
        again = SampleReader(files(out), weighting)
        records = parse(again, read(again)[0])
        assert len(records) == len(prompts)
        for prompt, record in zip(prompts, records, strict=True):
            check_sampled(prompt, record, samples[prompt.index % len(samples)], weighting)
    for line in filter(None, out.read_bytes().split(b"\n")):
        strict(line.decode())


def check_sampled(prompt: Record, record: Record, samples: list[Sample],
                  weighting: Weighting) -> None:
    if prompt.error is not None or not isinstance(prompt.prompt, str):
        assert "failed before" in str(record.error)
        return
    if record.error is not None:
        assert weighting.column is not None
        assert str(record.error).startswith((f"found no {weighting.column}",
                                             "logprobs must not be above 0"))
        return
    assert record.id == prompt.id
    if prompt.prompt.strip():
        assert list(dict.fromkeys(record.segment.references)) == [s.text for s in distinct(samples)]
        assert len(record.segment.references) == sum(s.count for s in samples)
