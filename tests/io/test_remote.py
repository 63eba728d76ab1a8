"""Parquet files, and files elsewhere by URL: what JSON lines on the disk can do, they can."""

from __future__ import annotations

import json
import sys

import pytest

from commands import run, write
from minrisk import InputError, MissingExtra
from minrisk.cli import SOME_FAILED
from minrisk.io.files import Input, Output, file_key
from minrisk.io.inputs import InputFile
from minrisk.io.remote import redact, redact_url

fsspec = pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
pyarrow = pytest.importorskip("pyarrow", reason="needs the extra minrisk[parquet]")
parquet = pytest.importorskip("pyarrow.parquet")

SEGMENTS = [
    {"id": "a", "source": "Katze", "samples": ["a cat", "the cat", "a cat", "日本"],
     "weights": [1.0, 2.0, 0.5, 0.0], "note": "kept"},
    {"id": "b", "source": "Hund", "samples": ["dog"], "weights": None, "note": None},
]


@pytest.fixture
def memory():
    """Files that fsspec keeps in memory."""
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(SEGMENTS), path)
    return path


@pytest.mark.parametrize("command", ["decode", "export"])
def test_parquet_is_read_wherever_json_lines_are(command, tmp_path, table):
    lines = write(tmp_path / "in.jsonl", *SEGMENTS)
    expected, found = (run(command, path, "-q") for path in (lines, table))
    assert found.code == 0, found.err
    assert found.out.replace(', "note": null', "") == expected.out.replace(', "note": null', "")


def test_parquet_is_streamed_and_tells_how_far_it_is(tmp_path, monkeypatch):
    path = tmp_path / "in.parquet"
    rows = [{"samples": [f"text {i}"]} for i in range(10)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=4)
    monkeypatch.setattr("minrisk.io.parquet._ROWS", 3)
    source = InputFile.at(str(path)).open()
    lines = iter(source)
    assert json.loads(next(lines)) == rows[0]
    assert source.number == 1
    assert source.consumed == source.size // 10
    assert [json.loads(line) for line in lines] == rows[1:]
    assert source.consumed == source.size


def test_what_json_has_no_word_for_passes_as_text(tmp_path):
    path = tmp_path / "in.parquet"
    day = pyarrow.array([0], pyarrow.date32())
    parquet.write_table(pyarrow.table({"samples": [["a"]], "day": day}), path)
    [record] = run("decode", path, "-q").records
    assert record["day"] == "1970-01-01"


def binary(tmp_path, *rows, **columns):
    path = tmp_path / "in.parquet"
    samples = pyarrow.array(rows, pyarrow.list_(pyarrow.binary()))
    parquet.write_table(pyarrow.table({"samples": samples, **columns}), path)
    return path


def test_binary_columns_are_texts_as_spark_and_impala_write_them(tmp_path):
    meta = pyarrow.array([{"note": "naïve".encode()}], pyarrow.struct([("note", pyarrow.binary())]))
    path = binary(tmp_path, ["café".encode()], source=[b"Caf\xc3\xa9"], meta=meta)
    [record] = run("decode", path, "-q").records
    assert (record["text"], record["meta"]) == ("café", {"note": "naïve"})
    assert run("export", path, "--format", "tsv", "-q").out == "Café\tcafé\n"


def test_bytes_that_are_no_text_fail_their_row_only(tmp_path):
    done = run("decode", binary(tmp_path, [b"a"], [b"na\xefve"], [b"b"]))
    assert done.code == SOME_FAILED
    assert [record.get("text") for record in done.records] == ["a", None, "b"]
    assert "in.parquet:2: found byte 0xef" in done.records[1]["error"]


def test_another_column_of_bytes_that_are_no_text_is_told_by_name(tmp_path):
    done = run("decode", binary(tmp_path, [b"a"], digest=[b"\xff"]))
    assert done.code == 2
    assert "in.parquet:1: column 'digest'" in done.err


def test_samples_that_are_no_texts_are_told_with_their_type(tmp_path):
    path = tmp_path / "in.parquet"
    days = pyarrow.array([[0]], pyarrow.list_(pyarrow.timestamp("s")))
    parquet.write_table(pyarrow.table({"samples": days}), path)
    done = run("decode", path)
    assert done.code == 2
    assert "in.parquet:1: column 'samples'" in done.err


def test_a_missing_column_is_told_with_the_file_and_the_row(tmp_path):
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table({"text": ["a"], "id": [1]}), path)
    done = run("decode", path)
    assert done.code == 2
    assert "in.parquet:1: " in done.err


def test_a_column_of_another_type_is_told(tmp_path):
    path = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.table({"samples": ["a"]}), path)
    done = run("decode", path)
    assert done.code == 2
    assert 'in.parquet:1: found samples "a"' in done.err


