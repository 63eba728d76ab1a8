"""Does `minrisk serve` stay quick for honest clients among hostile ones, and how much does it hold?

    python benchmarks/serve/load.py [--minutes 60] [--clients 100] [--hostile 20]

The upstream (`mock.py`) fails 5% of its requests. Honest clients ask one question after the other;
hostile ones send content that takes long to compare, large and broken bodies, leave in the middle,
read nothing, and name models that do not exist. Writes load.json and its table in README.md; a run
of less than ten minutes only prints.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

HERE = Path(__file__).parent
sys.path.extend((str(HERE.parent), str(HERE)))
import machine
import run
import table

FAILURES = 0.05  # of the upstream's requests
ROWS = 12  # of the table
HEALTH = 0.1  # seconds between two looks at /health
BYSTANDER = 0.01  # seconds for which a process computes that has nothing to do with the server
METRICS = ("edit", "ter", "json-match", "exact-match")
OPTIONS = [value for metric in METRICS for value in ("--allow-metric", metric)]
CONTENT = ["```" + "\n" * 20_000 + "x", "[" * 100_000, "ab" * 200_000, "a b " * 50_000,
           "9" * 100_000, "e" + "\u0301" * 50_000, "\ud800 \x00"]

Attack = Callable[[aiohttp.ClientSession, str, random.Random], Awaitable[object]]


@dataclass
class Interval:
    """What happened in one row of the table."""

    seconds: list[float] = field(default_factory=list)  # of honest requests
    health: list[float] = field(default_factory=list)
    bystander: float = 0.0  # the longest that another process was held up
    statuses: Counter[int] = field(default_factory=Counter)  # of honest requests
    attacks: int = 0


async def long_ranking(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    text = rng.choice(CONTENT)
    body = {"candidates": [text, f"{text}x", f"{text}y"], "metric": rng.choice(METRICS)}
    async with client.post(f"{url}/v1/rank", json=body) as response:
        await response.read()


async def long_samples(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    await run.ask(client, url, texts=rng.sample(CONTENT, 2), minrisk={"metric": "json-match"},
                  response_format={"type": "json_object"})


async def leaving(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    async with asyncio.timeout(rng.uniform(0, 0.5)):
        await run.ask(client, url, delay=60, stream=rng.random() < 0.5)


async def large_body(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    body = rng.choice([b"[" + b"[]," * 1_000_000 + b"[]]", b"{" * 5_000_000, b"\xff" * 100_000])
    async with client.post(f"{url}/v1/chat/completions", data=body,
                           headers={"content-type": "application/json"}) as response:
        await response.read()


async def invented_name(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    await run.ask(client, url, model=f"m{rng.random()}" * rng.choice((1, 1000)))


async def deaf(client: aiohttp.ClientSession, url: str, rng: random.Random) -> None:
    """Sends a request for all samples, and reads nothing for a while."""
    address = urlsplit(url)
    body = json.dumps(run.BODY | {"minrisk": {"return_candidates": True}}).encode()
    _, writer = await asyncio.open_connection(address.hostname, address.port, limit=1)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                 b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await asyncio.sleep(rng.uniform(0, 5))
    writer.close()


ATTACKS: tuple[Attack, ...] = (long_ranking, long_samples, leaving, large_body, invented_name, deaf)


def attack(address: str, seconds: float, clients: int, done: Any) -> None:
    """Hostile clients, in a process of their own, which count what they have done."""
    async def attack_on(client: aiohttp.ClientSession, rng: random.Random) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                await rng.choice(ATTACKS)(client, address, rng)
            done.value += 1

    async def attack_all() -> None:
        async with run.session() as client:
            await asyncio.gather(*(attack_on(client, random.Random(i)) for i in range(clients)))

    asyncio.run(attack_all())


def stand_by(longest: Any) -> None:
    """Note how long other work on the machine holds up a process that computes a little at a time.
    """
    while True:
        time.sleep(HEALTH)
        begin, computed = time.monotonic(), time.thread_time()
        while time.thread_time() - computed < BYSTANDER:
            pass
        longest.value = max(longest.value, time.monotonic() - begin - BYSTANDER)


async def load(address: str, minutes: float, honest: int, done: Any, longest: Any,
               process: int) -> list[dict[str, Any]]:
    end = time.monotonic() + 60 * minutes
    current, before = [Interval()], [0]
    rows = []

    async def ask_honestly(client: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            status, seconds = await run.ask(client, address)
            current[0].seconds.append(seconds)
            current[0].statuses[status] += 1
            await asyncio.sleep(0.1)

    async def watch(client: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            begin = time.monotonic()
            async with client.get(f"{address}/health") as response:
                await response.read()
            current[0].health.append(time.monotonic() - begin)
            await asyncio.sleep(HEALTH)

    async def note() -> None:
        for number in range(1, ROWS + 1):
            await asyncio.sleep(max(0, end - time.monotonic()) / (ROWS + 1 - number))
            current[0].attacks, before[0] = done.value - before[0], done.value
            current[0].bystander, longest.value = longest.value, 0.0
            rows.append(described(number * minutes / ROWS, current[0], process))
            print(json.dumps(rows[-1]), flush=True)
            current[0] = Interval()

    async with run.session() as client:
        await asyncio.gather(note(), watch(client),
                             *(ask_honestly(client) for _ in range(honest)))
    return rows


def described(minute: float, found: Interval, process: int) -> dict[str, Any]:
    failures = {str(status): count for status, count in found.statuses.items() if status != 200}
    seconds = sorted(found.seconds) or [0.0]
    return {"minute": round(minute, 1), "honest": len(found.seconds),
            "failed": sum(failures.values()), "failures": failures,
            "median_ms": round(1000 * statistics.median(seconds)),
            "p99_ms": round(1000 * seconds[int(0.99 * len(seconds))]),
            "health_ms": round(1000 * max(found.health, default=0.0)),
            "bystander_ms": round(1000 * found.bystander),
            "attacks": found.attacks, "server_mb": run.memory(process),
            **descendants(process), "open_files": len(os.listdir(f"/proc/{process}/fd"))}


def descendants(process: int) -> dict[str, int]:
    """The number of processes that a process has started, theirs included, and their memory."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {process}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    held = 0
    for own in found - {process}:
        with suppress(OSError, TypeError):  # it has ended meanwhile
            held += run.memory(own)
    return {"workers": len(found) - 1, "workers_mb": held}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=100, help="of which some are hostile")
    parser.add_argument("--hostile", type=int, default=20)
    options = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine.describe("aiohttp"), "minutes": options.minutes,
        "clients": options.clients, "hostile": options.hostile, "failures": FAILURES}
    with (run.upstream(str(FAILURES)) as url,
          run.server(url, *OPTIONS, "--choosing-deadline", "20") as (address, process)):
        begin = run.processor_seconds(process)
        context = get_context("spawn")
        done, longest = context.Value("q", 0), context.Value("d", 0.0)
        others = [context.Process(target=attack, args=(
            address, 60 * options.minutes, options.hostile, done)),
            context.Process(target=stand_by, args=(longest,))]
        for one in others:
            one.start()
        found["rows"] = asyncio.run(load(
            address, options.minutes, options.clients - options.hostile, done, longest, process))
        for one in others:
            one.terminate()
        found["server_processor_seconds"] = round(run.processor_seconds(process) - begin, 1)
    if options.minutes >= 10:
        (HERE / "load.json").write_text(json.dumps(found, indent=2) + "\n")
        table.write()


if __name__ == "__main__":
    main()
