"""Outputs in Parquet: files, shards, and what cannot be Parquet."""

from __future__ import annotations

import json

import pytest

import minrisk
from commands import read, run, write

parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra minrisk[parquet]")
SEGMENTS = [{"id": n, "source": f"s{n}", "samples": ["a b", "a", "a b"], "note": note}
            for n, note in enumerate(["x", None, {"deep": 1}, ["y"], 3, "x\u2028\ud800"])]


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "in.jsonl", *(json.dumps(s) for s in SEGMENTS))


@pytest.mark.parametrize("command", [
    ("decode", "--nbest", "2", "--confidence"), ("export",), ("export", "--conversational"),
    ("export", "--pairs", "best-worst")])
def test_a_file_has_the_rows_of_json_lines(command, samples, tmp_path):
    for name in ("out.jsonl", "out.parquet"):
        done = run(*command, samples, "-o", tmp_path / name)
        assert done.code == 0, done.err
    lines = read((tmp_path / "out.jsonl").read_text())
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for row, line in zip(rows, lines, strict=True):
        for name, value in line.items():
            if name == "note":  # a column of all kinds
                wanted = value if isinstance(value, str | None) else json.dumps(value)
                assert row[name] == (wanted and wanted.replace("\ud800", "?"))
            else:
                assert row[name] == value


def test_samples_are_written_and_read(tmp_path, server):
    args = ("sample", "--endpoint", server.endpoint, "--model", "m", "-n", "3")
    prompts = write(tmp_path / "in.txt", "one", "two")
    for name in ("out.jsonl", "out.parquet"):
        assert run(*args, prompts, "-o", tmp_path / name).code == 0
    decoded = [run("decode", tmp_path / name).records for name in ("out.jsonl", "out.parquet")]
    assert decoded[0] == decoded[1]
    assert len(decoded[0]) == 2


def test_failures_keep_their_rows(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": ["a"]}, {"samples": []})
    assert run("decode", samples, "-o", tmp_path / "out.parquet").code == 3
    good, bad = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert (good["text"], good["error"]) == ("a", None)
    assert "zero hypotheses" in bad["error"]


def test_types_are_those_of_all_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk.io.parquet._ROW_GROUP", 1)
    values = [None, 1, 2.5, None]
    minrisk.decode_corpus([{"samples": ["a"], "n": value, "only": {"last": value}}
                           for value in values], output=tmp_path / "out.parquet")
    file = parquet.ParquetFile(tmp_path / "out.parquet")
    assert file.num_row_groups == 4
    assert file.read().column("n").to_pylist() == values


def test_shards_of_parquet_are_parquet_under_their_names(tmp_path, inline):
    (tmp_path / "in").mkdir()
    pyarrow = pytest.importorskip("pyarrow")
    for name in ("a", "b"):
        parquet.write_table(pyarrow.Table.from_pylist([{"id": name, "samples": ["x", name, name]}]),
                            tmp_path / "in" / f"{name}.parquet")
    done = run("decode", f"{tmp_path}/in/*", "-o", f"{tmp_path}/out/")
    assert done.code == 0, done.err
    assert parquet.read_table(tmp_path / "out" / "b.parquet").column("text").to_pylist() == ["b"]
    assert run("decode", f"{tmp_path}/in/*", "-o", f"{tmp_path}/out/", "--resume").code == 0
    text = run("decode", f"{tmp_path}/in/*", "-o", f"{tmp_path}/text/", "--format", "text")
    assert text.code == 0
    assert (tmp_path / "text" / "a.txt").read_text() == "a\n"


@pytest.mark.parametrize("command", [
    ("decode", "--format", "text"), ("export", "--format", "tsv"), ("rank",), ("validate",)])
def test_what_has_no_fields_is_refused(command, samples, tmp_path):
    more = [samples] if command[0] == "rank" else []
    done = run(*command, samples, *more, "-o", tmp_path / "out.parquet")
    assert done.code == 2
    assert "out.parquet" in done.err
    assert not (tmp_path / "out.parquet").exists()
