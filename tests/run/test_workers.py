"""Workers whose metrics leave, hang, print or cannot be sent: it costs a segment, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import read, run, spawn, wait_for, write
from minrisk._core.errors import InputError
from minrisk.cli import SOME_FAILED
from minrisk.run.options import ENGINES, RunOptions
from project import SUPPORT
from shard_folders import errors, lines

GOOD = {"samples": ["a", "b", "a"]}
LEAVING = ("--metric", "python:faults:leaving")


@pytest.fixture
def flag(tmp_path, monkeypatch) -> Path:
    """There is trouble while it is there."""
    path = tmp_path / "flag"
    path.touch()
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(path))
    return path


@pytest.mark.parametrize("option", ["segment_timeout", "gpus_per_worker"])
def test_time_limits_and_gpus_need_workers_that_are_processes(option, monkeypatch):
    monkeypatch.setitem(ENGINES, "local", ("minrisk.run.workers:Inline", ""))
    with pytest.raises(InputError, match=f"{option}="):
        RunOptions(**{option: 1.0}).make_engine()


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


def is_there(process: int) -> bool:
    """And no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_is_suspended_costs_its_segment(tmp_path, flag, monkeypatch):
    """It gets no alarm, so that the driver has to notice."""
    monkeypatch.setattr("minrisk.run.processes._SECONDS_BETWEEN_CHECKS", 0.1)
    monkeypatch.setattr("minrisk.run.processes._EXIT_SECONDS", 0.5)
    path = write(tmp_path / "in.jsonl", GOOD, {"samples": ["stop", "b"]}, GOOD)
    result = run("decode", path, *LEAVING, "--workers", "1", "--segment-timeout", "1")
    assert result.code == SOME_FAILED
    assert [record.get("text") for record in result.records] == ["a", None, "a"]
    assert "timeout of 1 s" in result.records[1]["error"]


@pytest.mark.parametrize("command", ["decode", "translate"])
def test_a_field_that_is_nested_too_deep_for_other_processes_costs_its_segment(
        tmp_path, server, command):
    """600 deep can be read and written, but not be pickled."""
    good = json.dumps({"source": "s", **GOOD})
    nested = good[:-1] + f', "id": "x", "more": {deep(600)}}}'
    path = write(tmp_path / "in.jsonl", good, nested, good)
    args = [command, path]
    if command == "translate":
        args += ["--endpoint", server.endpoint, "--model", "m", "--prompt", "{source}", "-n", "4",
                 "--format", "json"]
    result = run(*args, "-o", f"{tmp_path}/out/", "--workers", "1")
    made = read(lines(tmp_path / "out")["in.jsonl"].decode())
    assert ["text" in record for record in made] == [True, command == "decode", True]
    if command == "translate":  # samples go from one worker to another with their fields
        assert result.code == SOME_FAILED
        [failure] = errors(tmp_path / "out")
        assert failure["id"] == "x"
        assert "RecursionError" in str(failure["reason"])
    else:
        assert result.code == 0, result.err
    assert "Traceback" not in result.err


def test_a_segment_that_takes_too_long_fails(tmp_path, flag):
    """In a block with others, which are done again."""
    path = write(tmp_path / "in.jsonl", GOOD, {"id": "x", "samples": ["hang", "b"]}, GOOD)
    args = ("decode", path, "-o", tmp_path / "out", *LEAVING, "--batch-size", 16)
    result = run(*args, "--segment-timeout", "0.5")
    assert result.code == SOME_FAILED
    made = read((tmp_path / "out").read_text())
    assert [record.get("text") for record in made] == ["a", None, "a"]
    assert "timeout of 0.5 s" in made[1]["error"]
    flag.unlink()
    assert run(*args, "--resume").code == 0


def test_time_is_counted_for_each_segment_and_not_for_the_block(tmp_path, flag):
    """A block of 20 has not 20 times the time of a segment where they are done one by one."""
    good = [GOOD] * 20
    path = write(tmp_path / "in.jsonl", *good, {"samples": ["hang"]}, *good)
    result = run("decode", path, "-o", tmp_path / "out", *LEAVING, "--segment-timeout", "2",
                 "--batch-size", "1", "--report", tmp_path / "report")
    assert result.code == SOME_FAILED
    assert json.loads((tmp_path / "report").read_text())["this_run"]["seconds"] < 20


def test_workers_end_with_their_driver_also_in_a_long_call(tmp_path, flag):
    path = write(tmp_path / "in.jsonl", {"samples": ["hang", "b"]})
    pid = tmp_path / "pid"
    with spawn("decode", path, "-o", f"{tmp_path}/out/", *LEAVING, "--workers", "1",
               cwd=SUPPORT) as process:
        wait_for(lambda: pid.exists() and pid.read_text())
        process.kill()
    worker = int(pid.read_text())
    assert worker != process.pid
    wait_for(lambda: not is_there(worker))


def test_a_worker_whose_threads_never_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk.run.processes._EXIT_SECONDS", 0.1)
    path = write(tmp_path / "in.jsonl", {"samples": ["a"]})
    assert run("decode", path, "-o", f"{tmp_path}/out/", "--metric", "python:faults:threaded",
               "--workers", "1").code == 0


@pytest.mark.parametrize("scale", [(), ("--workers", "1")])
def test_what_a_metric_prints_is_no_result(tmp_path, scale):
    path = write(tmp_path / "in.jsonl", GOOD)
    with spawn("decode", path, "--metric", "python:faults:printing", *scale,
               cwd=SUPPORT) as process:
        out, err = process.communicate(timeout=60)
    assert [record["text"] for record in read(out.decode())] == ["a"]
    assert b"chatter" in err
