"""How many requests a second does `minrisk serve` carry, beside other proxies?

    python benchmarks/serve/throughput.py [--seconds 10] [--litellm PYTHON] [--only REGEX]

All stand before an upstream that answers at once (`instant.py`: 16 choices of 60 words), and are
asked in turns by 32 and by 256 clients. LiteLLM runs in an environment that is made for the run,
unless --litellm names the Python of another. On more than four CPUs, the clients have one, the
upstream another, and the contenders the others. It takes about eight minutes, and two more to
install LiteLLM. Writes throughput.json and the table of README.md; rounds of less than five
seconds, and of some contenders only, just print.
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.extend((str(HERE.parent), str(HERE)))
import machine
import table

SAMPLES = 16
CLIENTS = (32, 256)
ROUNDS = 3
APART = 5  # CPUs from which clients, upstream and contenders have their own
PROXY = {"model": "mock", "messages": [{"role": "user", "content": "Translate: The cat sat."}]}
SERVE = [sys.executable, "-m", "minrisk", "serve", "--port", "0", "--samples", str(SAMPLES),
         "--concurrency", "16384", "--queue", "4096"]
LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the server is on loopback
           "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
_LENGTH = re.compile(rb"content-length: ?(\d+)", re.IGNORECASE)


class Contender(NamedTuple):
    name: str
    process: int
    port: int
    fields: dict[str, Any]  # of each request, beside those of PROXY


class Client(asyncio.Protocol):
    """Sends a request when the last one is answered, until the end."""

    transport: asyncio.Transport

    def __init__(self, request: bytes, end: float, answered: list[tuple[float, float]],
                 errors: list[bytes]) -> None:
        self.request, self.end, self.answered, self.errors = request, end, answered, errors
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.begin = time.perf_counter()
        if self.begin > self.end:
            self.transport.close()
        else:
            self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        length = _LENGTH.search(self.buffer, 0, head) if head >= 0 else None
        if length and len(self.buffer) >= head + 4 + int(length[1]):
            if not self.buffer.startswith(b"HTTP/1.1 200"):
                self.errors.append(self.buffer)
            self.answered.append((now := time.perf_counter(), now - self.begin))
            self.buffer = b""
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def ask(port: int, fields: dict[str, Any], clients: int,
              duration: float) -> tuple[list[float], int, int]:
    """The seconds of each request, how many of them were answered in time, and failed."""
    body = json.dumps(PROXY | fields).encode()
    request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
               b"sk-none\r\nContent-Type: application/json\r\nContent-Length: "
               b"%d\r\n\r\n" % len(body) + body)
    answered: list[tuple[float, float]] = []  # when, and after how many seconds
    errors: list[bytes] = []
    loop, end = asyncio.get_running_loop(), time.perf_counter() + duration
    made = [await loop.create_connection(lambda: Client(request, end, answered, errors),
                                         "127.0.0.1", port) for _ in range(clients)]
    await asyncio.gather(*(client.done for _, client in made))
    if errors:
        print(errors[0][:1000], file=sys.stderr)
    return ([seconds for _, seconds in answered], sum(when <= end for when, _ in answered),
            len(errors))


def processor_seconds(process: int) -> float:
    """Of a process and all that it has started."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            own = int(path.parent.name)
            parents[own], used[own] = int(fields[1]), int(fields[11]) + int(fields[12])
    found = {process}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(used.get(own, 0) for own in found) / os.sysconf("SC_CLK_TCK")


def measure(contender: Contender, clients: int, duration: float) -> dict[str, Any]:
    before = processor_seconds(contender.process)
    seconds, in_time, errors = asyncio.run(
        ask(contender.port, contender.fields, clients, duration))
    spent = processor_seconds(contender.process) - before
    seconds.sort()
    return {"per_second": round(in_time / duration, 1), "errors": errors,
            "processor_ms": round(1000 * spent / len(seconds), 3),
            "median_ms": round(1000 * statistics.median(seconds), 2),
            "p99_ms": round(1000 * seconds[int(0.99 * len(seconds))], 2)}


# servers


