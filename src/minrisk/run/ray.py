"""The engine on a Ray cluster: Ray Data reads shards on its nodes and sends blocks through actors.

Ray retries blocks whose worker or node died, limits the blocks in flight, and spills them to disk
when its object store is full. Blocks come back in any order.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from minrisk._core.errors import (
    InputError,
    MinriskError,
    UnusableError,
    Wording,
    needs_extra,
)
from minrisk._core.process import threads
from minrisk.run.workers import (
    Block,
    End,
    Engine,
    FatalItem,
    Item,
    ShardReader,
    Work,
    WorkerPool,
    workers_that_fit,
)

with needs_extra(Wording("engine='ray'"), "ray"):
    import ray
    import ray.data
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_RETRIES = 3  # retries of a block whose worker or node died
_WORKERS_PER_READER = 4  # workers fed by one reader, a process that is slow to start
_dumps = ray.cloudpickle.dumps  # can send classes that other nodes cannot import
_HOST_AND_PORT = re.compile(r"[\w.\[\]:-]+:\d+")
_COLOUR = re.compile(r"\x1b\[\d*m")
_HEALTH_TIMEOUT = 30  # seconds to check whether a cluster answers
_Rows = dict[str, Any]  # one column of pickled items


class Ray(Engine):
    """An engine on the cluster at an address, or on a temporary one on this machine."""

    name = "ray"
    takes_address = True
    reads_remotely = True

    @contextmanager
    def start(self, pools: Sequence[WorkerPool]) -> Iterator[Sequence[WorkerPool]]:
        cores = 1 + sum((p.workers or threads()) * (p.threads or 1) for p in pools)
        with _without_warnings(), connected(self.address, cores):
            self._configure()
            _check_nodes(pools)
            self._pools = _plan_workers(pools)
            yield self._pools

    def _configure(self) -> None:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_errored_blocks = -1  # no limit: `results` notices missing blocks
        context.target_max_block_size = 1  # one Ray block per block
        context.execution_options.resource_limits = ray.data.ExecutionResources(
            object_store_memory=self.memory)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)

    def results(self, work: Work) -> Iterator[Item]:
        """Run all blocks; retry records lost with a worker one by one; fail those lost again.

        A record that failed has a result and is not retried: an endpoint may charge for it.
        """
        for block in (None, 1):
            readers = work.unfinished(block)
            if readers and not work.is_over():
                yield from self._run(readers, work)
        for reader in () if work.is_over() else work.unfinished(1):
            yield from map(self._refused, reader.blocks())

    def _refused(self, item: Block | End) -> Item:
        for pool in self._pools:
            if isinstance(item, Block):
                late = ", or exceeded the segment timeout" if pool.segment_timeout else ""
                item = pool.refuse(item, f"every worker that tried it died{late}")
        return item

    def _run(self, readers: Sequence[ShardReader], work: Work) -> Iterator[Item]:
        """Run the readers' blocks; after a stop, blocks that were already read are finished."""
        data = ray.data.from_items([{"item": _dumps(r)} for r in readers],
                                   override_num_blocks=len(readers))
        workers = sum(pool.workers or 1 for pool in self._pools)
        # num_cpus=0: the reader would wait forever if the workers occupy all CPUs
        data = data.map_batches(_read, batch_size=1, num_cpus=0,
                                concurrency=max(1, workers // _WORKERS_PER_READER))
        # a record that kills its worker would also use up the retries of blocks queued behind it
        waiting = 1 if all(reader.block == 1 for reader in readers) else None
        for pool in self._pools:
            data = data.map_batches(
                _Actor, fn_constructor_args=(pool,), batch_size=1, num_cpus=pool.threads,
                num_gpus=pool.gpus, max_task_retries=_RETRIES,
                compute=ray.data.ActorPoolStrategy(size=pool.workers,
                                                   max_tasks_in_flight_per_actor=waiting))
        batches = iter(data.iter_batches(batch_size=None, prefetch_batches=0))
        try:
            for rows in batches:
                yield from map(pickle.loads, rows["item"])
                if work.is_over():
                    return
        except ray.exceptions.RayError as error:
            raise UnusableError(f"the run on Ray failed: {_last_line(str(error))}") from error
        finally:
            # workers live as long as their handles, which are in reference cycles of Ray: without
            # this, the next run of this process would wait for their CPUs
            del data, batches
            gc.collect()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide warnings of Ray about its own deprecations, `ray_remote_args`, and idle workers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", ".*ray_remote_args|The minimum number of concurrent")
        yield


@contextmanager
def connected(address: str | None, cpus: int | None) -> Iterator[None]:
    """Connect to Ray without its logs and usage statistics; shut it down if it was started here.

    Without an address, Ray is started on this machine with `cpus` processors.
    """
    if ray.is_initialized():
        yield
        return
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    if address is not None:
        _check_access(address)
    try:
        with _silence():
            ray.init(address or "local", num_cpus=None if address else cpus,
                     include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except ray.exceptions.AuthenticationError as error:
        raise _refused(address, str(error)) from None
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _absent(address, error) from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_access(address: str) -> None:
    """Raise InputError if the cluster cannot be reached, or refuses this process.

    Ray itself would take a minute to fail, without the reason.
    """
    if not _HOST_AND_PORT.fullmatch(address):
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _HEALTH_TIMEOUT).close()
    except (OSError, OverflowError) as error:  # a port has 16 bits
        raise _absent(address, error) from None
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_HEALTH_TIMEOUT,
                              errors="replace")
        if done.returncode and "AuthenticationError" in done.stderr:
            raise _refused(address, _last_line(done.stderr).partition("AuthenticationError: ")[2])


def _absent(address: str | None, error: Exception) -> InputError:
    return InputError(Wording("no Ray cluster at {place}: {error}; start one with `ray start "
                              "--head`, or leave out address=",
                              place=address or "this machine", error=error))


def _refused(address: str | None, reason: str) -> InputError:
    return InputError(f"the Ray cluster at {address} rejects this process: {reason}; set "
                      "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the token of the cluster")


def _check_nodes(pools: Sequence[WorkerPool]) -> None:
    """Raise UnusableError if a node lacks a package: its workers would die one by one."""
    load = ray.remote(num_cpus=0, max_retries=0)(_load)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    tasks = [load.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True))
             .remote(_dumps(pools)) for node in nodes]
    for error in list(filter(None, map(_error_of, tasks))):  # all: Ray prints unretrieved errors
        raise UnusableError("a node of the Ray cluster cannot load the workers: "
                            f"{_last_line(str(error))}; install minrisk, and the modules that "
                            "define the metric, strategy and sampler, on every node") from error


