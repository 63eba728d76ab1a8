"""What does it cost to ask through `minrisk serve` instead of asking the upstream?

    python benchmarks/serve/run.py [--quick] [--peer PYTHON]

An upstream that answers at once, the server and the clients are processes of this machine. Each
request has 16 samples, chosen by chrF. The peer is optillm's best-of-n, in an environment that is
made for the run, unless --peer names the Python of another. Writes results.json and the tables of
README.md; a quick run, of fewer requests and without the peer, only prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
import machine
import table

SAMPLES = 16
CLIENTS = (1, 32, 256)
BODY = {"model": "mock", "messages": [{"role": "user", "content": "Translate: The cat sat."}],
        "temperature": 0.7}
HEADERS = {"Authorization": "Bearer none"}
# what the server of the peer imports; its other requirements are gigabytes
PEER = ["flask", "openai", "cerebras_cloud_sdk", "networkx", "numpy", "z3-solver<=4.15.4.0",
        "PyYAML", "sympy", "requests", "aiohttp", "math-verify"]
SETTLE = 60.0  # seconds in which everything must be closed


class Sizes(NamedTuple):
    """Numbers of requests."""

    requests: int = 2000
    peer: int = 256
    soak: int = 20_000
    cancelled: int = 10_000
    killed: int = 1000  # before the server is killed


QUICK = Sizes(200, 0, 1000, 400, 100)


@contextmanager
def upstream(*options: str) -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(HERE / "mock.py"), *options],
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://{process.stdout.readline().strip()}"
        finally:
            process.kill()


@contextmanager
def server(url: str, *options: str) -> Iterator[tuple[str, int]]:
    """The address of `minrisk serve`, and its process."""
    command = [sys.executable, "-m", "minrisk", "serve", "--upstream", f"{url}/v1", "--port", "0",
               "--samples", str(SAMPLES), "--concurrency", "4096", "--queue", "4096", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving at" in line)
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield line.split()[-1].removesuffix("/v1"), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            drain.wait()


@contextmanager
def peer_python(given: str | None) -> Iterator[str]:
    """The Python of an environment with optillm."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        for packages in (["--no-deps", "optillm"], PEER):
            subprocess.run([python, "-m", "pip", "install", "-q", "--no-warn-conflicts",
                            *packages], check=True)
        yield python


@contextmanager
def optillm(python: str, url: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python, "-m", "optillm.server", "--approach", "bon", "--best-of-n", str(SAMPLES),
               "--base-url", f"{url}/v1", "--port", str(port)]
    environment = os.environ | {"OPENAI_API_KEY": "none"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=environment) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise RuntimeError("the peer did not start")


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=HEADERS,
                                 timeout=aiohttp.ClientTimeout(total=300))


async def ask(client: aiohttp.ClientSession, url: str, **fields: Any) -> tuple[int, float]:
    """The status, and the seconds until the whole answer was there."""
    begin = time.perf_counter()
    async with client.post(f"{url}/v1/chat/completions", json=BODY | fields) as response:
        await response.read()
        return response.status, time.perf_counter() - begin


async def overhead(address: str, url: str, requests: int) -> dict[str, Any]:
    """One client that asks the server and the upstream in turns."""
    ours, direct = [], []
    async with session() as client:
        for number in range(requests + 10):  # the first ones warm up
            answers = await ask(client, address), await ask(client, url, n=SAMPLES)
            assert all(status == 200 for status, _ in answers)
            if number >= 10:
                ours.append(answers[0][1])
                direct.append(answers[1][1])
    found = {"requests": requests, "server": _quantiles(ours), "upstream": _quantiles(direct)}
    return found | {"overhead": {name: round(found["server"][name] - found["upstream"][name], 2)
                                 for name in ("median_ms", "p99_ms")}}


def _quantiles(seconds: list[float]) -> dict[str, float]:
    return {"median_ms": round(1000 * statistics.median(seconds), 2),
            "p99_ms": round(1000 * sorted(seconds)[int(0.99 * len(seconds))], 2),
            "slowest_ms": round(1000 * max(seconds), 2)}


async def load(url: str, clients: int, requests: int, **fields: Any) -> dict[str, Any]:
    """Clients that each ask one request after the other, until all requests are answered."""
    seconds: list[float] = []
    statuses: dict[str, int] = {}
    answered = [0] * clients
    numbers = iter(range(max(requests, clients)))

    async def client_loop(place: int) -> None:
        for _ in numbers:
            status, elapsed = await ask(client, url, **fields)
            seconds.append(elapsed)
            statuses[str(status)] = statuses.get(str(status), 0) + 1
            answered[place] += 1

    async with session() as client:
        for _ in range(3):
            await ask(client, url, **fields)
        begin = time.perf_counter()
        await asyncio.gather(*map(client_loop, range(clients)))
        wall = time.perf_counter() - begin
    return {"clients": clients, "requests": len(seconds), "statuses": statuses,
            "per_second": round(len(seconds) / wall, 1), "fewest_of_a_client": min(answered),
            **_quantiles(seconds)}


