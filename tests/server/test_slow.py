"""Clients and upstreams that are slow on purpose: none keeps a connection or a place for ever."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from commands import PATIENCE, wait_for
from mbr_server import serving, settings
from upstream import mock_upstream


@pytest.fixture
def upstream():
    with mock_upstream("the cat sat") as found:
        yield found


@contextmanager
def connected(server):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
        yield connection


def closed(connection):
    """Whether the other side closes; what it sends before is dropped."""
    with suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass
    return True


def trickle(connection, content, gone):
    """Send a byte at a time, again and again, until nobody takes them."""
    with suppress(OSError):
        while not gone.wait(0.02):
            connection.sendall(content)


@contextmanager
def trickling(connection, content):
    gone = threading.Event()
    thread = threading.Thread(target=trickle, args=(connection, content, gone))
    thread.start()
    try:
        yield
    finally:
        gone.set()
        thread.join(PATIENCE)


def test_headers_that_never_end_are_cut_off(upstream):
    """Signs of life do not help: the whole request must come in time."""
    with serving(upstream.url, first_request=0.3) as server, connected(server) as slow:
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        with trickling(slow, b"x"):
            assert closed(slow)
        assert server.chat().status == 200
    assert len(upstream.bodies) == 1


def test_a_body_that_comes_byte_by_byte_is_refused(upstream):
    with serving(upstream.url, settings(body_timeout=0.3)) as server, connected(server) as slow:
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
        with trickling(slow, b" "):
            assert slow.recv(12) == b"HTTP/1.1 408"
    assert not upstream.bodies


def test_headers_that_never_end_are_cut_off_on_a_connection_that_was_used_too(upstream):
    with serving(upstream.url, keep_alive=0.3) as server, connected(server) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(12) == b"HTTP/1.1 200"
        slow.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        with trickling(slow, b"x"):
            assert closed(slow)


def test_many_silent_connections_keep_nobody_out(upstream):
    with serving(upstream.url, first_request=PATIENCE) as server, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connected(server))
        wait_for(lambda: len(server.server.silent) >= 200)
        assert server.chat().status == 200


@contextmanager
def deaf_server():
    """The address of a server that takes no connection: its queue of them is full."""
    with socket.socket() as listening, ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        for _ in range(64):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(0.3)
            try:
                connection.connect(address)
            except TimeoutError:
                break
        else:
            pytest.skip("this system takes connections without a limit")
        yield f"http://127.0.0.1:{address[1]}/v1"


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_takes_no_connection_is_given_up(stream):
    with deaf_server() as url, serving(url, connect=0.3) as server:
        for fields in ({}, {"temperature": 0}):
            reply = server.chat(stream=stream, **fields)
            assert (reply.status, reply.body["error"]["code"]) == (502, "upstream_unavailable")
            assert reply.headers["x-should-retry"] == "false"
        assert "minrisk_drawing 0" in server.call("/metrics").raw.decode()


def test_the_deadline_counts_while_there_is_no_connection():
    with deaf_server() as url, serving(url, settings(deadline=0.3), connect=PATIENCE) as server:
        reply = server.chat()
    assert (reply.status, reply.body["error"]["code"]) == (504, "deadline")
