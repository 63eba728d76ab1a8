"""An upstream that answers at once: n choices of a real segment's samples. Prints its port.

The argument is the share of requests that it fails.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import random
import sys
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web

DEMO = Path(__file__).parents[2] / "src" / "minrisk" / "data" / "demo.jsonl.xz"


def main() -> None:
    with lzma.open(DEMO, "rt", encoding="utf-8") as lines:
        samples = json.loads(next(lines))["samples"]
    numbers = count()
    counts = {"open": 0, "aborted": 0}
    failures = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0

    async def complete(request: web.Request) -> web.Response:
        counts["open"] += 1
        try:
            body = await request.json()
            await asyncio.sleep(body.get("delay", 0))  # for clients that leave meanwhile
            if random.random() < failures:
                return web.json_response({"error": {"message": "overloaded"}}, status=503)
            return answer(body)
        except asyncio.CancelledError:
            counts["aborted"] += 1
            raise
        finally:
            counts["open"] -= 1

    def answer(body: dict[str, Any]) -> web.Response:
        given = body.get("texts", samples)  # what a hostile client wants
        texts = [given[next(numbers) % len(given)] for _ in range(body.get("n") or 1)]
        choices = [{"index": i, "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop"} for i, text in enumerate(texts)]
        return web.json_response({
            "id": "mock", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 20 * len(texts),
                                          "total_tokens": 10 + 20 * len(texts)}})

    async def tell(_: web.Request) -> web.Response:
        return web.json_response(counts)

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "mock", "object": "model"}]})

    app = web.Application(client_max_size=1 << 24)
    app.add_routes([web.post("/v1/chat/completions", complete), web.get("/v1/models", models),
                    web.get("/open", tell)])
    web.run_app(app, host="127.0.0.1", port=0, access_log=None, handler_cancellation=True,
                print=lambda text: print(text.split("//")[1].split("/")[0].split()[0], flush=True)
                if "//" in text else None)


if __name__ == "__main__":
    main()
