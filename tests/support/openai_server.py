"""A server with OpenAI's protocol that fails as it is told to."""

from __future__ import annotations

import json
import math
import random
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW = 5.0  # seconds
WORDS = ["red", "green", "blue", "grey"]


class Faulty(ThreadingHTTPServer):
    """Faults are taken from `script`, one a request; after them it works.

    A sample is a function of the prompt, the seed and its number, as with a real server.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script: list[Callable[[Handler], None]] = []
        self.always: Callable[[Handler], None] | None = None  # instead of an answer
        self.most = 10**6  # choices in an answer, whatever was asked for
        self.logprobs = True
        self.usage = False
        self.delay = 0.0
        self.connections = 0
        self.waiting = threading.Semaphore(0)  # one for each request that gets no answer
        self.left = threading.Semaphore(0)  # one for each client that went without an answer
        self.bodies: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.keys: list[str | None] = []
        self.busy = self.busiest = 0
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may leave at any time
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # which keeps connections
    server: Faulty
    body: dict[str, Any]

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        server = self.server
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.bodies.append(self.body)
            server.keys.append(self.headers["Authorization"])
            fault = server.script.pop(0) if server.script else server.always
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        time.sleep(server.delay)
        try:
            (fault or answer)(self)
        finally:
            with server.lock:
                server.busy -= 1

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, code: int, content: object, **headers: str) -> None:
        self.send(code, json.dumps(content).encode(), **headers)

    def send(self, code: int, content: bytes, length: int | None = None, **headers: str) -> None:
        self.server.statuses.append(code)
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection |= length is not None

    def send_until_left(self, start: bytes, more: bytes, pause: float = 0.0) -> None:
        """The same bytes again and again, for as long as the client takes them."""
        self.close_connection = True
        try:
            self.wfile.write(start)
            while True:
                self.wfile.write(more)
                time.sleep(pause)
        except OSError:
            self.server.left.release()


def answer(handler: Handler) -> None:
    found = choices(handler)
    handler.reply(200, {"choices": found} | (usage(found) if handler.server.usage else {}))


def usage(found: list[dict[str, Any]]) -> dict[str, Any]:
    """As if a prompt had 5 tokens, and a choice 3."""
    return {"usage": {"prompt_tokens": 5, "completion_tokens": 3 * len(found),
                      "total_tokens": 5 + 3 * len(found)}}


def altered(*changes: dict[str, Any]) -> Callable[[Handler], None]:
    """An answer whose choices have these fields instead, one change a choice, over and over."""
    def reply(handler: Handler) -> None:
        found = [choice | changes[i % len(changes)] for i, choice in enumerate(choices(handler))]
        handler.reply(200, {"choices": found} | usage(found))

    return reply


def choices(handler: Handler) -> list[dict[str, Any]]:
    body, server = handler.body, handler.server
    return [_choice(handler, i) for i in range(min(body.get("n", 1), server.most))]


def _choice(handler: Handler, number: int) -> dict[str, Any]:
    body = handler.body
    asked = str(body.get("prompt") or body["messages"][-1].get("content"))
    rng = random.Random(f"{asked!r} {body.get('seed', time.time_ns()) + number}")
    text = f"{asked[-3:]} {rng.choice(WORDS)} {rng.choice(WORDS)}"
    model = random.Random(text)  # gives a text the same probability each time
    tokens = [-model.random() for _ in text.split()] if handler.server.logprobs else None
    if "logprobs" not in body:
        tokens = None
    if "messages" in body:
        content = tokens and {"content": [
            {"logprob": t, "top_logprobs": [
                {"logprob": one} for one in likeliest(t, body.get("top_logprobs", 0))]}
            for t in tokens]}
        return {"message": {"content": text}, "logprobs": content, "finish_reason": "stop"}
    return {"text": text, "logprobs": tokens and {
        "token_logprobs": tokens,
        "top_logprobs": [dict(enumerate(likeliest(t, body["logprobs"]))) for t in tokens]}}


def likeliest(logprob: float, count: int) -> list[float]:
    """The log-probabilities of the likeliest tokens where a sampled one has this."""
    return [logprob - place for place in range(count)]


def scoring(chances: Callable[[str], dict[str, float]]) -> Callable[[Handler], None]:
    """Writes the likeliest of some tokens, whose probabilities follow from the prompt."""
    def reply(handler: Handler) -> None:
        body = handler.body
        found = chances(body["messages"][-1]["content"])
        tokens = [{"token": token, "logprob": math.log(chance)}
                  for token, chance in sorted(found.items(), key=lambda own: -own[1])]
        entry = tokens[0] | {"top_logprobs": tokens[: body.get("top_logprobs", 0)]}
        has_logprobs = body.get("logprobs") and handler.server.logprobs
        logprobs = {"content": [entry]} if has_logprobs else None
        handler.reply(200, {"choices": [{"message": {"content": entry["token"]},
                                         "logprobs": logprobs, "finish_reason": "stop"}]}
                      | usage([{}]))

    return reply


def likeness(prompt: str) -> dict[str, float]:
    """Scores from 1 to 5 by the letters that the two texts of a judge's prompt have in common."""
    parts = re.sub(r"<<<[0-9a-f]+\n|\n[0-9a-f]+>>>", "", prompt).split("### ")
    texts = [set(part.partition("\n")[2]) for part in parts
             if part.startswith(("Reference", "Response"))]
    if not texts:  # a choice among all
        return {"Response 1": 1.0}
    share = len(set.intersection(*texts)) / max(1, len(set.union(*texts)))
    weights = {str(score): 2.0 ** -abs(score - 1 - 4 * share) for score in range(1, 6)}
    return {score: weight / sum(weights.values()) for score, weight in weights.items()}


