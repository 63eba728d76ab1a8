"""The same on a real Ray cluster of several nodes, whose workers, nodes and drivers die."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import minrisk
from commands import Result, read, run, spawn, wait_for, write
from minrisk._core.errors import InputError
from minrisk.cli import SOME_FAILED
from project import ROOT, SUPPORT, load_module
from shard_folders import (
    held_shards,
    lines,
    segments,
    write_shards,
)

ray = pytest.importorskip("ray", reason="needs the extra minrisk[ray]")
PATIENCE = 300  # seconds; Ray takes its time to start where others work too


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write_shards(tmp_path / "in")


@pytest.fixture
def on_ray(connected, idle_cluster):
    """`minrisk ARGS` as a driver of the cluster, in this process."""
    def start(*args: object) -> Result:
        return run(*args, "--engine", "ray", "--address", connected.address)

    return start


def lose(monkeypatch: pytest.MonkeyPatch, passes: int) -> None:
    """The third segment does not come back in so many passes: all of its workers died."""
    from minrisk.run.ray import Ray
    from minrisk.run.workers import Block

    whole, passed = Ray._run, count(1)

    def run_and_lose(self, readers, work):
        is_lost = next(passed) <= passes
        for item in whole(self, readers, work):
            if not (is_lost and isinstance(item, Block) and 2 in [r.index for r in item.items]):
                yield item

    monkeypatch.setattr(Ray, "_run", run_and_lose)


def test_what_is_lost_with_its_workers_is_tried_alone_and_then_recorded(
        on_ray, tmp_path, monkeypatch):
    path = write(tmp_path / "in.jsonl", *segments(9))
    lose(monkeypatch, passes=2)
    result = on_ray("decode", path, "-o", f"{tmp_path}/out/", "--workers", "1")
    assert result.code == SOME_FAILED
    assert f"the first failure: {path}:3" in result.err
    expected = run("decode", path).out.splitlines()
    found = (tmp_path / "out" / "in.jsonl").read_text().splitlines()
    assert found[:2] + found[3:] == expected[:2] + expected[3:]
    assert json.loads(found[2]) == {"id": "0-2", "error":
                                    f"{path}:3: every worker that tried it died"}


@pytest.mark.parametrize(("passes", "code", "message"), [
    (2, 2, "all 4 segments failed"),
    (1, SOME_FAILED, "3 of 4 segments failed")])
def test_only_what_is_lost_is_tried_again_if_all_else_failed(
        on_ray, cluster_flag, tmp_path, monkeypatch, passes, code, message):
    bad = {"samples": ["bad"]}
    path = write(tmp_path / "in.jsonl", bad, bad, {"samples": ["a"]}, bad)
    lose(monkeypatch, passes)
    result = on_ray("decode", path, "-o", tmp_path / "out.jsonl", "--workers", "1",
                    "--batch-size", "1", "--metric", "python:faults:counted")
    assert result.code == code
    assert message in result.err
    assert cluster_flag.read_text().split().count("bad") == 3


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


def test_a_package_that_the_nodes_lack_is_named(connected, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def equal(one, other): return float(one == other)\n")
    monkeypatch.syspath_prepend(tmp_path)
    metric = import_module("only_here").equal
    with pytest.raises(minrisk.UnusableError, match="'only_here'"):
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


@pytest.mark.slow  # another cluster; test_reference_parts_ray has its refusal
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


def test_a_node_that_goes_takes_nothing_with_it(on_ray, cluster, cluster_flag, tmp_path,
                                                monkeypatch):
    """While every worker has a segment, of which there is one on each node."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    cluster_flag.touch()
    inputs, out = held_shards(tmp_path / "in", 3, 5, 0, 2), tmp_path / "out"
    node = cluster.add_node(num_cpus=1, include_log_monitor=False)

    def lose_the_node() -> None:
        wait_for(lambda: {"0.jsonl", "2.jsonl"} <= {path.name for path in out.glob("*.jsonl")},
                 PATIENCE)
        cluster.remove_node(node, allow_graceful=False)
        cluster_flag.unlink()

    metric = ("--metric", "python:faults:waiting")
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(lose_the_node)
        result = on_ray("decode", f"{inputs}/*", "-o", f"{out}/", *metric, "--batch-size", "1",
                        "--workers", "3")
        lost.result()
    assert result.code == 0, result.err
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", *metric).code == 0
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


def test_a_worker_with_a_gpu_sees_the_one_that_ray_gives_it(on_ray, inputs, cluster_flag, tmp_path):
    """The cluster has one node with a GPU, which is not there."""
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:on_visible_gpus")
    result = on_ray(*args, "-o", f"{tmp_path}/ray/", "--gpus-per-worker", "1")
    assert result.code == 0, result.err
    assert "1 workers for decode" in result.err
    assert [path.read_text() for path in cluster_flag.parent.glob("*.gpus")] == ["0"]
    assert run(*args, "-o", f"{tmp_path}/local/").code == 0
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")


@pytest.mark.parametrize(("nodes", "each", "workers"), [
    ([2, 1], 1, 3), ([2, 1], 2, 1), ([4], 0.3, 12), ([1, 0], 0.5, 2)])
def test_workers_with_gpus_fit_on_single_nodes(monkeypatch, nodes, each, workers):
    from minrisk.run import ray

    given = [{"Alive": True, "Resources": {"GPU": float(count)}} for count in nodes]
    monkeypatch.setattr(ray.ray, "nodes", lambda: [*given, {"Alive": False, "Resources": {}}])
    assert ray._capacity_of_gpus(each) == workers


def test_a_worker_with_more_gpus_than_any_node_has_is_refused(monkeypatch):
    from minrisk.run import ray

    node = {"Alive": True, "Resources": {"GPU": 1.0}}
    monkeypatch.setattr(ray.ray, "nodes", lambda: [node, node])
    with pytest.raises(InputError, match="2 GPUs"):
        ray._capacity_of_gpus(2)
