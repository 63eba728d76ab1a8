"""Many files into a folder: the same bytes however it is made, and nothing lost or twice."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
from array import array
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import PATIENCE, run, spawn, write
from minrisk import ChrF, Standard
from minrisk._core.errors import InputError
from minrisk.cli import SOME_FAILED
from minrisk.io.formats import JSON_LINES
from minrisk.io.inputs import InputFile, expand
from minrisk.io.outputs import MISSING, Shard, UnfinishedShard, folder_shards
from minrisk.io.records import checksum
from minrisk.io.segments import SampleReader
from minrisk.run import processes
from minrisk.run.processes import plan_workers
from minrisk.run.stages import Decode
from minrisk.run.workers import Block, End, ShardReader, WorkerPool, workers_that_fit
from shard_folders import (
    errors,
    lines,
    partials,
    segments,
    write_shards,
)


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write_shards(tmp_path / "in")


def alone(inputs: Path, *args: object) -> dict[str, bytes]:
    """What one process makes of every shard by itself."""
    return {path.name: run("decode", path, *args).out.encode() for path in inputs.iterdir()}


def shards(paths: list[str]) -> list[Shard]:
    files = tuple(map(InputFile.at, paths))
    return folder_shards(files, SampleReader(files).shards(), JSON_LINES)


def reading(path: Path, records: int, size: int = 10**6, done: Any = None,
            number: int = 0) -> ShardReader:
    file = InputFile.at(str(path))
    shard = Shard("out", (file,), SampleReader((file,)))
    unfinished = UnfinishedShard(number, shard, array("q") if done is None else done)
    return ShardReader(unfinished, records, size)


@pytest.mark.parametrize("args", [("--confidence", "--utilities", "--nbest", "2"),
                                  ("--format", "text", "--strategy", "n-by-s", "--subset", "3")])
def test_a_folder_has_the_bytes_of_single_runs(inputs, tmp_path, inline, args):
    result = run("decode", f"{inputs}/*.jsonl", "-o", f"{tmp_path}/out/", *args, "--batch-size",
                 "1")
    assert result.code == 0
    expected = alone(inputs, *args)
    if "text" in args:
        expected = {Path(name).stem + ".txt": text for name, text in expected.items()}
    assert lines(tmp_path / "out") == expected
    assert "68 segments" in result.err
    assert errors(tmp_path / "out") == []


def test_parquet_stays_parquet(tmp_path, inline):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra minrisk[parquet]")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(segments(9)), tmp_path / "a.parquet")
    write(tmp_path / "a.jsonl", *segments(9))
    run("decode", f"{tmp_path}/*.parquet", "-o", f"{tmp_path}/out/", "--workers", 1)
    found = parquet.read_table(tmp_path / "out" / "a.parquet").to_pylist()
    assert found == run("decode", tmp_path / "a.jsonl").records


@pytest.mark.parametrize("pattern", ["*", "*.jsonl", "[0-9e]*"])
def test_a_folder_that_was_made_can_be_read_by_a_pattern(server, tmp_path, inline, pattern):
    sources = tmp_path / "sources.txt"
    sources.write_text("one\ntwo\n")
    drawn, out = tmp_path / "drawn", tmp_path / "out"
    assert run("sample", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "4",
               "--prompt", "{source}", "-o", f"{drawn}/").code == 0
    drawn.joinpath("sources.jsonl").rename(drawn / "0.jsonl")
    drawn.joinpath("errors.jsonl").touch()  # its name in earlier versions
    found = glob(f"{drawn}/{pattern}")  # as a shell would
    assert len(found) > 1
    assert run("decode", *found, "-o", f"{out}/").code == 0
    expected = run("decode", drawn / "0.jsonl").out
    assert lines(out) == {"0.jsonl": expected.encode()}
    assert run("decode", f"{drawn}/{pattern}").out == expected


def test_patterns_of_urls_name_the_files_there(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
    for number in (2, 1):
        with fsspec.open(f"memory://shards/{number}.jsonl", "w") as file:
            file.write("".join(json.dumps(s) + "\n" for s in segments(3, number)))
    for beside in (".manifest.json", ".errors.jsonl"):
        fsspec.filesystem("memory").touch(f"/shards/{beside}")
    found = expand(["memory://shards/*.jsonl"])
    assert found == ["memory://shards/1.jsonl", "memory://shards/2.jsonl"]
    assert [shard.name for shard in shards(found)] == ["1.jsonl", "2.jsonl"]


def test_shards_stay_compressed_as_they_were(tmp_path, inline):
    content = "".join(json.dumps(s) + "\n" for s in segments(9)).encode()
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "in.jsonl").write_bytes(content)
    assert run("decode", tmp_path / "in.jsonl.gz", "-o", f"{tmp_path}/out/").code == 0
    plain = run("decode", tmp_path / "in.jsonl").out
    assert gzip.decompress((tmp_path / "out" / "in.jsonl.gz").read_bytes()).decode() == plain


def test_the_memory_that_is_given_bounds_what_is_on_its_way(tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(40))
    size = path.stat().st_size // 10
    *blocks, end = reading(path, 16, size).blocks()
    assert end == End(0, 40)
    assert all(sum(len(raw.content) for raw in block.items) <= size for block in blocks)
    assert [len(block.items) for block in reading(path, 16, 1).blocks()
            if isinstance(block, Block)] == [1] * 40
    assert run("decode", path, "-o", f"{tmp_path}/out/", "--buffer", "0.000001").code == 0
    assert lines(tmp_path / "out") == {"in.jsonl": run("decode", path).out.encode()}


def test_the_memory_of_the_driver_does_not_grow_with_the_number_of_segments(tmp_path):
    def peak(count):
        path = write(tmp_path / f"{count}.jsonl",
                     *({"samples": ["a", "b"], "x": "x" * 5000},) * count)
        tracemalloc.start()
        try:
            assert run("decode", path, "-o", f"{tmp_path}/{count}/", "-q", "--workers", "1",
                       "--batch-size", "4").code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # whatever is made once
    few, many = peak(40), peak(400)
    assert many < few + 300_000  # holding the records alone would take 2 megabytes


@given(st.integers(0, 30), st.sets(st.integers(0, 29)), st.integers(1, 7))
def test_every_segment_is_read_once_unless_it_is_done(tmp_path_factory, count, done, size):
    path = tmp_path_factory.getbasetemp() / "in.jsonl"
    contents = [f'"{i}"'.encode() for i in range(count)]
    path.write_bytes(b"\n \n".join(contents))
    known = array("q", [checksum(contents[i]) if i in done else MISSING
                        for i in range(max([i for i in done if i < count], default=-1) + 1)])
    *blocks, last = reading(path, size, done=known, number=3).blocks()
    seen = [(raw.index, raw.line, raw.content, raw.shard) for b in blocks for raw in b.items]
    assert seen == [(i, 2 * i + 1, contents[i], 3) for i in range(count) if i not in done]
    assert last == End(3, count)
    assert all(len(block.items) <= size for block in blocks)


def test_names_are_kept_below_the_common_folder(tmp_path):
    for name in ("a/x.jsonl", "b/x.jsonl.zst", "b/c/y.txt", "c/x.jsonl", "c/x.txt", ".errors.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = expand([f"{tmp_path}/[ab]/**/*.*"])
    assert [shard.name for shard in shards(found)] == [
        "a/x.jsonl", "b/c/y.jsonl", "b/x.jsonl.zst"]
    with pytest.raises(InputError, match=r"c/x\.jsonl"):
        shards([f"{tmp_path}/c/x.jsonl", f"{tmp_path}/c/x.txt"])
    with pytest.raises(InputError, match="list of errors"):
        shards([f"{tmp_path}/.errors.txt"])
    with pytest.raises(InputError, match=r"\*\.parquet"):
        expand([f"{tmp_path}/*.parquet"])


def test_relative_paths_are_found_by_every_worker(inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [shard] = shards(["in/0.jsonl"])
    assert [(file.name, file.location) for file in shard.files] == [
        ("in/0.jsonl", f"{tmp_path}/in/0.jsonl")]
    [shard] = shards(["memory://bucket/x.jsonl"])
    assert shard.files[0].location == "memory://bucket/x.jsonl"
    assert shard.name == "x.jsonl"


def poisoned(tmp_path: Path) -> Path:
    good = {"samples": ["a", "b", "a"]}
    return write(tmp_path / "in.jsonl", good, "not JSON", {"id": "x", "samples": ["bad"]},
                 {"id": "empty", "samples": []}, {"id": "last", **good})


def test_an_error_stops_where_that_is_asked_for_and_is_tried_again(tmp_path, inline):
    path, out = poisoned(tmp_path), tmp_path / "out"
    args = ["decode", path, "-o", f"{out}/", "--batch-size", "1", "--workers", "1",
            "--metric", "python:faults:equal"]
    result = run(*args, "--on-error", "stop")
    assert result.code == 2
    assert f"error: {path}:2: " in result.err
    assert "in.jsonl" not in lines(out)
    few = run(*args, "--resume", "--max-errors", "2")
    assert few.code == 2
    assert "--max-errors 2" in few.err
    assert run(*args, "--resume", "--max-errors", "3").code == SOME_FAILED
    assert len(errors(out)) == 3


def test_a_shard_that_breaks_off_is_told_and_the_others_are_made(inputs, tmp_path, inline):
    content = gzip.compress("".join(json.dumps(s) + "\n" for s in segments(300)).encode())
    (inputs / "5.jsonl.gz").write_bytes(content[: len(content) // 2])
    out = tmp_path / "out"
    result = run("decode", f"{inputs}/*", "-o", f"{out}/")
    assert result.code == SOME_FAILED
    [failure] = errors(out)
    assert failure["file"] == str(inputs / "5.jsonl.gz")
    assert "truncated gz" in failure["reason"]
    assert set(lines(out)) == {"0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl"}
    assert [path.name for path in partials(out)] == ["5.jsonl.gz.partial"]
    assert f"unfinished: {inputs}/5.jsonl.gz: " in result.err
    assert run("decode", f"{inputs}/*", "-o", out, "--resume").code == SOME_FAILED
    assert len(errors(out)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_ctrl_c_reaches_no_worker_that_is_still_importing(inputs, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "if '--multiprocessing-fork' in sys.orig_argv:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = spawn("decode", inputs / "0.jsonl", "--workers", 2)
    _, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, err
    assert b"KeyboardInterrupt" not in err


@pytest.mark.parametrize("scale", [(), ("--workers", "2", "--batch-size", "5")])
def test_samples_go_into_a_folder_as_into_files(server, tmp_path, scale):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n\ntwo\n")
    write(folder / "b.jsonl", *({"source": f"source {i}", "lang": "fr"} for i in range(9)))
    args = ["--endpoint", server.endpoint, "--model", "m", "-n", "6", "--seed", "3"]
    args += ["--on-blank", "fail"]
    result = run("sample", f"{folder}/*", "-o", f"{tmp_path}/out/", *args, *scale)
    assert result.code == SOME_FAILED
    assert "66 samples" in result.err
    assert lines(tmp_path / "out") == {
        f"{path.stem}.jsonl": run("sample", path, *args).out.encode()
        for path in folder.iterdir()}
    assert [(e["line"], e["id"]) for e in errors(tmp_path / "out")] == [(2, 1)]


def test_translations_are_drawn_by_some_and_chosen_by_others(server, tmp_path):
    sources, out = tmp_path / "sources.txt", tmp_path / "out"
    sources.write_text("".join(f"source {i}\n" for i in range(11)))
    args = ["translate", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "6",
            "--strategy", "n-by-s", "--subset", "2"]
    plain = run(*args, "--prompt", "{source}").out.encode()
    result = run(*args, "--prompt", "{source}", "-o", f"{out}/", "--workers", "2",
                 "--sampling-workers", "1", "--batch-size", "3")
    assert result.code == 0
    assert lines(out) == {"sources.txt": plain}
    assert "1 workers for sample were busy" in result.err
    assert "2 workers for decode were busy" in result.err
    bare = run(*args, "-o", f"{tmp_path}/bare/")
    assert bare.code == 2
    assert f"{sources}:1: " in bare.err
    assert not (tmp_path / "bare").exists()


def test_a_report_says_what_was_done_and_how_fast(inputs, tmp_path):
    report = tmp_path / "run.json"
    args = ("decode", f"{inputs}/*", "-o", f"{tmp_path}/out/", "--report", report, "--workers", "2")
    assert run(*args, "--threads", "1").code == 0
    found = json.loads(report.read_text())
    assert found["signatures"][0].startswith("strategy:standard|metric:chrf")
    assert (found["engine"], found["workers"], found["threads"]) == (
        "local", {"decode": 2}, {"decode": 1})
    assert found["this_run"]["segments"] == found["output"]["segments"] == 68
    assert found["this_run"]["pairs"] == found["output"]["pairs"] > 0
    assert set(found["seconds_of_stages"]) == {"read", "parse", "decode", "render", "write"}
    assert 0 < found["utilisation"]["decode"] <= 1
    assert found["output"]["is_finished"]


@pytest.mark.parametrize(("args", "message"), [
    (["--resume"], "--output"),
    (["--overwrite"], "--output"),
    (["-o", "@out/", "--resume", "--overwrite"], "--overwrite"),
    (["-o", "@out/", "--address", "auto"], "--engine ray"),
    (["-o", "@out/", "--matrix", "m.npz"], "--matrix must be a folder"),
    (["-o", "@out.jsonl", "--matrix", "@scores/"], "--matrix"),
    (["-o", "@in/"], "output is the input"),
    (["-o", "@out/", "-"], "standard input"),
    (["-o", "@out/", "@missing.jsonl"], "missing.jsonl"),
    (["-o", "@out/", "@in"], "/in: it is a directory")])
def test_options_that_contradict_a_folder_are_refused(inputs, tmp_path, args, message):
    given = [arg.replace("@", f"{tmp_path}/") for arg in args]
    result = run("decode", *sorted(inputs.iterdir()), *given)
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("given", "gpus", "devices"), [
    (None, 1, ["0", "1"]), (None, 0.5, ["0", "0"]), (None, 2, ["0,1", "2,3"]),
    (None, 0.3, ["0", "0", "0", "1"]), ("5,7", 1, ["5", "7"])])
def test_workers_share_the_gpus(monkeypatch, given, gpus, devices):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert [processes._devices(number, gpus) for number in range(len(devices))] == devices


def test_there_are_as_many_workers_as_gpus_for_them(monkeypatch):
    pool = WorkerPool([Decode(Standard(ChrF()))], gpus=0.5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert [planned.workers for planned in plan_workers([pool])] == [4]
    for none in ("", "-1", "-1,5"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        with pytest.raises(InputError, match="0 NVIDIA GPUs"):
            plan_workers([pool])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with pytest.raises(InputError, match="1 NVIDIA GPUs"):
        plan_workers([replace(pool, workers=4)])


@pytest.mark.parametrize(("gpus", "each", "workers"), [
    (2, 1, 2), (2, 2, 1), (3, 2, 1), (1, 2, 0), (2, 0.5, 4), (2, 0.3, 6), (0, 0.5, 0)])
def test_no_worker_has_parts_of_two_gpus(gpus, each, workers):
    assert workers_that_fit(gpus, each) == workers


def test_a_gpu_and_a_half_is_refused():
    with pytest.raises(InputError, match=r"1\.5"):
        workers_that_fit(4, 1.5)


def test_each_worker_sees_a_gpu_of_its_own(inputs, tmp_path, monkeypatch):
    """With two GPUs that are not there: a metric that asks for one finds its name."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(tmp_path / "flag"))
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:on_visible_gpus", "--batch-size",
            "2")
    result = run(*args, "-o", f"{tmp_path}/out/", "--gpus-per-worker", "1")
    assert result.code == 0, result.err
    assert "2 workers for decode" in result.err
    assert sorted(p.read_text() for p in tmp_path.glob("*.gpus")) == ["5", "7"]
    assert run(*args, "-o", f"{tmp_path}/here/").code == 0
    assert lines(tmp_path / "out") == lines(tmp_path / "here")