def busy(after: str = "0") -> Callable[[Handler], None]:
    return lambda h: h.reply(429, {"error": {"message": "too many"}}, Retry_After=after)


def status(code: int, message: str = "no") -> Callable[[Handler], None]:
    return lambda h: h.reply(code, {"error": {"message": message}})


def refusing_prompt(end: str) -> Callable[[Handler], None]:
    """Refuses prompts that end with this text."""
    return lambda h: (status(400, "not with me")
                      if h.body["messages"][-1]["content"].endswith(end) else answer)(h)


def dropped(handler: Handler) -> None:
    handler.close_connection = True
    handler.connection.close()


def half(handler: Handler) -> None:
    """Less than was announced, as when a proxy gives up."""
    content = json.dumps({"choices": choices(handler)}).encode()
    handler.send(200, content[: len(content) // 2], len(content))


def cut(handler: Handler) -> None:
    """JSON that ends too early, but whole as far as HTTP can tell."""
    content = json.dumps({"choices": choices(handler)}).encode()
    handler.send(200, content[: len(content) // 2])


def slow(handler: Handler) -> None:
    time.sleep(SLOW)
    answer(handler)


def silent(handler: Handler) -> None:
    """No answer until the client leaves."""
    handler.close_connection = True
    handler.server.waiting.release()
    ready, _, _ = select.select([handler.connection], [], [], 60)
    if ready and not handler.connection.recv(1):
        handler.server.left.release()


def written(content: bytes) -> Callable[[Handler], None]:
    """These bytes, which need not be HTTP."""
    def reply(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(content)

    return reply


def refusing(**messages: str) -> Callable[[Handler], None]:
    """Does not take these fields, and says so one at a time, as OpenAI does."""
    def reply(handler: Handler) -> None:
        for name, message in messages.items():
            if name in handler.body:
                return handler.reply(400, {"error": {"message": message}})
        return answer(handler)

    return reply


def few_places(most: int) -> Callable[[Handler], None]:
    """Refuses larger numbers of choices, as llama.cpp does."""
    return lambda h: (answer if h.body.get("n", 1) <= most else status(400, "n is too large"))(h)


def start(port: int = 0) -> Faulty:
    server = Faulty(port)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@contextmanager
def serving() -> Iterator[Faulty]:
    with start() as server:
        try:
            yield server
        finally:
            server.shutdown()
