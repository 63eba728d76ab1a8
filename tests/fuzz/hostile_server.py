"""A server on this machine that sends any bytes whatsoever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """The bytes that a request gets; after them the connection is closed, or left as it is."""

    content: bytes
    closes: bool = True


class HostileServer:
    """Answers every request with the next of its replies; the last one is for all that follow."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._replies: Sequence[Reply] = ()
        self._open: set[socket.socket] = set()
        self._served = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    @contextmanager
    def replying(self, replies: Sequence[Reply]) -> Iterator[None]:
        self._replies, self._served = replies, 0
        try:
            yield
        finally:
            with self._lock:
                for connection in self._open:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # which wakes who accepts
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        with connection, suppress(OSError):
            while _read_request(connection):
                reply = self._next()
                connection.sendall(reply.content)
                if reply.closes:
                    break
        with self._lock:
            self._open.discard(connection)

    def _next(self) -> Reply:
        with self._lock:
            number = min(self._served, len(self._replies) - 1)
            self._served += 1
        return self._replies[number]


def _read_request(connection: socket.socket) -> bool:
    """Whether there was one; its headers say how long it is."""
    content = b""
    while b"\r\n\r\n" not in content:
        more = connection.recv(1 << 16)
        if not more:
            return False
        content += more
    head, _, body = content.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < size:
        more = connection.recv(1 << 16)
        if not more:
            return False
        body += more
    return True
