"""An upstream that answers at once, and a bare proxy, for throughput.py. Prints its port.

    python instant.py upstream           # n choices of 60 words each; most share most words
    python instant.py proxy URL          # forwards bytes, by aiohttp
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys

WORDS = 60
KEPT = 0.8  # share of the words that a choice has from the same text
_N = re.compile(rb'"n": ?(\d+)')
_LENGTH = re.compile(rb"content-length: ?(\d+)", re.IGNORECASE)


def answers() -> dict[int, bytes]:
    """The response to a request for n choices."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
             for _ in range(500)]
    text = rng.choices(words, k=WORDS)

    def answer(n: int) -> bytes:
        texts = (" ".join(word if rng.random() < KEPT else rng.choice(words) for word in text)
                 for _ in range(n))
        body = json.dumps({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "mock",
            "choices": [{"index": index, "finish_reason": "stop", "logprobs": None,
                         "message": {"role": "assistant", "content": one}}
                        for index, one in enumerate(texts)],
            "usage": {"prompt_tokens": 10, "completion_tokens": 80 * n,
                      "total_tokens": 10 + 80 * n}}).encode()
        return (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                b"%d\r\n\r\n" % len(body) + body)

    return {n: answer(n) for n in range(1, 33)}


class Upstream(asyncio.Protocol):
    """As little of HTTP as the servers that are measured need."""

    answers = answers()
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self.buffer, 0, end)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < size:
                return
            request, self.buffer = self.buffer[:size], self.buffer[size:]
            n = _N.search(request, end)
            self.transport.write(self.answers[int(n[1]) if n else 1])


async def proxy(url: str) -> asyncio.Server:
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

    client = ClientSession(connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar())

    async def forward(request: web.BaseRequest) -> web.Response:
        headers = {"Content-Type": "application/json"}
        async with client.post(f"{url}{request.path}", data=await request.read(),
                               headers=headers) as response:
            return web.Response(body=await response.read(), status=response.status,
                                content_type="application/json")

    server = web.Server(forward)
    return await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)


async def main(kind: str, *url: str) -> None:
    server = await (proxy(*url) if kind == "proxy" else asyncio.get_running_loop().create_server(
        Upstream, "127.0.0.1", 0, backlog=1024))
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