async def cancelled(address: str, url: str, count: int, at_once: int = 200) -> dict[str, int]:
    """Clients that leave, and what the server then still has open.

    Four of five leave when their requests are at the upstream, the others at any moment before.
    """
    async def leave_early(client: aiohttp.ClientSession, number: int) -> None:
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(0.001 * number):
                await ask(client, address, delay=60)

    async with session() as client:
        await ask(client, address)  # now the server knows what the upstream takes
        for _ in range(0, count, at_once):
            late = [asyncio.create_task(ask(client, address, delay=60))
                    for _ in range(at_once * 4 // 5)]
            await asyncio.gather(*(leave_early(client, number)
                                   for number in range(at_once - len(late))))
            await _until_open(client, url, len(late))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        end = time.monotonic() + SETTLE
        while any((left := await _open(client, address, url)).values()) and time.monotonic() < end:
            await asyncio.sleep(0.2)
        async with client.get(f"{url}/open") as response:
            upstream = await response.json()
    return {"clients": count, **left, "open_upstream_requests": upstream["open"],
            "aborted_upstream_requests": upstream["aborted"]}


async def _until_open(client: aiohttp.ClientSession, url: str, requests: int) -> None:
    end = time.monotonic() + SETTLE
    while time.monotonic() < end:
        async with client.get(f"{url}/open") as response:
            if (await response.json())["open"] >= requests:
                return
        await asyncio.sleep(0.02)


async def _open(client: aiohttp.ClientSession, address: str, url: str) -> dict[str, int]:
    """What the server has open or waiting."""
    async with client.get(f"{address}/metrics") as response:
        lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines())
    port = urlsplit(url).port
    assert port is not None
    return {"open_upstream_connections": open_connections(port),
            **{name: int(lines[f"minrisk_{name}"]) for name in ("in_flight", "queued", "drawing")}}


def open_connections(port: int) -> int:
    """Established connections to a port of this machine."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [(line.split()[2].rpartition(":")[2], line.split()[3]) for line in lines]
    return sum(int(remote, 16) == port and state == "01" for remote, state in ends)


async def killed(address: str, process: int, requests: int) -> int:
    """The number of answers that clients had when the server was killed."""
    answers = 0

    async def client_loop() -> None:
        nonlocal answers
        with suppress(aiohttp.ClientError, OSError):
            while True:
                status, _ = await ask(client, address)
                answers += status == 200
                if answers == requests:
                    os.kill(process, signal.SIGKILL)

    async with session() as client:
        await asyncio.gather(*(client_loop() for _ in range(32)))
    return answers


def records(path: Path) -> dict[str, int]:
    """Whole lines of a file, and bytes of a line that was torn."""
    *lines, rest = path.read_bytes().split(b"\n")
    return {"whole_records": sum("samples" in json.loads(line) for line in lines),
            "torn_bytes": len(rest)}


def kill_test(url: str, requests: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.jsonl")
        with server(url, "--record", str(path)) as (address, process):
            answers = asyncio.run(killed(address, process, requests))
        found = {"answers": answers, **records(path)}
        with server(url, "--record", str(path)):
            after = records(path)
    lost = max(0, answers - found["whole_records"])
    return found | {"lost_records": lost, "torn_bytes_after_restart": after["torn_bytes"]}


def memory(process: int) -> int:
    """Megabytes that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def soak(address: str, process: int, requests: int) -> dict[str, Any]:
    """Memory after a tenth of the requests, half of them, and all."""
    before, held = processor_seconds(process), []
    for share in (0.1, 0.4, 0.5):
        asyncio.run(load(address, 32, int(share * requests)))
        held.append(memory(process))
    spent = processor_seconds(process) - before
    return {"requests": requests, "start_mb": held[0], "half_mb": held[1], "end_mb": held[2],
            "processor_ms_per_request": round(1000 * spent / requests, 2)}


def measure(sizes: Sizes, peer: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": machine.describe("aiohttp"), "samples": SAMPLES}
    with upstream() as url:
        found["upstream"] = [asyncio.run(load(url, n, sizes.requests, n=SAMPLES)) for n in CLIENTS]
        with server(url) as (address, process):
            found["one client"] = asyncio.run(overhead(address, url, sizes.requests))
            found["minrisk"] = [asyncio.run(load(address, n, sizes.requests)) for n in CLIENTS]
            found["memory"] = soak(address, process, sizes.soak)
        with server(url) as (address, process):  # without connections from before
            found["cancelled"] = asyncio.run(cancelled(address, url, sizes.cancelled))
        found["killed"] = kill_test(url, sizes.killed)
        if sizes.peer:
            found["optillm"] = measure_peer(url, sizes.peer, peer)
    return found


def measure_peer(url: str, requests: int, given: str | None) -> dict[str, Any]:
    try:
        with peer_python(given) as python, optillm(python, url) as address:
            version = subprocess.run([python, "-m", "pip", "show", "optillm"], text=True,
                                     capture_output=True, check=True).stdout.splitlines()[1]
            return {"version": version.partition(" ")[2],
                    "results": [asyncio.run(load(address, n, requests)) for n in CLIENTS]}
    except (RuntimeError, subprocess.CalledProcessError, aiohttp.ClientError) as error:
        return {"error": f"does not install or run here: {error}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few requests, no peer, no file")
    parser.add_argument("--peer", help="Python of an environment with optillm")
    parser.add_argument("--output", default=str(HERE / "results.json"))
    options = parser.parse_args()
    found = measure(QUICK if options.quick else Sizes(), options.peer)
    print(json.dumps(found, indent=2))
    if not options.quick:
        Path(options.output).write_text(json.dumps(found, indent=2) + "\n")
        table.write()


if __name__ == "__main__":
    main()
