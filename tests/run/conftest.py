"""A Ray cluster for all tests that need one, and no more workers than they need."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from commands import wait_for
from project import SUPPORT

# A node that was killed refuses to answer, and is given up after three times of that; one that is
# only busy has ten seconds to answer each time.
HEALTH = {"RAY_health_check_initial_delay_ms": "500", "RAY_health_check_period_ms": "500",
          "RAY_health_check_failure_threshold": "3", "RAY_health_check_timeout_ms": "10000"}
# Every process of Ray takes a second of a processor to start: there are no more than tests need,
# and a worker that has read for one run waits for the next. None gives way to other programs. The
# third is the default of later versions, which earlier ones announce.
WORKERS = {"RAY_prestart_worker_first_driver": "0", "RAY_worker_niceness": "0",
           "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
           "RAY_idle_worker_killing_time_threshold_ms": "600000"}
FEW = {"include_log_monitor": False, "object_store_memory": 200_000_000}


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch):
    """A folder has one worker where a test does not give a number: each takes time to start."""
    monkeypatch.setenv("MINRISK_THREADS", "1")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A head with two CPUs, and a node with one that says that it has a GPU too.

    Their workers find tests/support, and the flag of the metrics in `faults` (fixture `flag`).
    """
    pytest.importorskip("ray", reason="needs the extra minrisk[ray]")
    from ray.cluster_utils import Cluster

    if "PYTEST_XDIST_WORKER" in os.environ:  # there is one cluster, of one of the processes
        (tmp_path_factory.getbasetemp().parent / "cluster").mkdir()
    flag = tmp_path_factory.mktemp("ray") / "flag"
    given = HEALTH | WORKERS | {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(SUPPORT),
                                "MINRISK_TEST_FLAG": str(flag)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        made = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 2, "include_dashboard": False, "no_monitor": True, **FEW})
        made.add_node(num_cpus=1, num_gpus=1, **FEW)
        made.flag = flag
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    """This process as a driver of the cluster for all tests of a file, which share its workers."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # which would be an actor of its own
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()


@pytest.fixture
def idle_cluster(connected):
    """Every test begins with an idle cluster: workers of others would keep its own waiting."""
    def has_all_processors() -> bool:
        gc.collect()  # handles of workers in the traceback of an error
        import ray

        return ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"]

    wait_for(has_all_processors)


@pytest.fixture
def cluster_flag(cluster, monkeypatch) -> Path:
    """The file that metrics in `faults` look for, on the cluster and here; there is none yet."""
    cluster.flag.unlink(missing_ok=True)
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(cluster.flag))
    return cluster.flag