def _error_of(task: Any) -> Exception | None:
    try:
        ray.get(task)
    except ray.exceptions.RayError as error:
        return error  # type: ignore[no-any-return]
    return None


def _load(pickled: bytes) -> None:
    pickle.loads(pickled)


def _last_line(text: str) -> str:
    """The message of an error, without its traceback and Ray's colours."""
    return _COLOUR.sub("", text.strip()).rpartition("\n")[2].strip()


@contextmanager
def _silence() -> Iterator[None]:
    """Hide what native code writes to standard error."""
    before = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _plan_workers(pools: Sequence[WorkerPool]) -> list[WorkerPool]:
    """Pools with as many workers as the cluster has room for; with models on CPUs, one per node."""
    return [replace(pool, workers=pool.workers or max(1, _capacity(pool)),
                    threads=pool.threads or 1) for pool in pools]


def _capacity(pool: WorkerPool) -> int:
    if pool.gpus:
        return _capacity_of_gpus(pool.gpus)
    if not pool.loads_model:
        available = ray.cluster_resources()
        return int((available["CPU"] - 1) / (pool.threads or 1))  # one CPU is for reading
    return sum(node["Alive"] for node in ray.nodes())


def _capacity_of_gpus(each: float) -> int:
    """Number of workers that fit on all nodes; Ray would wait forever for others."""
    gpus = [node["Resources"].get("GPU", 0.0) for node in ray.nodes() if node["Alive"]]
    capacity = sum(workers_that_fit(own, each) for own in gpus)
    if not capacity:
        raise InputError(f"no node has {each:g} GPUs for a worker; the cluster has "
                         f"{sum(gpus):g} in all")
    return capacity


def _read(rows: _Rows) -> Iterator[_Rows]:
    for reader in map(pickle.loads, rows["item"]):
        for item in reader.blocks():
            yield {"item": [_dumps(item)]}


class _Actor:
    """A Ray actor that runs the stages of a pool."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._error: MinriskError | None = None
        try:
            pool.prepare()
        except MinriskError as error:  # if it were raised, Ray would restart the actor
            self._error = error

    def __call__(self, rows: _Rows) -> _Rows:
        return {"item": [self._next(item) for item in rows["item"]]}

    def _next(self, pickled: bytes) -> bytes:
        item = pickle.loads(pickled)
        if not isinstance(item, Block):
            return pickled
        return pickle.dumps(FatalItem(self._error)) if self._error else self._pool.run_pickled(item)
