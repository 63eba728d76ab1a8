"""Counts the functions and files of minrisk that a command passes, a call, or a request.

usage: python tools/walk.py decode samples.jsonl -o best.jsonl
       python tools/walk.py --call samples.jsonl      (minrisk.decode_corpus)
       python tools/walk.py --request [METRIC]        (of `serve`, the second one)

Counted are those above the core, the metrics and the strategies, in this process and all threads;
a comprehension or a lambda belongs to the function that it stands in.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import minrisk

SOURCE = Path(minrisk.__file__).parent
BELOW = {"_core", "_torch", "metrics", "strategies"}


@contextmanager
def counted() -> Iterator[None]:
    """Count what is passed meanwhile."""
    passed: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED  # the body of a class or a module is none
        if event == "call" and is_function and code.co_filename.startswith(f"{SOURCE}/"):
            path = code.co_filename.removeprefix(f"{SOURCE}/")
            name = code.co_qualname.partition(".<locals>.<")[0]
            if path.split("/")[0] not in BELOW:
                passed.add((path, name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    for path, name in sorted(passed):
        print(f"{path}: {name}", file=sys.stderr)
    print(f"{len(passed)} functions in {len({path for path, _ in passed})} files")


def main(args: list[str]) -> None:
    if args[0] == "--request":
        asyncio.run(request(*args[1:]))
        return
    with counted():
        if args[0] == "--call":
            list(minrisk.decode_corpus(args[1]))
        else:
            from minrisk.cli import main as command_line

            command_line(args)


async def request(metric: str = "chrf") -> None:
    """The second request of a server, before an upstream that answers at once."""
    from aiohttp import ClientSession, web

    from minrisk.openai.client import Client
    from minrisk.server.app import Server
    from minrisk.server.backends import UpstreamBackend
    from minrisk.server.http import ListenConfig, serve
    from minrisk.server.sampling import SampleLimit
    from minrisk.server.settings import Preset, Settings

    async def answer(asked: web.Request) -> web.Response:
        count = (await asked.json()).get("n", 1)
        return web.json_response({"choices": [
            {"index": index, "finish_reason": "stop", "message": {"content": f"a b {index % 3}"}}
            for index in range(count)]})

    upstream = web.AppRunner(app := web.Application())
    app.router.add_post("/v1/chat/completions", answer)
    await upstream.setup()
    site = web.TCPSite(upstream, "127.0.0.1", 0)
    await site.start()
    host, port = upstream.addresses[0][:2]
    backend = UpstreamBackend(Client(f"http://{host}:{port}/v1", timeout=None), per_request=16)
    server = Server(backend, Settings(Preset("m", 8, minrisk.Standard(metric))),
                    SampleLimit(64, 64), write_log=lambda line: None)
    stop = asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(server, ListenConfig(port=0), lambda url, problem:
                                        ready.set_result(url), stop))
    body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
    async with ClientSession(headers={"content-type": "application/json"}) as client:
        url = f"{await ready}/chat/completions"
        async with client.post(url, data=body) as response:
            await response.read()
        with counted():
            async with client.post(url, data=body) as response:
                await response.read()
    stop.set()
    await serving
    await upstream.cleanup()


if __name__ == "__main__":
    main(sys.argv[1:])