def test_parquet_that_is_broken_is_told(tmp_path, table):
    path = tmp_path / "torn.parquet"
    path.write_bytes(table.read_bytes()[:-20])
    done = run("decode", path)
    assert done.code == 2
    assert "torn.parquet: unreadable" in done.err


def test_parquet_is_no_plain_text(table):
    done = run("decode", table, "-n", 2)
    assert done.code == 2
    assert "--num-candidates" in done.err


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.jsonl.zst"])
def test_urls_are_read_and_written_as_files_are(memory, tmp_path, name):
    here = tmp_path / name
    with Output(str(here)) as output:
        output.write("".join(json.dumps(segment) + "\n" for segment in SEGMENTS))
    memory.pipe_file(f"/folder/{name}", here.read_bytes())
    url = f"memory://folder/{name}"
    assert Input(url).size == here.stat().st_size
    assert list(Input(url)) == list(Input(str(here)))
    done = run("decode", url, "-o", "memory://folder/out.jsonl.gz", "-q")
    assert done.code == 0, done.err
    written = Input("memory://folder/out.jsonl.gz")
    assert [json.loads(line) for line in written] == run("decode", here, "-q").records


def test_parquet_is_read_from_urls(memory, table):
    memory.pipe_file("/in.parquet", table.read_bytes())
    assert run("decode", "memory://in.parquet", "-q").out == run("decode", table, "-q").out


def test_references_are_read_from_urls(memory, tmp_path):
    memory.pipe_file("/refs.txt", b"a cat\nthe cat\n")
    memory.pipe_file("/hyps.txt", b"a cat\ndog\n")
    [record] = run("rank", "memory://hyps.txt", "memory://refs.txt", "-q").records
    assert record["text"] == "a cat"


def test_an_output_that_is_the_input_is_noticed_by_its_url(memory):
    assert file_key("memory://a", "stdin") == file_key("memory://a", "stdout")
    assert file_key("memory://a", "stdin") != file_key("memory://b", "stdout")
    memory.pipe_file("/a", b'{"samples": ["x"]}\n')
    done = run("decode", "memory://a", "-o", "memory://a")
    assert done.code == 2
    assert "memory://a" in done.err


@pytest.mark.parametrize(("url", "wants"), [
    ("memory://missing.jsonl", "cannot read memory://missing.jsonl: "),
    ("memory://folder", "cannot read memory://folder: "),
    ("nonsense://x", "cannot read nonsense://x: "),
    ("nonsense://*.jsonl", "cannot read nonsense://*.jsonl: "),
    ("http://me:secret@[::1/x", "cannot read http://[::1/x: "),
])
def test_urls_that_lead_nowhere_are_told(memory, url, wants):
    memory.pipe_file("/folder/in.jsonl", b"")
    done = run("decode", url)
    assert done.code == 2
    assert wants in done.err


def test_an_output_at_a_url_that_leads_nowhere_is_told(memory):
    memory.pipe_file("/x", b"text\n")
    done = run("rank", "memory://x", "memory://x", "-o", "nonsense://x")
    assert done.code == 2
    assert "cannot write nonsense://x: " in done.err


@pytest.mark.parametrize(("url", "seen"), [
    ("s3://bucket/in/0.jsonl", "s3://bucket/in/0.jsonl"),
    ("ftp://me:secret@host:21/in@home/0.jsonl", "ftp://host:21/in@home/0.jsonl"),
    ("https://secret@host/0.jsonl?sig=secret&x=secret", "https://host/0.jsonl?***"),
    ("simplecache::https://me:secret@host/0.jsonl", "simplecache::https://host/0.jsonl"),
    ("abfs://container@account/0.jsonl", "abfs://container@account/0.jsonl"),
    ("/a folder/who@where?.jsonl", "/a folder/who@where?.jsonl"),
])
def test_secrets_of_urls_are_not_shown(url, seen):
    assert redact_url(url) == seen
    for said in (f"{url} is missing", f"403, url='{url}'"):
        assert "secret" not in redact(said, url)
    without_protocol = url.partition("://")[2]
    assert "secret" not in redact(f"no such file: {without_protocol}", url)


def test_a_password_that_others_repeat_is_hidden():
    assert redact("me may not enter with secret", "ftp://me:secret@host/x") == (
        "me may not enter with ***")


def test_the_package_of_a_protocol_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingExtra, match="gcsfs"):
        Input("gs://bucket/x")


def test_what_a_protocol_raises_is_told(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no credentials")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(InputError, match="memory://x: no credentials"):
        Input("memory://x")


def test_a_broken_connection_is_told_with_the_url(memory):
    memory.pipe_file("/x", b"text\n")
    source = Input("memory://x")
    memory.rm("/x")
    with pytest.raises(InputError, match="memory://x"):
        list(source)
