"""Outputs in CSV: the fields of JSON lines as columns, under a header, as RFC 4180 has them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import get_args

import pytest

import minrisk
from commands import run, write
from minrisk.io.formats import FORMATS, ChoiceFormat, TrainingFormat
from shard_folders import lines, write_shards

ODD = ['a "b", c', "a\r\nb", "c\n", "", " x", "=1+1", "\u2028", "a\tb"]
SEGMENTS = [{"id": f"{n},", "source": text, "samples": [text, "z", text], "note": n}
            for n, text in enumerate(ODD)]


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "in.jsonl", *SEGMENTS)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def value(record: dict, column: str) -> str:
    """What a column has of a JSON line; `confidence.margin` is inside `confidence`."""
    part, _, name = column.rpartition(".")
    found = (record[part] if part else record).get(name)
    return "" if found is None else found if isinstance(found, str) else json.dumps(found)


@pytest.mark.parametrize("command", [
    ("decode",), ("decode", "--confidence", "--uncertainty"), ("decode", "--abstain", "0.9"),
    ("decode", "--metric", "exact-match"), ("export",), ("export", "--pairs", "best-worst")])
def test_rows_have_the_values_of_json_lines(command, samples):
    records = run(*command, samples).records
    found = rows(run(*command, samples, "--format", "csv").out)
    assert len(found) == len(records)
    for row, record in zip(found, records, strict=True):
        assert row == {column: value(record, column) for column in row}


def test_every_row_ends_as_the_standard_says(samples):
    out = run("decode", samples, "--format", "csv").out
    quoted, rest = False, []
    for character in out:
        quoted ^= character == '"'
        rest.append("" if quoted else character)
    plain = "".join(rest)
    assert plain.count("\n") == plain.count("\r\n") == len(SEGMENTS) + 1


def test_a_row_is_one_of_the_best(samples):
    found = rows(run("decode", samples, "--nbest", 2, "--format", "csv").out)
    wanted = [(record["id"], str(rank), best["text"])
              for record in run("decode", samples, "--nbest", 2).records
              for rank, best in enumerate(record["nbest"], 1)]
    assert [(row["id"], row["rank"], row["text"]) for row in found] == wanted


def test_a_segment_that_fails_keeps_its_row(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": ["a"]}, {"samples": []}, {"samples": ["b"]})
    found = rows(run("decode", path, "--format", "csv").out)
    assert [row["text"] for row in found] == ["a", "", "b"]
    assert "in.jsonl:2" in found[1]["error"]
    assert len(rows(run("decode", path, "--format", "csv", "--abstain", 1).out)) == 3


def test_samples_are_rows(tmp_path, server):
    args = ("sample", "--endpoint", server.endpoint, "--model", "m", "-n", 3,
            write(tmp_path / "in.txt", "one", "two"))
    records = run(*args).records
    found = rows(run(*args, "--format", "csv").out)
    assert [(row["source"], row["text"], row["count"]) for row in found] == [
        (record["source"], text, str(count)) for record in records
        for text, count in zip(record["samples"], record["counts"], strict=True)]
    repeated = rows(run(*args, "--format", "csv", "--repeat").out)
    assert len(repeated) == 6
    assert "count" not in repeated[0]


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
@pytest.mark.parametrize("command", ["decode", "export"])
def test_the_name_of_an_output_says_what_it_is(name, command, samples, tmp_path):
    assert run(command, samples, "-o", tmp_path / name).code == 0
    content = (tmp_path / name).read_bytes()
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    assert content.decode() == run(command, samples, "--format", "csv").out
    assert run(command, samples, "--format", "csv", "-o", tmp_path / name, "--resume").code == 0


def test_python_writes_what_the_command_does(samples, tmp_path):
    run("decode", samples, "--format", "csv", "-o", tmp_path / "cli")
    minrisk.decode_corpus(samples, format="csv", output=tmp_path / "api")
    assert (tmp_path / "cli").read_bytes() == (tmp_path / "api").read_bytes()


def test_every_shard_has_a_header_also_when_it_is_resumed(tmp_path, inline):
    """An empty one has nothing else."""
    source = write_shards(tmp_path / "in", 3, 0)
    write(source / "2.jsonl", {"samples": ["a", "b"]}, {"samples": ["c", "c"]})
    args = ("decode", f"{source}/*", "-o", f"{tmp_path}/out/", "--format", "csv", "-q")
    assert run(*args).code == 0
    expected = lines(tmp_path / "out")
    assert sorted(expected) == ["0.csv", "1.csv", "2.csv"]
    header = expected["1.csv"]
    assert header.count(b"\r\n") == 1
    for content in expected.values():
        assert content.startswith(header)
        assert content.count(header) == 1
    (tmp_path / "out" / "2.csv").unlink()
    assert run(*args, "--resume").code == 0
    assert lines(tmp_path / "out") == expected


def test_a_run_with_failures_is_resumed_to_the_same_bytes(tmp_path, monkeypatch, inline):
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(tmp_path / "flag"))
    path = write(tmp_path / "in.jsonl", {"samples": ["panic", "b"]}, {"samples": ["c", "c"]})
    args = ("decode", path, "--metric", "python:faults:leaving", "-q")
    expected = run(*args, "--format", "csv").out
    (tmp_path / "flag").touch()
    assert run(*args, "-o", tmp_path / "out.csv", "--workers", 1).code == 3
    (tmp_path / "flag").unlink()
    assert run(*args, "-o", tmp_path / "out.csv", "--resume").code == 0
    assert (tmp_path / "out.csv").read_bytes().decode() == expected


@pytest.mark.parametrize(("args", "token"), [
    (("decode", "--format", "csv", "--utilities"), "--utilities"),
    (("decode", "-o", "out.csv", "--utilities"), "--utilities"),
    (("export", "--format", "csv", "--conversational"), "--conversational"),
    (("decode", "--format", "text", "-o", "out.csv"), "--format csv"),
    (("decode", "--format", "csv", "-o", "out.parquet"), "--format json")])
def test_what_has_no_place_is_refused(args, token, samples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*args, samples)
    assert done.code == 2
    assert token in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_formats_are_known_by_their_names_and_extensions():
    assert set(get_args(ChoiceFormat)) | set(get_args(TrainingFormat)) < set(FORMATS)
    assert len({found.extension for found in FORMATS.values()}) == len(FORMATS)
