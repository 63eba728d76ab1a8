"""What does it cost to ask through `minrisk serve` instead of asking the upstream?

    python benchmarks/serve/run.py [--requests 2000] [--soak 20000] [--cancel 10000]
        [--peer PYTHON]  # of an environment with optillm

An upstream that answers at once, the server and the clients are processes of this machine. Each
request has 16 samples, chosen by chrF. Results go to results.json.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
import machine

SAMPLES = 16
CLIENTS = (1, 32, 256)
BODY = {"model": "mock", "messages": [{"role": "user", "content": "Translate: The cat sat."}],
        "temperature": 0.7}


@contextmanager
def upstream() -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(HERE / "mock.py")], stdout=subprocess.PIPE,
                          text=True) as process:
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
def optillm(python: str, url: str) -> Iterator[str]:
    """A peer with best-of-n, in its own environment."""
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


async def load(url: str, clients: int, requests: int, **fields: Any) -> dict[str, Any]:
    """So many clients that ask one request after the other."""
    seconds: list[float] = []
    statuses: dict[str, int] = {}
    left = iter(range(requests))

    async def client(session: aiohttp.ClientSession) -> None:
        for _ in left:
            begin = time.perf_counter()
            async with session.post(f"{url}/v1/chat/completions", json=BODY | fields) as response:
                await response.read()
                status = str(response.status)
            seconds.append(time.perf_counter() - begin)
            statuses[status] = statuses.get(status, 0) + 1

    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout,
                                     headers={"Authorization": "Bearer none"}) as session:
        await client_warm_up(session, url, fields)
        begin = time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(clients)))
        wall = time.perf_counter() - begin
    return {"clients": clients, "requests": requests, "statuses": statuses,
            "per_second": round(requests / wall, 1),
            "median_ms": round(1000 * statistics.median(seconds), 2),
            "p99_ms": round(1000 * sorted(seconds)[int(0.99 * len(seconds))], 2),
            "slowest_ms": round(1000 * max(seconds), 2)}


async def client_warm_up(session: aiohttp.ClientSession, url: str, fields: dict[str, Any]) -> None:
    for _ in range(3):
        async with session.post(f"{url}/v1/chat/completions", json=BODY | fields) as response:
            await response.read()


async def cancelled(url: str, upstream_url: str, count: int, at_once: int = 200) -> dict[str, int]:
    """Clients that leave after a moment, and the connections that the server then still has."""
    async def one(session: aiohttp.ClientSession, number: int) -> None:
        with suppress(asyncio.TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(0.002 * (number % 100)), session.post(
                    f"{url}/v1/chat/completions", json=BODY | {"delay": 30}) as response:
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for start in range(0, count, at_once):
            await asyncio.gather(*(one(session, number)
                                   for number in range(start, min(count, start + at_once))))
        await asyncio.sleep(1)
        async with session.get(f"{url}/metrics") as response:
            lines = dict(line.rsplit(" ", 1) for line in (await response.text()).splitlines())
        async with session.get(f"{upstream_url}/open") as response:
            upstream = await response.json()
    return {"clients": count, "open_upstream_requests": upstream["open"],
            "aborted_upstream_requests": upstream["aborted"],
            **{name: int(lines[f"minrisk_{name}"]) for name in ("in_flight", "queued", "drawing")}}


def memory(process: int) -> int:
    """Megabytes that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": machine.describe("aiohttp"), "samples": SAMPLES}
    with upstream() as url:
        few = max(100, options.requests // 10)
        found["upstream"] = [asyncio.run(load(url, n, few if n == 1 else options.requests,
                                              n=SAMPLES)) for n in CLIENTS]
        with server(url) as (address, process):
            found["minrisk"] = [asyncio.run(load(address, n, few if n == 1 else options.requests))
                                for n in CLIENTS]
            if options.soak:
                before = memory(process)
                asyncio.run(load(address, 32, options.soak // 2))
                middle = memory(process)
                asyncio.run(load(address, 32, options.soak // 2))
                found["memory_mb"] = {"requests": options.soak, "start": before, "half": middle,
                                      "end": memory(process)}
            if options.cancel:
                found["cancelled"] = asyncio.run(cancelled(address, url, options.cancel))
        if options.peer:
            with optillm(options.peer, url) as address:
                found["optillm"] = [asyncio.run(load(address, n, max(n, options.requests // 20)))
                                    for n in CLIENTS]
    one = found["minrisk"][0]["median_ms"] - found["upstream"][0]["median_ms"]
    return found | {"overhead_ms": round(one, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--soak", type=int, default=0, help="requests of the test of memory")
    parser.add_argument("--cancel", type=int, default=0, help="clients that leave")
    parser.add_argument("--peer", help="Python of an environment with optillm")
    parser.add_argument("--output", default=str(HERE / "results.json"))
    options = parser.parse_args()
    found = measure(options)
    Path(options.output).write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
