"""The contract of engines: what a run gives does not depend on who does the work.

An engine is tested by its name and two workers, unless OPTIONS says otherwise; what is special
about one is tested in a file of its own.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import minrisk
from commands import Result, read, run, spawn, wait_for, write
from minrisk.cli import SOME_FAILED
from minrisk.run.options import ENGINES, engine_class
from minrisk.run.workers import Inline
from project import SUPPORT
from shard_folders import (
    errors,
    held_shards,
    kept,
    kill_at_random,
    lines,
    segments,
    write_shards,
)

PATIENCE = 300  # seconds; an engine takes its time to start where others work too
GOOD = {"samples": ["a", "b", "a"]}
OPTIONS = {"inline": [], "local": ["--workers", "2"], "ray": ["--engine", "ray"]}


@dataclass(frozen=True)
class Engine:
    """`minrisk ARGS` with the options of an engine."""

    options: list[str]
    has_processes: bool

    def __call__(self, *args: object) -> Result:
        return run(*args, *self.options)

    def spawn(self, *args: object) -> subprocess.Popen[bytes]:
        return spawn(*args, *self.options, cwd=SUPPORT)

    def output(self, folder: Path) -> str:
        """A folder, or a file in it where there are no workers."""
        folder.mkdir()
        return f"{folder}/" if self.options else f"{folder}/all.jsonl"

    def one(self) -> Engine:
        """With one worker."""
        return replace(self, options=[*self.options, "--workers", "1"] if self.options else [])


@pytest.fixture(params=["inline", *ENGINES])
def engine(request) -> Engine:
    name = request.param
    options = OPTIONS.get(name, ["--engine", name, "--workers", "2"])
    if name == "inline":
        return Engine(options, Inline.has_processes)
    if name == "ray":
        connected = request.getfixturevalue("connected")
        request.getfixturevalue("idle_cluster")
        options = [*options, "--address", connected.address]
    return Engine(options, engine_class(name).has_processes)


@pytest.fixture
def outliving(engine) -> Engine:
    """An engine that outlives the death of a worker."""
    if not engine.has_processes:
        pytest.skip("ends this process")
    return engine


@pytest.fixture
def flag(request, engine, tmp_path, monkeypatch) -> Path:
    """The file that metrics in `faults` look for, wherever they run; there is none yet."""
    if "ray" in engine.options:
        return request.getfixturevalue("cluster_flag")
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(tmp_path / "flag"))
    return tmp_path / "flag"


def test_results_and_errors_are_those_of_single_files_in_their_order(engine, tmp_path):
    """Nobody but minrisk writes to standard error, native code included."""
    inputs = write_shards(tmp_path / "in")
    write(inputs / "poison.jsonl", "{", *segments(3), {"id": "x", "samples": ["bad"]}, *segments(2))
    args = ("--metric", "python:faults:equal", "--strategy", "n-by-s", "--subset", "1",
            "--seed", "5")
    with engine.spawn("decode", f"{inputs}/*", *args, "-o", f"{tmp_path}/out/",
                      "--batch-size", "3") as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == SOME_FAILED, error
    for path in inputs.iterdir():
        alone = tmp_path / f"alone-{path.name}"
        run("decode", path, *args, "-o", alone)
        made = [{**record, "error": None} if "error" in record else record
                for record in read((tmp_path / "out" / path.name).read_text())]
        expected = [{**record, "error": None} if "error" in record else record
                    for record in read(alone.read_text())]
        assert made == expected
    assert [(Path(str(e["file"])).name, e["line"]) for e in errors(tmp_path / "out")] == [
        ("poison.jsonl", 1), ("poison.jsonl", 5)]
    assert "75 segments, 2 failed" in error
    assert all(line.startswith("minrisk: ") for line in error.splitlines())


def test_a_worker_that_dies_once_loses_nothing(outliving, flag, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(9), {"samples": ["deadly", "x"]}, *segments(9))
    metric = ("--metric", "python:faults:fatal_once")
    result = outliving("decode", path, "-o", f"{tmp_path}/out/", *metric, "--batch-size", "4")
    assert result.code == 0, result.err
    assert flag.exists()
    assert lines(tmp_path / "out") == {"in.jsonl": run("decode", path, *metric).out.encode()}


def test_a_segment_that_kills_its_workers_is_recorded(outliving, tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk.run.ray._RETRIES", 1)  # each is another worker to start
    path = write(tmp_path / "in.jsonl", *segments(5), {"id": "k", "samples": ["deadly"]}, GOOD)
    result = outliving.one()("decode", path, "-o", f"{tmp_path}/out/", "--metric",
                          "python:faults:equal", "--batch-size", "3")
    assert result.code == SOME_FAILED
    [failure] = errors(tmp_path / "out")
    assert (failure["line"], failure["id"]) == (6, "k")
    assert any(token in str(failure["reason"]) for token in ("SIGKILL", "died"))
    records = read((tmp_path / "out" / "in.jsonl").read_text())
    assert ["error" in record for record in records] == [False] * 5 + [True, False]


LEAVING = {"quit": "SystemExit: 3", "panic": "PanicError: no such byte", "close": "GeneratorExit",
           "exit": "died|code 1", "interrupt": "KeyboardInterrupt", "hang": "segment timeout"}


@pytest.mark.parametrize("ways", [("quit", "panic", "close"), ("exit", "interrupt", "hang")],
                         ids="-".join)
def test_a_metric_that_leaves_or_hangs_costs_its_segment(engine, flag, tmp_path, ways,
                                                         monkeypatch):
    """Without retries too, which would only make it less likely that others die with it."""
    if not engine.has_processes and "exit" in ways:
        pytest.skip("ends this process")
    if "ray" in engine.options:
        monkeypatch.setattr("minrisk.run.ray._RETRIES", 0)
    flag.touch()
    path = write(tmp_path / "in.jsonl", *segments(3), *({"samples": [way]} for way in ways),
                 *segments(2))
    timeout = ("--segment-timeout", "2", "--batch-size", "1") if "hang" in ways else ()
    result = engine.one()("decode", path, "-o", tmp_path / "out", "--metric",
                          "python:faults:leaving", *timeout)
    assert result.code == SOME_FAILED, result.err
    records = read((tmp_path / "out").read_text())
    assert ["error" in record for record in records] == [False] * 3 + [True] * len(ways) + [
        False] * 2
    for way, record in zip(ways, records[3:], strict=False):
        assert any(token in record["error"] for token in LEAVING[way].split("|"))


def test_what_concerns_all_segments_ends_the_run(engine, tmp_path):
    """Also where it is met behind a segment that fails for another reason."""
    path = write(tmp_path / "in.jsonl", *segments(3), {"samples": ["bad"]},
                 {"samples": ["unusable"]})
    result = engine.one()("decode", path, "-o", f"{tmp_path}/out/", "--metric",
                          "python:faults:unusable", "--batch-size", "1")
    assert result.code == 2
    assert "nobody can use this" in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "out" / "in.jsonl").exists()


def test_progress_is_told_for_each_segment(engine, tmp_path):
    """In order, up to the number of all of them, with those that failed."""
    path = write(tmp_path / "in.jsonl", *segments(6), {"samples": ["bad"]})
    seen: list[tuple[int, int]] = []
    options = {name.strip("-"): int(value) if value.isdigit() else value for name, value in zip(
        engine.options[::2], engine.options[1::2], strict=True)}
    minrisk.decode_corpus(str(path), metric="python:faults:equal",
                          output=str(tmp_path / "out.jsonl"), batch_size=2, on_error="skip",
                          progress=lambda *numbers: seen.append(numbers), **options)
    assert seen == sorted(seen)
    assert seen[-1] == (7, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_whose_driver_is_stopped_is_resumed(engine, flag, tmp_path, number):
    """Into a folder, which has workers; into a single file, which the driver makes itself."""
    flag.touch()
    inputs, out = held_shards(tmp_path / "in", 1, 5, 0, 2), tmp_path / "out"
    args = ("decode", f"{inputs}/*", "-o", engine.output(out), "--metric",
            "python:faults:waiting", "--batch-size", "1")
    with engine.one().spawn(*args) as process:
        wait_for(lambda: process.poll() is not None or kept(out), PATIENCE)
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == (130 if number == signal.SIGINT else -number), error.decode()
    if number == signal.SIGINT:
        assert b"--resume continues" in error
    assert b"Traceback" not in error
    flag.unlink()
    assert engine(*args, "--resume").code == 0
    assert_made(engine, inputs, tmp_path)


@pytest.mark.slow
def test_the_driver_may_be_killed_at_any_moment(engine, tmp_path):
    inputs = write_shards(tmp_path / "in", 5, 0, 2, 12)
    args = ("decode", f"{inputs}/*", "-o", engine.output(tmp_path / "out"), "--metric",
            "python:faults:slow", "--batch-size", "1", "--resume")
    kill_at_random(lambda: engine.one().spawn(*args), within=8)
    assert engine.one()(*args).code == 0
    assert_made(engine, inputs, tmp_path)


def assert_made(engine: Engine, inputs: Path, tmp_path: Path) -> None:
    """The output is that of a run that nobody stopped."""
    assert run("decode", f"{inputs}/*", "-o", engine.output(tmp_path / "local"), "--metric",
               "python:faults:equal").code == 0
    found, expected = ({name: content for name, content in lines(tmp_path / folder).items()
                        if not name.endswith(".run.json")} for folder in ("out", "local"))
    assert found == expected
    if engine.options:
        assert errors(tmp_path / "out") == []
