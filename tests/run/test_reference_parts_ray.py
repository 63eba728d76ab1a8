"""References in shards on a Ray cluster of several nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import minrisk
from commands import run
from minrisk import References
from reference_shards import HYPS, REFS, shards

ray = pytest.importorskip("ray", reason="needs the extra minrisk[ray]")


@pytest.mark.parametrize("address", ["nobody", "127.0.0.1:1", "127.0.0.1:99999"])
def test_no_cluster_at_an_address_is_told(address):
    with pytest.raises(minrisk.MinriskError, match=address):
        minrisk.decode_parts(HYPS, [REFS], engine="ray", address=address)


def test_a_cluster_that_refuses_this_process_is_told(monkeypatch):
    """Before Ray would take a minute to say so."""
    refusal = "Traceback\nray.exceptions.AuthenticationError: no token"
    monkeypatch.setattr("subprocess.run", lambda command, **_: subprocess.CompletedProcess(
        command, 1, "", refusal))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(minrisk.InputError, match="RAY_AUTH_TOKEN"):
            minrisk.decode_parts(HYPS, [REFS], engine="ray", address=address)


def test_the_command_reads_files_on_the_cluster(cluster, tmp_path):
    for name, texts in {"hyps": HYPS, "a": REFS[:1], "b": REFS[1:]}.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    files = [tmp_path / f"{name}.txt" for name in ("hyps", "a", "b")]
    args = ("rank", *files, "--utilities", "-q", "--workers", "1")
    found = run(*args, "--engine", "ray", "--address", cluster.address)
    assert found.code == 0, found.err
    assert found.out == run(*args).out
    assert not ray.is_initialized()


@pytest.mark.parametrize(("metric", "strategy", "workers"), [
    ("chrf", "aggregate", 2), ("bleu", "standard", 1)])
def test_a_cluster_changes_no_bit(connected, metric, strategy, workers):
    cut = shards(1, 4)
    found = minrisk.decode_parts(HYPS, cut, metric=metric, strategy=strategy, engine="ray",
                                 workers=workers)
    alone = minrisk.decode_parts(HYPS, cut, metric=metric, strategy=strategy)
    np.testing.assert_array_equal(found.utility, alone.utility)
    assert found.pairs == alone.pairs
    assert ray.is_initialized()


@dataclass(frozen=True)
class DeadlyOnce:
    """The first worker that reads it dies."""

    marker: Path
    name: str = "deadly"

    def blocks(self):
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return References(REFS).blocks()


def test_a_worker_that_dies_is_replaced(connected, tmp_path):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # no worker has this file
    cut = [["a cat"], DeadlyOnce(tmp_path / "dead"), ["the dog"]]
    found = minrisk.decode_parts(HYPS, cut, engine="ray", workers=1)
    alone = minrisk.decode_parts(HYPS, [["a cat"], REFS, ["the dog"]])
    np.testing.assert_array_equal(found.utility, alone.utility)
    assert (tmp_path / "dead").exists()


def test_an_error_on_the_cluster_is_told_as_it_was_raised(connected):
    with pytest.raises(minrisk.InputError, match="part 2"):
        minrisk.decode_parts(HYPS, [REFS, [], REFS], engine="ray")


def test_without_an_address_a_cluster_is_started_and_ended():
    """After the tests with another cluster, to which a process cannot come back for actors."""
    ray.shutdown()
    found = minrisk.decode_parts(HYPS, shards(2), engine="ray", workers=1)
    np.testing.assert_array_equal(found.utility, minrisk.decode_parts(HYPS, shards(2)).utility)
    assert not ray.is_initialized()
