"""The same on a real Ray cluster of several nodes, whose workers, nodes and drivers die."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from commands import read, run, spawn, write
from minrisk.cli.execute import SOME_FAILED
from project import SUPPORT
from shard_folders import (
    errors,
    kill_again_and_again,
    lines,
    segments,
    wait_for_results,
    write_shards,
)

pytest.importorskip("ray", reason="needs the extra minrisk[ray]")
pytestmark = pytest.mark.slow
PATIENCE = 300  # seconds; Ray takes its time to start where others work too


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head, and a node that says that it has a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(SUPPORT))
        patch.setenv("MINRISK_TEST_FLAG", str(tmp_path_factory.mktemp("ray") / "flag"))
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 2, "include_dashboard": False, "object_store_memory": 200_000_000})
        made.add_node(num_cpus=1, num_gpus=1, object_store_memory=200_000_000)
        yield made
        made.shutdown()


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write_shards(tmp_path / "in")


@pytest.fixture
def on_ray(cluster):
    """`minrisk ARGS` as a driver of the cluster."""
    def start(*args: object) -> subprocess.Popen[bytes]:
        return spawn(*args, "--engine", "ray", "--address", cluster.address, cwd=SUPPORT)

    return start


def finish(process: subprocess.Popen[bytes]) -> str:
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error.decode()
    return error.decode()


def test_a_cluster_gives_the_bytes_of_one_machine_and_records_the_same_errors(
        on_ray, inputs, tmp_path):
    write(inputs / "poison.jsonl", "{", *segments(3), {"id": "x", "samples": ["bad"]}, *segments(2))
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:equal", "--strategy", "n-by-s",
            "--subset", "1", "--seed", "5")
    with on_ray(*args, "-o", f"{tmp_path}/ray/", "--batch-size", "3") as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == SOME_FAILED
    assert run(*args, "-o", f"{tmp_path}/local/").code == SOME_FAILED
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")
    assert errors(tmp_path / "ray") == errors(tmp_path / "local")
    assert len(errors(tmp_path / "ray")) == 2
    assert "75 segments, 2 failed" in error
    assert all(line.startswith("minrisk: ") for line in error.splitlines())


def test_a_worker_that_dies_loses_nothing(on_ray, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(9), {"samples": ["deadly", "x"]}, *segments(9))
    metric = ("--metric", "python:faults:fatal_once")
    finish(on_ray("decode", path, "-o", f"{tmp_path}/out/", *metric, "--batch-size", "2",
                  "--workers", "2"))
    assert Path(os.environ["MINRISK_TEST_FLAG"]).exists()
    assert lines(tmp_path / "out") == {"in.jsonl": run("decode", path, *metric).out.encode()}


def test_a_segment_that_kills_its_workers_is_recorded(on_ray, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(5), {"id": "k", "samples": ["deadly"]})
    with on_ray("decode", path, "-o", f"{tmp_path}/out/", "--metric", "python:faults:equal",
                "--batch-size", "3", "--workers", "1") as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == SOME_FAILED
    [failure] = errors(tmp_path / "out")
    assert (failure["line"], failure["id"]) == (6, "k")
    assert list(lines(tmp_path / "out")) == ["in.jsonl"]
    records = read((tmp_path / "out" / "in.jsonl").read_text())
    assert ["error" in record for record in records] == [False] * 5 + [True]


@pytest.mark.parametrize(("way", "reason"), [
    ("exit", "every worker that tried it died"), ("quit", "SystemExit: 3"),
    ("interrupt", "KeyboardInterrupt: "), ("panic", "PanicError: no such byte"),
    ("hang", "every worker that tried it died, or took longer than --segment-timeout")])
def test_a_metric_that_leaves_or_hangs_costs_its_segment(cluster, on_ray, tmp_path, way, reason):
    Path(os.environ["MINRISK_TEST_FLAG"]).touch()
    path = write(tmp_path / "in.jsonl", *segments(3), {"id": "x", "samples": [way]}, *segments(2))
    timeout = ("--segment-timeout", "1") if way == "hang" else ()
    with on_ray("decode", path, "-o", tmp_path / "out", "--metric", "python:faults:leaving",
                "--workers", "1", *timeout) as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == SOME_FAILED, error
    records = read((tmp_path / "out").read_text())
    assert ["error" in record for record in records] == [False] * 3 + [True] + [False] * 2
    assert reason in records[3]["error"]


def test_what_concerns_all_segments_ends_the_run(on_ray, tmp_path):
    path = write(tmp_path / "in.jsonl", *segments(3), {"samples": ["unusable"]})
    with on_ray("decode", path, "-o", f"{tmp_path}/out/", "--metric", "python:faults:unusable",
                "--batch-size", "1", "--workers", "1") as process:
        error = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 2
    assert "error: nobody can use this" in error
    assert "Traceback" not in error


def test_a_node_that_goes_takes_nothing_with_it(cluster, on_ray, inputs, tmp_path):
    out = tmp_path / "out"
    node = cluster.add_node(num_cpus=1, object_store_memory=200_000_000)
    metric = ("--metric", "python:faults:slow")
    process = on_ray("decode", f"{inputs}/*", "-o", f"{out}/", *metric, "--batch-size", "1",
                     "--workers", "3")
    wait_for_results(process, out, seconds=PATIENCE)
    cluster.remove_node(node, allow_graceful=False)
    finish(process)
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", *metric).code == 0
    assert lines(out) == lines(tmp_path / "local")


def test_the_driver_may_be_killed_with_its_results_kept(on_ray, tmp_path):
    inputs, out = write_shards(tmp_path / "in", 5, 0, 2, 12), tmp_path / "out"
    args = ("decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "python:faults:slow",
            "--batch-size", "1", "--workers", "2", "--resume")
    metric = ("--metric", "python:faults:equal")
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", *metric).code == 0
    kill_again_and_again(lambda: on_ray(*args), out, seconds=PATIENCE)
    finish(on_ray(*args))
    assert lines(out) == lines(tmp_path / "local")
    assert errors(out) == []


def test_ctrl_c_says_how_to_go_on(on_ray, inputs, tmp_path):
    out = tmp_path / "out"
    args = ("decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "python:faults:slow",
            "--batch-size", "1", "--workers", "2")
    with on_ray(*args) as process:
        wait_for_results(process, out, seconds=PATIENCE)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error.decode()
    assert b"--resume goes on" in error
    assert b"Traceback" not in error
    finish(on_ray(*args, "--resume"))
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/local/", "--metric",
               "python:faults:equal").code == 0
    assert lines(out) == lines(tmp_path / "local")


def test_samples_are_drawn_by_some_and_chosen_from_by_others(on_ray, server, tmp_path):
    sources = tmp_path / "sources.txt"
    sources.write_text("".join(f"source {i}\n" for i in range(12)))
    args = ("translate", sources, "--endpoint", server.endpoint, "--model", "m", "-n", "8",
            "--prompt", "{source}", "--format", "json", "--batch-size", "4")
    error = finish(on_ray(*args, "-o", f"{tmp_path}/ray/", "--gpus-per-worker", "1", "--workers",
                          "1"))
    assert "1 workers for sample were busy" in error
    assert lines(tmp_path / "ray") == {"sources.jsonl": run(*args).out.encode()}