def cpus() -> tuple[set[int], set[int], set[int]]:
    """Those of the clients, of the upstream and of the contenders."""
    all_cpus = sorted(os.sched_getaffinity(0))
    if len(all_cpus) < APART:
        return set(all_cpus), set(all_cpus), set(all_cpus)
    return {all_cpus[0]}, {all_cpus[1]}, set(all_cpus[2:])


@contextmanager
def started(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


@contextmanager
def instant(*arguments: str) -> Iterator[tuple[int, int]]:
    """The process and the port of a server of instant.py."""
    with started(sys.executable, str(HERE / "instant.py"), *arguments,
                 stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())


@contextmanager
def minrisk(url: str, *options: str) -> Iterator[tuple[int, int]]:
    with (tempfile.TemporaryFile("w+") as log,
          started(*SERVE, "--upstream", f"{url}/v1", *options, stderr=log) as process):
        while True:
            time.sleep(0.1)
            assert process.poll() is None
            log.seek(0)
            if found := re.search(r"serving at \S+:(\d+)/v1", log.read()):
                break
        yield process.pid, int(found[1])


@contextmanager
def litellm_python(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "-q", "litellm[proxy]"],
                       check=True)
        yield f"{folder}/bin/python"


@contextmanager
def litellm(python: str, url: str) -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")
        config.write_text(json.dumps({"model_list": [{"model_name": "mock", "litellm_params": {
            "model": "openai/mock", "api_base": f"{url}/v1", "api_key": "none"}}]}))
        with started(str(Path(python).with_name("litellm")), "--config", str(config), "--host",
                     "127.0.0.1", "--port", str(port), stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL,
                     env=os.environ | LITELLM) as process:
            end = time.monotonic() + 180
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError("LiteLLM does not start")
                time.sleep(0.5)
            yield process.pid, port


def contenders(stack: ExitStack, only: str, python: str | None, url: str) -> Iterator[Contender]:
    whole = {"n": SAMPLES, "temperature": 0}  # the same answer for all who pass it through
    for name, server, fields in (
            ("bare aiohttp proxy", lambda: instant("proxy", url), whole),
            ("minrisk, chrF", lambda: minrisk(url), {}),
            ("minrisk, votes", lambda: minrisk(url, "--metric", "exact-match"), {}),
            ("minrisk, passing through", lambda: minrisk(url), whole),
            ("minrisk, chrF, --workers 2", lambda: minrisk(url, "--workers", "2"), {})):
        if re.search(only, name):
            yield Contender(name, *stack.enter_context(server()), fields)
    if not re.search(only, "LiteLLM"):
        return
    with litellm_python(python) as own:
        version = subprocess.run([own, "-m", "pip", "show", "litellm"], text=True, check=True,
                                 capture_output=True).stdout.splitlines()[1].partition(" ")[2]
        yield Contender(f"LiteLLM {version}, passing through",
                        *stack.enter_context(litellm(own, url)), whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="of a contender in a round")
    parser.add_argument("--litellm", help="Python of an environment with litellm[proxy]")
    parser.add_argument("--only", default="", help="regular expression of contenders")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine.describe("aiohttp"), "samples": SAMPLES,
                             "results": []}
    of_clients, of_upstream, of_contenders = cpus()
    found["cpus"] = [len(of_clients), len(of_upstream), len(of_contenders)]
    with ExitStack() as stack:
        os.sched_setaffinity(0, of_upstream)  # which the processes that it starts inherit
        _, port = stack.enter_context(instant("upstream"))
        os.sched_setaffinity(0, of_contenders)
        everyone = list(contenders(stack, options.only, options.litellm,
                                   f"http://127.0.0.1:{port}"))
        os.sched_setaffinity(0, of_clients)
        for contender in everyone:
            measure(contender, 8, 2)  # to warm up
        for clients in CLIENTS:
            rounds = [[measure(one, clients, options.seconds) for one in everyone]
                      for _ in range(ROUNDS)]
            for contender, runs in zip(everyone, zip(*rounds, strict=True), strict=True):
                found["results"].append({"name": contender.name, "clients": clients} | {
                    key: statistics.median(run[key] for run in runs) for key in runs[0]})
                print(json.dumps(found["results"][-1]), flush=True)
    if options.seconds >= 5 and not options.only:
        (HERE / "throughput.json").write_text(json.dumps(found, indent=2) + "\n")
        table.write()


if __name__ == "__main__":
    main()
