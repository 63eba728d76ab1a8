"""The same on a real Ray cluster of several nodes, whose workers, nodes and drivers die."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import minrisk
from commands import Result, read, run, spawn, wait_for, write
from minrisk._core.errors import InputError
from minrisk.cli.execute import SOME_FAILED
from project import ROOT, SUPPORT, load_module
from shard_folders import (
    errors,
    kill_again_and_again,
    kill_at_random,
    lines,
    segments,
    write_shards,
)

ray = pytest.importorskip("ray", reason="needs the extra minrisk[ray]")
PATIENCE = 300  # seconds; Ray takes its time to start where others work too


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write_shards(tmp_path / "in")


def has_all_processors() -> bool:
    """Whether no worker of an earlier run, also of one that failed, has any of the cluster's."""
    gc.collect()  # handles of workers in the traceback of an error
    return ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"]


@pytest.fixture(autouse=True)
def _processors(connected):
    """Every test begins with an idle cluster: workers of others would keep its own waiting."""
    wait_for(has_all_processors)


@pytest.fixture
def on_ray(connected):
    """`minrisk ARGS` as a driver of the cluster, in this process."""
    def start(*args: object) -> Result:
        return run(*args, "--engine", "ray", "--address", connected.address)

    return start


@pytest.fixture
def spawn_on_ray(cluster):
    """The same in a process of its own, which takes seconds to start."""
    def start(*args: object) -> subprocess.Popen[bytes]:
        return spawn(*args, "--engine", "ray", "--address", cluster.address, cwd=SUPPORT)

    return start


def held_shards(folder: Path, waits: int, *counts: int) -> Path:
    """Shards with segments at which the metric python:faults:waiting stays until the flag goes."""
    write_shards(folder, *counts)
    write(folder / "9.jsonl", *({"samples": ["wait", "x"]},) * waits)
    return folder


def test_a_cluster_gives_the_bytes_of_one_machine_and_records_the_same_errors(
        spawn_on_ray, inputs, tmp_path):
    """And nobody but minrisk writes to standard error, native code included."""
    write(inputs / "poison.jsonl", "{", *segments(3), {"id": "x", "samples": ["bad"]}, *segments(2))
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:equal", "--strategy", "n-by-s",
            "--subset", "1", "--seed", "5")
    with spawn_on_ray(*args, "-o", f"{tmp_path}/ray/", "--batch-size", "3") as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == SOME_FAILED
    assert run(*args, "-o", f"{tmp_path}/local/").code == SOME_FAILED
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")
    assert errors(tmp_path / "ray") == errors(tmp_path / "local")
    assert len(errors(tmp_path / "ray")) == 2
    assert "75 segments, 2 failed" in error
    assert all(line.startswith("minrisk: ") for line in error.splitlines())


def test_a_validation_of_more_segments_than_are_looked_at_before(on_ray, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(40))
    args = ("validate", path, "--strategy", "aggregate", "--limit", "38", "--overwrite")
    found = on_ray(*args, "-o", tmp_path / "ray.jsonl")
    assert found.code == 0, found.err
    assert run(*args, "-o", tmp_path / "local.jsonl").code == 0
    assert [r["id"] for r in read((tmp_path / "ray.jsonl").read_text())] == [
        r["id"] for r in read((tmp_path / "local.jsonl").read_text())]


