"""`serve --workers`: several processes are one server."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import signal
import socket
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from commands import PATIENCE, run, wait_for
from mbr_server import started
from minrisk.server.processes import SharedLoad
from minrisk.server.responses import ApiError
from minrisk.server.sampling import SampleLimit
from report_pages import page_data
from upstream import mock_upstream

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"),
                                reason="needs fork and SO_REUSEPORT")
ASKED = 24


@contextmanager
def several(*args):
    """`minrisk serve --workers 2` before a mock upstream, and its address."""
    with mock_upstream("a b", "a b c") as upstream:
        process, url = started("--upstream", upstream.url, "--samples", 3, "--workers", 2,
                               "--grace", 0.5, *args)
        with process:
            try:
                yield process, url
            finally:
                process.terminate()


def call(url, path, body=None):
    """A request on a connection of its own, of which each may come to another process."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return response.read().decode()


def ask(url):
    messages = [{"role": "user", "content": "x"}]
    return call(url, "/v1/chat/completions", {"model": "m", "messages": messages})


def answered(url):
    """The number of answers by the metrics of whichever process tells them."""
    found = re.findall(r'minrisk_requests_total\{.*status="200".*\} (\d+)', call(url, "/metrics"))
    return sum(map(int, found))


def saved_answers(folder):
    """The number of answers that the processes have saved for those that may replace them."""
    return sum(total for path in Path(folder).glob("minrisk-*/*.json")
               for labels, total in json.loads(path.read_text())["minrisk_requests_total"]
               if "200" in labels)


def is_alive(process):
    """Whether a process runs; one that has ended and waits for its parent has no command line."""
    with suppress(OSError):
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    return False


def children(process):
    path = Path(f"/proc/{process}/task/{process}/children")
    if not path.exists():
        pytest.skip("needs /proc with the children of a process")
    return [int(child) for child in path.read_text().split()]


def test_processes_sum_their_metrics_and_share_record_and_page(tmp_path):
    record = tmp_path / "record.jsonl"
    with several("--record", record, "--page") as (process, url), ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ask(url), range(ASKED)))
        assert [answered(url) for _ in range(6)] == [ASKED] * 6
        ids = [json.loads(line)["id"] for line in record.read_text().splitlines()]
        assert len(set(ids)) == ASKED
        assert set(page_data(call(url, "/")).column("id")) == set(ids)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_process_that_dies_is_started_again(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket must be short
        monkeypatch.setenv("TMPDIR", folder)
        one_dies_and_comes_back(folder)


def one_dies_and_comes_back(folder):
    with several() as (process, url):
        first, second = children(process.pid)
        for _ in range(8):
            ask(url)
        wait_for(lambda: saved_answers(folder) == 8)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: not is_alive(first))
        asked = 8
        while len(set(children(process.pid)) - {first}) < 2 or asked < 16:
            with suppress(ConnectionError):  # to a process that is just ending
                ask(url)  # the other one answers until the new one is ready
                asked += 1
        wait_for(lambda: answered(url) == asked)  # those of the dead process are not lost
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert b"SIGKILL" in process.stderr.read()
        assert not any(map(is_alive, (first, second)))


def test_processes_end_with_the_first_one():
    with several() as (process, _):
        others = children(process.pid)
        process.kill()
        wait_for(lambda: not any(map(is_alive, others)))


def test_limits_are_shared():
    """Both processes are in this one here."""
    counts = [copy.copy(SharedLoad(2))]
    counts.append(copy.copy(counts[0]))
    for number, own in enumerate(counts):
        own.of_process(number)

    async def main():
        one, other = (SampleLimit(4, 1, own) for own in counts)
        async with one.hold(3):
            with other.admission() as admission:
                held = admission.hold(2)
                waiting = asyncio.ensure_future(held.__aenter__())
                await asyncio.sleep(0.02)
                assert not waiting.done()
                assert (one.in_use, one.requests_waiting) == (3, 1)
                async with one.hold(1):
                    with pytest.raises(ApiError) as raised, one.admission():
                        pass
                    assert raised.value.status == 429
        await asyncio.wait_for(waiting, PATIENCE)
        assert (one.in_use, one.requests_waiting) == (2, 0)
        counts[1].of_process(1)  # it has died and was started again
        assert one.in_use == 0

    asyncio.run(main())


def test_a_system_without_shared_ports_is_told(monkeypatch):
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    found = run("serve", "--upstream", "http://127.0.0.1:1/v1", "--workers", 2)
    assert found.code == 2
    assert "--workers" in found.err
