"""Formats in and out, compression, and lines that are lines."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import tracemalloc
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pytest

from commands import PATIENCE, run, write
from minrisk import InputError, MissingExtra, Ranking, Segment, decode_corpus
from minrisk.io.files import Input, Output, file_key
from minrisk.io.formats import FORMATS
from minrisk.io.inputs import InputFile, input_files
from minrisk.io.journal import Journal, PartialShard
from minrisk.io.outputs import MISSING, MatrixWriter
from minrisk.io.records import Record, Result
from minrisk.io.segments import SampleReader
from minrisk.io.text import Column, TextReader
from minrisk.io.weighting import Weighting
from minrisk.io.writers import ChoiceWriter

zstandard = pytest.importorskip("zstandard", reason="needs the extra minrisk[zst]")

COMPRESS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
DECOMPRESS = {
    "gz": gzip.decompress,
    "xz": lzma.decompress,
    "zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data).read(),
}
kinds = pytest.mark.parametrize("kind", list(COMPRESS))


@pytest.fixture
def pyarrow():
    pytest.importorskip("pyarrow.parquet", reason="needs the extra minrisk[parquet]")
    return pytest.importorskip("pyarrow")


def texts(path):
    return list(Input(str(path)).texts())


def jsonl(path, *lines, **options):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return records(SampleReader(files(path), **options))


def files(*paths):
    return tuple(InputFile.at(str(path)) for path in paths)


def records(reader):
    return [reader.parse(raw) for raw in reader.records(reader.open())]


def columns(tmp_path, **contents):
    """Columns from the content of a file and the number of its lines per segment."""
    made = {}
    for name, (content, size) in contents.items():
        path = tmp_path / f"{name}.txt"
        path.write_bytes(content.encode())
        made[name] = Column(files(path), size, "--num-candidates")
    return made


@pytest.mark.parametrize("field", ["id", "source", "counts"])
def test_nesting_that_can_just_be_parsed_is_told(tmp_path, field):
    depths = range(sys.getrecursionlimit() - 300, sys.getrecursionlimit())
    found = jsonl(tmp_path / "in.jsonl", *(
        f'{{"samples": ["a"], "{field}": {"[" * depth + "]" * depth}}}' for depth in depths))
    assert all(record.error is not None for record in found)


def test_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("a\u2028b\x0bc\x0cd\x1ce\x85f\rg\nsecond\r\nthird".encode())
    assert texts(path) == ["a\u2028b\x0bc\x0cd\x1ce\x85f\rg", "second", "third"]


def test_empty_lines_are_lines(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"\na\n\n")
    assert texts(path) == ["", "a", ""]


def test_an_empty_file_has_no_lines(tmp_path):
    path = tmp_path / "in.txt"
    path.touch()
    assert texts(path) == []


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert texts(path) == ["a", "\ufeffb"]


def test_lines_longer_than_a_chunk_are_whole(tmp_path):
    lines = ["x" * 100_000, "", "y" * 40_000]
    path = tmp_path / "in.txt"
    path.write_text("\n".join(lines))
    assert texts(path) == lines


@kinds
def test_compression_is_known_by_content_and_not_by_name(tmp_path, kind):
    path = tmp_path / "plain.txt"
    path.write_bytes(COMPRESS[kind](b"a\nb\n"))
    assert texts(path) == ["a", "b"]


@kinds
def test_compressed_streams_can_be_joined(tmp_path, kind):
    path = tmp_path / "joined"
    path.write_bytes(COMPRESS[kind](b"a\nb") + COMPRESS[kind](b"c\n"))
    assert texts(path) == ["a", "bc"]


@kinds
def test_padding_after_a_compressed_stream_is_ignored(tmp_path, kind):
    path = tmp_path / "padded"
    path.write_bytes(COMPRESS[kind](b"a\n") + bytes(40_000))
    assert texts(path) == ["a"]


@kinds
def test_nothing_after_the_first_stream_is_lost(tmp_path, kind):
    path = tmp_path / "joined"
    stream = COMPRESS[kind](b"a\n")
    path.write_bytes(stream + bytes(4) + stream)
    assert texts(path) == ["a", "a"]
    path.write_bytes(stream + bytes([stream[0] ^ 1]) + stream[1:])
    with pytest.raises(InputError):
        texts(path)


@pytest.mark.parametrize("kind", ["plain", "gz", "zst"])
def test_a_line_that_was_written_to_a_pipe_does_not_wait_for_the_next(kind):
    flushed = {"plain": lambda text: text,
               "gz": flushing(zlib.compressobj(wbits=31), zlib.Z_SYNC_FLUSH),
               "zst": flushing(zstandard.ZstdCompressor().compressobj(),
                               zstandard.COMPRESSOBJ_FLUSH_BLOCK)}[kind]
    read, write_end = os.pipe()
    with (open(read) as stdin, open(write_end, "wb", 0) as pipe, patch.object(sys, "stdin", stdin),
          ThreadPoolExecutor(1) as thread):
        lines = iter(Input("-"))
        for number in range(3):
            pipe.write(flushed(b"line %d\n" % number))
            found = thread.submit(next, lines)
            try:
                assert found.result(PATIENCE) == b"line %d" % number
            finally:
                if not found.done():
                    pipe.close()  # or the thread would wait for ever


def flushing(compressor, mode):
    return lambda text: compressor.compress(text) + compressor.flush(mode)


@kinds
def test_standard_input_is_decompressed_without_seeking(kind):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation

    stdin = io.TextIOWrapper(Pipe(COMPRESS[kind](b"a\nb\n")))
    with patch.object(sys, "stdin", stdin):
        assert texts("-") == ["a", "b"]


@kinds
def test_a_truncated_file_names_itself_after_its_whole_lines(tmp_path, kind):
    numbers = np.random.default_rng(0).integers(10**12, size=30_000)
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(COMPRESS[kind](b"".join(b"%d\n" % n for n in numbers))[:-20])
    lines = iter(Input(str(path)))
    assert next(lines) == b"%d" % numbers[0]
    with pytest.raises(InputError, match=rf"cut\.{kind}: truncated"):
        list(lines)


@kinds
def test_a_line_has_a_limit(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("minrisk.io.files.MAX_LINE", 100_000)
    path = tmp_path / f"long.{kind}"
    path.write_bytes(COMPRESS[kind](b"a" * 90_000 + b"\n" + b"b" * 300_000 + b"\nc\n"))
    lines = iter(Input(str(path)))
    assert len(next(lines)) == 90_000
    with pytest.raises(InputError, match=rf"long\.{kind}:2: .*100,000"):
        next(lines)


@pytest.mark.parametrize("change", [lambda size: size // 2, lambda size: size + 1])
def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, change):
    line = b"x" * 99 + b"\n"
    path = tmp_path / "in.txt"
    path.write_bytes(line * 4000)
    [file] = input_files([path])
    for source in (file.open(), file.open()):  # before it is opened, too
        lines = iter(source)
        next(lines)
        os.truncate(path, change(len(line * 4000)))
        with pytest.raises(InputError, match=r"in\.txt: .*400000"):
            list(lines)


@kinds
def test_a_corrupt_file_names_itself(tmp_path, kind):
    data = bytearray(COMPRESS[kind](bytes(range(256)) * 40))
    data[12:40] = b"\xff" * 28
    path = tmp_path / f"bad.{kind}"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"bad\.{kind}"):
        list(Input(str(path)))


def test_consumed_bytes_reach_the_size_of_the_file(tmp_path):
    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress(b"a\n" * 1000))
    source = Input(str(path))
    assert (source.consumed, source.size) == (0, path.stat().st_size)
    assert sum(1 for _ in source) == 1000
    assert source.consumed == source.size


def test_zst_without_its_package_says_what_to_install(tmp_path):
    path = tmp_path / "in.zst"
    path.write_bytes(zstandard.compress(b"a"))

    def missing(name):
        raise ImportError(name)

    with patch("minrisk.io.files.import_module", missing):
        with pytest.raises(MissingExtra, match=r"minrisk\[zst\]"):
            texts(path)
        with pytest.raises(MissingExtra, match=r"minrisk\[zst\]"):
            Output(str(tmp_path / "out.zst"))


@kinds
def test_output_is_compressed_by_its_extension(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    with Output(str(path)) as output:
        output.write("é\n")
        output.write("b\n")
    assert DECOMPRESS[kind](path.read_bytes()) == "é\nb\n".encode()


@kinds
def test_compressed_output_is_complete_after_an_error(tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    with suppress(ZeroDivisionError), Output(str(path)) as output:
        output.write("a\n")
        raise ZeroDivisionError
    assert DECOMPRESS[kind](path.read_bytes()) == b"a\n"


def test_plain_output_is_on_disk_at_once(tmp_path):
    path = tmp_path / "out"
    with Output(str(path)) as output:
        output.write("a\n")
        assert path.read_text() == "a\n"


def test_a_file_is_the_same_under_another_name(tmp_path):
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("x")
    other.symlink_to(path)
    assert file_key(str(path), "stdin") == file_key(str(other), "stdout")
    assert file_key(str(tmp_path / "c"), "stdin") is None
    assert file_key("/dev/null", "stdin") is None  # reading and writing a device is fine


def test_a_record_becomes_a_segment(tmp_path):
    line = ('{"id": "x", "source": "s", "samples": ["a", "b"], "references": ["c", "d", "e"],'
            ' "weights": [1, 2, 1], "note": {"kept": true}}')
    (record,) = jsonl(tmp_path / "in", line)
    segment = record.segment
    assert (record.id, record.fields) == ("x", {"note": {"kept": True}})
    assert segment.hypotheses == ("a", "b")
    assert segment.references == ("c", "d", "e")
    assert segment.weights.tolist() == [0.25, 0.5, 0.25]
    assert segment.source == "s"


def test_an_oracle_takes_the_references_of_its_field_with_even_weights(tmp_path):
    line = ('{"source": "s", "samples": ["a", "b"], "references": ["c"], "weights": [1],'
            ' "human": ["d", "e"]}')
    (record,) = jsonl(tmp_path / "in", line, oracle="human")
    assert record.segment.references == ("d", "e")
    assert record.segment.weights.tolist() == [0.5, 0.5]
    assert record.segment.source == "s"
    assert record.fields == {"human": ["d", "e"]}


def test_indices_run_through_all_files_and_blank_lines_do_not_count(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text('{"samples": ["a"]}\n\n  \n{"hypotheses": ["b"]}\n')
    second.write_text('{"samples": ["c"], "id": null}')
    found = records(SampleReader(files(first, second)))
    assert [r.segment.position for r in found] == [0, 1, 2]
    assert [r.id for r in found] == [0, 1, 2]
    assert found[1].where == f"{first}:4"


def test_a_bad_line_keeps_its_place_and_its_id(tmp_path):
    good = '{"samples": ["a"]}'
    found = jsonl(tmp_path / "in", good, "{", '{"id": "x"}', good)
    assert [r.id for r in found] == [0, 1, "x", 3]
    assert [r.error is None for r in found] == [True, False, False, True]


def test_logprobs_weigh_only_on_request(tmp_path):
    line = '{"samples": ["a", "b"], "logprobs": [0, -1.5]}'
    with pytest.warns(UserWarning, match="logprobs"):
        auto = jsonl(tmp_path / "in", line)
    uniform = jsonl(tmp_path / "in", line, weighting=Weighting("uniform"))
    softmax = jsonl(tmp_path / "in", line, weighting=Weighting("logprobs"))
    assert auto[0].segment.weights.tolist() == uniform[0].segment.weights.tolist() == [0.5, 0.5]
    ratio = np.divide(*softmax[0].segment.weights)
    assert ratio == pytest.approx(np.exp(1.5))


@pytest.mark.parametrize(("more", "weighting", "expected"), [
    ({}, "auto", [0.75, 0.25]),
    ({}, "uniform", [0.75, 0.25]),
    ({"weights": [1, 3]}, "auto", [0.5, 0.5]),
    ({"logprobs": [0, -np.log(4)]}, "logprobs", [0.8, 0.2]),
    ({"references": ["c", "d"]}, "auto", [0.5, 0.5]),
])
def test_a_sample_with_a_count_is_as_many_samples(tmp_path, more, weighting, expected):
    path = write(tmp_path / "in.jsonl", {"samples": ["a", "b"], "counts": [3, 1], **more})
    [record] = records(SampleReader(files(path), Weighting(weighting)))
    weights = Counter()
    for text, weight in zip(record.segment.references, record.segment.weights, strict=True):
        weights[text] += weight
    assert list(weights.values()) == pytest.approx(expected)
    assert record.fields == {}


def test_uniform_weighting_ignores_whatever_weights_there_are(tmp_path):
    line = '{"samples": ["a", "b"], "weights": [0, 0], "logprobs": [NaN]}'
    (record,) = jsonl(tmp_path / "in", line, weighting=Weighting("uniform"))
    assert record.segment.weights.tolist() == [0.5, 0.5]


def test_text_columns_become_segments(tmp_path):
    made = columns(tmp_path, hypotheses=("a\r\nb\r\nc\r\nd\r\n", 2), source=("s\nt\n", 1),
                   references=("1\n2\n3\n4\n5\n6", 3), logprobs=("0\n0\n-inf\n0\n-1\n-2\n", 3))
    first, second = records(TextReader(**made))
    assert first.segment.hypotheses == ("a", "b")
    assert second.segment.hypotheses == ("c", "d")
    assert second.segment.references == ("4", "5", "6")
    assert (first.segment.source, second.segment.source) == ("s", "t")
    assert first.segment.weights.tolist() == [0.5, 0.5, 0]
    assert [first.segment.position, second.segment.position] == [0, 1]
    assert second.where.endswith("hypotheses.txt:3-4")


def test_bad_text_fails_its_segment_only(tmp_path):
    path = tmp_path / "h"
    path.write_bytes(b"a\nb\nc\n\xff\ne\nf\n")
    found = records(TextReader(Column(files(path), 2, "")))
    assert [isinstance(r.segment, Segment) for r in found] == [True, False, True]
    assert f"{path}:4: found byte 0xff" in str(found[1].error)


@pytest.mark.parametrize(("size", "where"), [(1, ":4: "), (2, ":3-4: {path}:4: ")])
def test_a_message_has_the_position_of_its_error_once(tmp_path, size, where):
    path = tmp_path / "h"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    record = records(TextReader(Column(files(path), size, "")))[-1]
    assert record.message.startswith(f"{path}{where.format(path=path)}found byte 0xff")
    result = Result(0, record.index, record.checksum, "", failure=record.failure)
    assert result.message.replace(":3: ", ":3-4: ") == record.message


def chosen(*hypotheses, ranking=None, **more):
    """A record with its ranking."""
    ranking = ranking or Ranking.from_utility(np.ones(len(hypotheses)))
    return Record(0, more.pop("id", 0), "in", 1, segment=Segment(hypotheses), ranking=ranking,
                  **more)


def test_results_are_json_lines_with_the_fields_of_the_input():
    ranking = Ranking(np.array([1, 0]), np.array([np.nan, 2.5]), 4)
    record = chosen("a", "b\u2028", id="é", ranking=ranking, fields={"x": [1], "text": "theirs"})
    line = ChoiceWriter(nbest=5, utilities=True)(record)
    assert json.loads(line) == {
        "id": "é", "text": "b\u2028", "index": 1, "utility": 2.5,
        "nbest": [{"text": "b\u2028", "index": 1, "utility": 2.5},
                  {"text": "a", "index": 0, "utility": None}],
        "utilities": [None, 2.5], "pairs": 4, "x": [1],
    }
    assert "é" in line
    assert line.count("\n") == 1


def test_text_results_are_one_line_each():
    writer, record = ChoiceWriter(FORMATS["text"]), chosen("a\r\nb\nc\rd")
    assert writer(record) == "a b c d\n"
    assert writer.failed(record.failed(InputError("why"))) == "\n"


def test_a_lone_surrogate_survives_json(tmp_path):
    path = tmp_path / "out"
    with Output(str(path)) as output:
        output.write(ChoiceWriter()(chosen("a\ud800")))
    assert json.loads(path.read_text(encoding="utf-8"))["text"] == "a\ud800"


def test_matrices_appear_whole_and_what_was_written_before_a_kill_is_kept(tmp_path):
    path = tmp_path / "m.npz"
    writer = MatrixWriter(str(path))
    writer.begin()
    writer.add(7, np.ones((1, 3)))
    again = MatrixWriter(str(path))  # as after a kill
    again.begin(resume=True)
    again.add(0, np.eye(2))
    assert not path.exists()
    again.pack()
    again.clean()
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]
    with np.load(path) as found:
        assert found.files == ["0", "7"]
        assert found["7"].shape == (1, 3)


ENTRIES = [{"a": "é", "b": list(range(n))} for n in range(3)]


def append(path, *entries, owner=""):
    """Append entries to a journal; returns the offset of the last one."""
    with closing(Journal(str(path), owner)) as made:
        return [made.append(entry) for entry in entries][-1]


def journal(path):
    append(path, *ENTRIES)
    return path.read_bytes()


def test_a_journal_that_is_cut_anywhere_keeps_its_whole_entries(tmp_path):
    path = tmp_path / "journal"
    content = journal(path)
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        whole = sum(size >= end - 1 for end in ends)  # the line feed may be missing
        assert [entry for _, entry in Journal(str(path))] == ENTRIES[:whole]
        offset = append(path, {"next": 1})
        assert [entry for _, entry in Journal(str(path))] == [*ENTRIES[:whole], {"next": 1}]
        assert list(Journal(str(path)).read([offset])) == [{"next": 1}]


def test_a_bit_that_flips_in_a_journal_costs_the_entries_around_it_and_no_other(tmp_path):
    path = tmp_path / "journal"
    content = journal(path)
    for place in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        found = [entry for _, entry in Journal(str(path))]
        assert all(entry in ENTRIES for entry in found)
        assert len(found) >= len(ENTRIES) - 2  # two where it was the line feed between them


def test_entries_of_another_owner_are_passed_over(tmp_path):
    path = str(tmp_path / "journal")
    for owner in ("one", "other", "one"):
        append(path, {"owner": owner}, owner=owner)
    assert [entry for _, entry in Journal(path, "other")] == [{"owner": "other"}]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"1" * 5000, b"[" * 100_000])
def test_an_entry_that_is_no_json_is_passed_over(tmp_path, content):
    path = tmp_path / "journal"
    journal(path)
    with path.open("ab") as stream:
        stream.write(b"%08x %b\n" % (crc32(content, crc32(b"")), content))
    assert [entry for _, entry in Journal(str(path))] == ENTRIES


def partial(path):
    """What is found of an unfinished shard."""
    found = PartialShard(str(path))
    found.load()
    return found


RESULTS = {"indices": [0, 1], "checksums": [7, 8], "texts": ["a\n", "b\n"],
           "failures": [None, {"file": "in", "line": 2, "id": "x", "reason": "no"}],
           "counts": {"pairs": 4}}


@pytest.mark.parametrize("change", [
    {"texts": ["a\n", 5]}, {"texts": ["a\n"]}, {"texts": "ab"}, {"texts": None},
    {"indices": [0, -1]}, {"indices": [0, 10**15]}, {"indices": [0, True]}, {"indices": [0, 1, 2]},
    {"indices": [], "checksums": [], "texts": [], "failures": []}, {"checksums": [7, 2**70]},
    {"checksums": [7, -1]}, {"checksums": [7, 8.5]}, {"failures": [None, 5]}, {"failures": []},
    {"failures": [None, {"reason": []}]}, {"counts": None}, {"counts": {"pairs": "4"}}])
def test_entries_that_are_no_results_are_passed_over(tmp_path, change):
    path = tmp_path / "shard.partial"
    append(path, RESULTS, RESULTS | change)
    found = partial(path)
    assert list(found.done) == [7, MISSING]
    assert found.counts == {"pairs": 4, "segments": 1}
    found.add([Result(0, 1, 8, "c\n", {"pairs": 2})])
    assert list(found.texts()) == ["a\n", "c\n"]
    found.journal.close()


@pytest.mark.parametrize("entry", [[], "indices", 7, None])
def test_entries_that_have_no_fields_are_passed_over(tmp_path, entry):
    path = tmp_path / "shard.partial"
    append(path, entry)
    assert list(partial(path).done) == []


def test_results_that_are_there_twice_count_once(tmp_path):
    path = tmp_path / "shard.partial"
    entry = RESULTS | {"failures": [None, None]}
    append(path, entry)
    path.write_bytes(path.read_bytes() * 3)
    found = partial(path)
    assert found.counts == {"pairs": 4, "segments": 2}
    assert list(found.texts()) == entry["texts"]


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_small_file_that_becomes_a_huge_one_takes_little_memory(tmp_path, kind):
    path = tmp_path / f"bomb.{kind}"
    path.write_bytes(COMPRESS[kind](b"\n" * 100_000_000))
    tracemalloc.start()
    try:
        assert next(iter(Input(str(path)))) == b""
        assert tracemalloc.get_traced_memory()[1] < 70_000_000
    finally:
        tracemalloc.stop()


def test_parquet_with_texts_that_are_no_utf_8_is_told(tmp_path, pyarrow):
    path = tmp_path / "in.parquet"
    column = pyarrow.Array.from_buffers(pyarrow.string(), 1, [
        None, pyarrow.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pyarrow.py_buffer(b"\xff")])
    pyarrow.parquet.write_table(pyarrow.table({"samples": [["a"]], "day": column}), path)
    done = run("decode", path)
    assert (done.code, done.out) == (2, "")
    assert "in.parquet: unreadable" in done.err


def test_parquet_with_days_that_python_does_not_know_is_told(tmp_path, pyarrow):
    path = tmp_path / "in.parquet"
    day = pyarrow.array([2**31 - 1], pyarrow.date32())
    pyarrow.parquet.write_table(pyarrow.table({"samples": [["a"]], "day": day}), path)
    done = run("decode", path)
    assert (done.code, done.out) == (2, "")
    assert "in.parquet: unreadable Parquet: " in done.err


def test_bytes_in_a_map_of_parquet_are_texts(tmp_path, pyarrow):
    path = tmp_path / "in.parquet"
    known = pyarrow.array([[("a", "café".encode())]],
                          pyarrow.map_(pyarrow.string(), pyarrow.binary()))
    pyarrow.parquet.write_table(pyarrow.table({"samples": [["a"]], "known": known}), path)
    assert run("decode", path).records[0]["known"] == [["a", "café"]]


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_an_input_error(name):
    with pytest.raises(InputError, match="name"):
        list(decode_corpus(name))
    with pytest.raises(InputError, match="name"):
        decode_corpus([["a"]], output=name)