def test_the_example_of_a_corpus_runs(connected, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    load_module(ROOT / "examples" / "corpus_on_ray.py").main(connected.address)
    local, on_ray, *shards = capsys.readouterr().out.splitlines()
    assert on_ray.removeprefix("ray: ") == local.removeprefix("local: ")
    assert on_ray.startswith("ray: 6 segments, 0 failed")
    assert [line.split(";")[0] for line in shards] == [f"part-{i}.jsonl: equal" for i in range(3)]


def test_a_worker_that_dies_loses_nothing(on_ray, flag, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(9), {"samples": ["deadly", "x"]}, *segments(9))
    metric = ("--metric", "python:faults:fatal_once")
    result = on_ray("decode", path, "-o", f"{tmp_path}/out/", *metric, "--batch-size", "2",
                    "--workers", "2")
    assert result.code == 0, result.err
    assert flag.exists()
    assert lines(tmp_path / "out") == {"in.jsonl": run("decode", path, *metric).out.encode()}


def test_a_segment_that_kills_its_workers_is_recorded(on_ray, tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk.pipeline.ray._RETRIES", 1)  # each is another worker to start
    path = write(tmp_path / "in.jsonl", *segments(5), {"id": "k", "samples": ["deadly"]})
    result = on_ray("decode", path, "-o", f"{tmp_path}/out/", "--metric", "python:faults:equal",
                    "--batch-size", "3", "--workers", "1")
    assert result.code == SOME_FAILED
    [failure] = errors(tmp_path / "out")
    assert (failure["line"], failure["id"]) == (6, "k")
    assert list(lines(tmp_path / "out")) == ["in.jsonl"]
    records = read((tmp_path / "out" / "in.jsonl").read_text())
    assert ["error" in record for record in records] == [False] * 5 + [True]


@pytest.mark.parametrize("ways", [
    {"exit": "every worker that tried it died", "quit": "SystemExit: 3",
     "interrupt": "KeyboardInterrupt: ", "panic": "PanicError: no such byte"},
    {"hang": "every worker that tried it died, or exceeded the segment timeout"}],
    ids=["leaves", "hangs"])
def test_a_metric_that_leaves_or_hangs_costs_its_segment(on_ray, flag, tmp_path, ways,
                                                         monkeypatch):
    """Without retries too, which would only make it less likely that others die with it."""
    monkeypatch.setattr("minrisk.pipeline.ray._RETRIES", 0)
    flag.touch()
    path = write(tmp_path / "in.jsonl", *segments(3),
                 *({"id": "x", "samples": [way]} for way in ways), *segments(2))
    timeout = ("--segment-timeout", "2", "--batch-size", "1") if "hang" in ways else ()
    result = on_ray("decode", path, "-o", tmp_path / "out", "--metric", "python:faults:leaving",
                    "--workers", "1", *timeout)
    assert result.code == SOME_FAILED, result.err
    records = read((tmp_path / "out").read_text())
    failed = [False] * 3 + [True] * len(ways) + [False] * 2
    assert ["error" in record for record in records] == failed
    for reason, record in zip(ways.values(), records[3:], strict=False):
        assert reason in record["error"]


def test_what_concerns_all_segments_ends_the_run(on_ray, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(3), {"samples": ["unusable"]})
    result = on_ray("decode", path, "-o", f"{tmp_path}/out/", "--metric", "python:faults:unusable",
                    "--batch-size", "1", "--workers", "1")
    assert result.code == 2
    assert "error: nobody can use this" in result.err
    assert "Traceback" not in result.err


def test_a_package_that_the_nodes_lack_is_named(connected, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def equal(one, other): return float(one == other)\n")
    monkeypatch.syspath_prepend(tmp_path)
    metric = import_module("only_here").equal
    with pytest.raises(minrisk.UnusableError, match=r"cannot load .*No module named 'only_here'"):
        list(minrisk.decode_corpus([["a"]], metric=metric, engine="ray",
                                   address=connected.address))


@pytest.fixture
def guarded(tmp_path):
    """The address of a cluster that wants a token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # in a folder with a short name, for there are sockets in it
    with (TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
          (tmp_path / "log").open("w") as log, subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
             "--port", str(port), "--num-cpus", "0", "--include-dashboard=false",
             "--temp-dir", folder, "--object-store-memory", "100000000"], stdout=log, stderr=log,
            env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "secret" * 8}) as head):
        wait_for(lambda: "Ray runtime started" in (tmp_path / "log").read_text(), PATIENCE)
        yield f"127.0.0.1:{port}"
        head.terminate()


def test_a_cluster_that_wants_a_token_says_so(guarded, tmp_path, monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with spawn("decode", write(tmp_path / "in.jsonl", {"samples": ["a"]}), "--engine", "ray",
               "--address", guarded) as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 2
    assert "refuses this process" in error
    assert "token" in error.splitlines()[-1]
    assert "Traceback" not in error


def test_a_node_that_goes_takes_nothing_with_it(on_ray, cluster, flag, tmp_path, monkeypatch):
    """While every worker has a segment, of which there is one on each node."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    flag.touch()
    inputs, out = held_shards(tmp_path / "in", 3, 5, 0, 2), tmp_path / "out"
    node = cluster.add_node(num_cpus=1, include_log_monitor=False)

    def lose_the_node() -> None:
        wait_for(lambda: {"0.jsonl", "2.jsonl"} <= {path.name for path in out.glob("*.jsonl")},
                 PATIENCE)
        cluster.remove_node(node, allow_graceful=False)
        flag.unlink()

    metric = ("--metric", "python:faults:waiting")
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(lose_the_node)
        result = on_ray("decode", f"{inputs}/*", "-o", f"{out}/", *metric, "--batch-size", "1",
                        "--workers", "3")
        lost.result()
    assert result.code == 0, result.err
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", *metric).code == 0
    assert lines(out) == lines(tmp_path / "local")


@pytest.mark.parametrize("kill", [
    partial(kill_again_and_again, seconds=PATIENCE, kills=1),
    pytest.param(lambda start, _: kill_at_random(start, within=8), marks=pytest.mark.slow)],
    ids=["with results", "at random"])
def test_the_driver_may_be_killed(spawn_on_ray, on_ray, tmp_path, kill):
    """Once, for what is written is the same on all engines, whose kills test_processes.py has."""
    inputs, out = write_shards(tmp_path / "in", 5, 0, 2, 12), tmp_path / "out"
    args = ("decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "python:faults:slow",
            "--batch-size", "1", "--workers", "1", "--resume")
    metric = ("--metric", "python:faults:equal")
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", *metric).code == 0
    kill(lambda: spawn_on_ray(*args), out)
    assert on_ray(*args).code == 0
    assert lines(out) == lines(tmp_path / "local")
    assert errors(out) == []


def test_ctrl_c_says_how_to_go_on(spawn_on_ray, on_ray, flag, tmp_path):
    flag.touch()
    inputs, out = held_shards(tmp_path / "in", 1, 5, 0, 2), tmp_path / "out"
    args = ("decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "python:faults:waiting",
            "--batch-size", "1", "--workers", "2")
    with spawn_on_ray(*args) as process:
        wait_for(lambda: process.poll() is not None or (out / "2.jsonl").exists(), PATIENCE)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error.decode()
    assert b"--resume goes on" in error
    assert b"Traceback" not in error
    flag.unlink()
    assert on_ray(*args, "--resume").code == 0
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", "--metric",
               "python:faults:equal").code == 0
    assert lines(out) == lines(tmp_path / "local")


def test_samples_are_drawn_by_some_and_chosen_from_by_others(on_ray, server, tmp_path):
    sources = tmp_path / "sources.txt"
    sources.write_text("".join(f"source {i}\n" for i in range(12)))
    args = ("translate", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "8",
            "--prompt", "{source}", "--format", "json", "--batch-size", "4")
    result = on_ray(*args, "-o", f"{tmp_path}/ray/", "--gpus-per-worker", "1", "--workers", "1")
    assert result.code == 0, result.err
    assert "1 workers for sample were busy" in result.err
    assert lines(tmp_path / "ray") == {"sources.jsonl": run(*args).out.encode()}


def test_a_worker_with_a_gpu_sees_the_one_that_ray_gives_it(on_ray, inputs, flag, tmp_path):
    """The cluster has one node with a GPU, which is not there."""
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:on_visible_gpus")
    result = on_ray(*args, "-o", f"{tmp_path}/ray/", "--gpus-per-worker", "1")
    assert result.code == 0, result.err
    assert "1 workers for decode" in result.err
    assert [path.read_text() for path in flag.parent.glob("*.gpus")] == ["0"]
    assert run(*args, "-o", f"{tmp_path}/local/").code == 0
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")


@pytest.mark.parametrize(("nodes", "each", "workers"), [
    ([2, 1], 1, 3), ([2, 1], 2, 1), ([4], 0.3, 12), ([1, 0], 0.5, 2)])
def test_workers_with_gpus_fit_on_single_nodes(monkeypatch, nodes, each, workers):
    from minrisk.pipeline import ray

    given = [{"Alive": True, "Resources": {"GPU": float(count)}} for count in nodes]
    monkeypatch.setattr(ray.ray, "nodes", lambda: [*given, {"Alive": False, "Resources": {}}])
    assert ray._capacity_of_gpus(each) == workers


def test_a_worker_with_more_gpus_than_any_node_has_is_refused(monkeypatch):
    from minrisk.pipeline import ray

    node = {"Alive": True, "Resources": {"GPU": 1.0}}
    monkeypatch.setattr(ray.ray, "nodes", lambda: [node, node])
    with pytest.raises(InputError, match="no node has 2 GPUs for a worker; the cluster has 2"):
        ray._capacity_of_gpus(2)
