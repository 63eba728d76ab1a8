"""The inspector's page of a server's requests: at `GET /`, and of its records."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from commands import PATIENCE, run, spawn, wait_for
from mbr_server import Running, serving, settings
from minrisk._core.decoding import make_strategy
from minrisk.io.weighting import Weighting
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.plugins import Metric
from minrisk.server import monitoring
from minrisk.server.executor import RankingExecutor
from minrisk.server.http import Keys
from minrisk.server.settings import Preset, Settings
from report_pages import page_data
from upstream import failing, mock_upstream

SAMPLES = ["the cat sat on it", "a cat sat on it", "the cat sat on it", "no idea"]


@pytest.fixture
def upstream():
    with mock_upstream(*SAMPLES) as found:
        yield found


def shown(server, **headers):
    """The page at /, as data, and the line with the state."""
    reply = server.call("/", **headers)
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    found = page_data(reply.raw.decode())
    return found, found.index["note"]


def assert_agrees(found, row, reply):
    """A row of a page says what the client was told."""
    told = reply.body["minrisk"]
    assert found.column("id")[row] == reply.headers["x-request-id"]
    assert found.column("text")[row] == reply.text
    assert (found.column("samples")[row], found.column("distinct")[row]) == (
        told["samples"], told["distinct"])
    np.testing.assert_allclose(found.column("utility")[row], told["utility"], rtol=1e-4)
    for name in ("entropy", "largest", "clusters"):
        np.testing.assert_allclose(found.column(name)[row], told["uncertainty"][name], rtol=1e-4)


def test_the_page_shows_the_last_requests_where_the_operator_allows_it(upstream):
    with serving(upstream.url) as server:
        assert server.call("/").status == 404
    with serving(upstream.url, settings(show_page=True, uncertainty=True)) as server:
        assert shown(server)[0].index["columns"]["id"] == []
        replies = [server.chat(f"question {number}") for number in range(3)]
        found, note = shown(server)
    for row, reply in enumerate(reversed(replies)):
        assert_agrees(found, row, reply)
    assert found.column("source") == ["question 2", "question 1", "question 0"]
    assert note == "ready: yes · in flight: 0 · queued: 0 · samples at once: 0"


def test_the_page_counts_requests_that_failed(upstream):
    with serving(upstream.url, settings(show_page=True)) as server:
        server.chat(minrisk={"samples": 99})
        upstream.answer = failing(500)
        server.chat()
        server.chat()
        wait_for(lambda: len(server.log) == 3)
        found, _ = shown(server)
    assert found.column("error") == ["502 upstream_error"] * 2 + ["400 Bad Request"]
    assert all(request["seconds"]["request"] >= 0 for request in found.column("request"))


def test_the_page_has_time_model_tokens_latency_and_finish_reason(upstream):
    with serving(upstream.url, settings(show_page=True)) as server:
        reply = server.chat()
        [request] = shown(server)[0].column("request")
    usage = reply.body["usage"]
    assert (request["model"], request["finish_reason"]) == ("m", "stop")
    assert [request[name] for name in ("prompt_tokens", "completion_tokens")] == [
        usage["prompt_tokens"], usage["completion_tokens"]]
    assert datetime.fromisoformat(request["time"]).tzinfo is not None
    steps = request["seconds"]
    assert steps["request"] >= steps["sampling"]
    assert "passed_through" not in request


@pytest.mark.parametrize("metric", ["chrf", ExactMatch(r"\d+")])
def test_requests_that_were_passed_through_have_no_confidence(upstream, metric, tmp_path):
    record = tmp_path / "record.jsonl"
    with serving(upstream.url, settings(metric, show_page=True), record=record) as server:
        replies = [server.chat(temperature=0, n=2), server.chat(minrisk={"samples": 1})]
        found, _ = shown(server)
    run("inspect", record, "-o", tmp_path / "page.html", "-q")
    recorded = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    for data, rows in ((found, replies[::-1]), (recorded, replies)):
        assert data.column("text") == [reply.text for reply in rows]
        assert [request["passed_through"] for request in data.column("request")] == [True, True]
        for name in ("confidence", "utility", "largest", "answer"):
            assert data.column(name) == [None, None]
        assert data.index["words"]["unit"] == "request"


def test_truncated_and_empty_samples_are_dissent_on_the_page_as_in_the_answer(tmp_path):
    texts, path = ["it is 7", "it is 7", "so 7", "", "what?"], tmp_path / "record.jsonl"
    chosen = settings(ExactMatch(r"\d+"), 5, uncertainty=True, show_page=True, stop_error=None)
    with mock_upstream(*texts) as own, serving(own.url, chosen, record=path) as server:
        own.finish_reasons = iter(["stop", "stop", "length", "stop", "stop"])
        reply = server.chat()
        found, _ = shown(server)
    run("inspect", path, "--metric", "exact-match", "--metric.pattern", r"\d+", "-o",
        tmp_path / "page.html", "-q")
    told = reply.body["minrisk"]
    [decoded] = run("decode", path, "--metric", "exact-match", "--metric.pattern", r"\d+",
                    "--uncertainty").records
    assert decoded["votes"] == pytest.approx(told["votes"])
    assert decoded["uncertainty"] == pytest.approx(told["uncertainty"])
    for data in (found, page_data((tmp_path / "page.html").read_text(encoding="utf-8"))):
        assert data.column("samples") == [told["samples"]] == [5]
        assert (data.column("text"), data.column("answer")) == ([reply.text], [told["answer"]])
        details = data.details[0]
        [(answer, share, count)] = details["votes"]
        assert ({answer}, count) == (told["votes"].keys(), 2)
        np.testing.assert_allclose(share, told["votes"][answer], rtol=1e-4)
        for name in ("largest", "unanswered", "entropy"):
            shown_value = data.column(name)[0]
            np.testing.assert_allclose(shown_value, told["uncertainty"][name], rtol=1e-4)
        np.testing.assert_allclose(data.column("confidence")[0], told["confidence"], rtol=1e-4)
        assert sorted(map(tuple, details["others"])) == [("", 1, "stop"), ("so 7", 1, "length")]
        assert data.column("truncated") == [1]


def call(city):
    function = {"name": "weather", "arguments": json.dumps({"unit": "C", "city": city})}
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def test_calls_of_tools_are_votes_on_the_page_as_in_the_answer():
    chosen = settings(samples=4, uncertainty=True, show_page=True)
    with (mock_upstream(call("Paris"), call("Paris"), call("London"), "It is warm") as own,
          serving(own.url, chosen) as server):
        told = server.chat().body["minrisk"]
        found, _ = shown(server)
    votes = {answer: share for answer, share, _ in found.details[0]["votes"]}
    assert votes == told["votes"]
    for name in ("largest", "unanswered"):
        np.testing.assert_allclose(found.column(name)[0], told["uncertainty"][name], rtol=1e-4)


def test_an_abstention_is_one_request_and_no_failure():
    with (mock_upstream("it is 7", "or 8", "9") as own, serving(own.url, settings(
            ExactMatch(r"\d+"), 3, show_page=True, abstain=0.9, abstain_as="error")) as server):
        assert server.chat().status == 422
        found, _ = shown(server)
    assert found.column("error") == [None]
    assert found.column("request")[0]["abstained"] is True


def test_the_page_has_a_bounded_number_of_requests_and_of_characters(upstream, monkeypatch):
    monkeypatch.setattr(monitoring, "_MAX_REQUESTS", 2)
    with serving(upstream.url, settings(show_page=True)) as server:
        for number in range(4):
            server.chat(f"question {number}")
        assert shown(server)[0].column("source") == ["question 3", "question 2"]
        monkeypatch.setattr(monitoring, "_MAX_SIZE", 3000)
        server.chat("short")
        server.chat("x" * 1000)
        assert shown(server)[0].column("source") == ["x" * 1000]
        server.chat("y" * 2000)
        assert shown(server)[0].column("source") == []


def test_answers_of_other_methods_are_counted(upstream):
    careful = Preset("m", 3, make_strategy("standard", "bleu"))
    with serving(upstream.url, settings(show_page=True, aliases={"careful": careful})) as server:
        server.chat()
        server.chat(model="careful")
        found, note = shown(server)
    assert (found.index["metric"], found.column("samples")) == ("bleu", [3])
    assert note.endswith("answers by other methods: 1")


def test_samples_weigh_on_the_page_as_they_weighed_for_the_answer():
    chosen = settings(show_page=True, weighting=Weighting("logprobs"))
    with (mock_upstream("a very long sample text", "b", "a very long sample") as own,
          serving(own.url, chosen) as server):
        reply = server.chat()
        found, _ = shown(server)
    assert found.column("text") == [reply.text] == ["b"]
    np.testing.assert_allclose(found.column("utility"), reply.body["minrisk"]["utility"], rtol=1e-4)


def test_the_page_shows_answers_that_were_chosen_by_their_log_probability():
    preset = Preset(None, 4, make_strategy("standard", metric="logprob"))
    with (mock_upstream("a long sample text", "a short one") as own,
          serving(own.url, Settings(preset, show_page=True)) as server):
        reply = server.chat()
        found, _ = shown(server)
    assert found.column("text") == [reply.text] == ["a short one"]
    np.testing.assert_allclose(found.column("utility"), reply.body["minrisk"]["utility"], rtol=1e-4)
    assert found.details[0]["matrix"] == []


def test_hostile_texts_are_data_of_the_page(upstream):
    hostile = "</script><script>alert(1)</script>"
    with (mock_upstream(hostile) as own,
          serving(own.url, settings(show_page=True)) as server):
        server.chat(hostile, model="<b>")
        html = server.call("/").raw.decode()
        headers = server.call("/").headers
    assert "alert(1)" not in html
    assert "<b>" not in html
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"] == "frame-ancestors 'none'"


def test_a_browser_gives_a_key_as_its_password(upstream):
    def password(user, key):
        return {"Authorization": "Basic " + b64encode(f"{user}:{key}".encode()).decode()}

    with serving(upstream.url, settings(show_page=True, keys=Keys(["one-key"]))) as server:
        reply = server.call("/")
        assert (reply.status, reply.headers["WWW-Authenticate"][:5]) == (401, "Basic")
        shown(server, **password("me", "one-key"))
        shown(server, Authorization="Bearer one-key")
        for headers in (password("one-key", ""), password("me", "wrong"),
                        {"Authorization": "Basic %"}, {"Authorization": "Basic /w=="}):
            assert server.call("/", **headers).status == 401
        assert server.call("/v1/models", **password("me", "one-key")).status == 401


@dataclass(frozen=True)
class Held(Metric):
    """A metric with a model, which is held until somebody lets it go."""

    name: ClassVar[str] = "held"
    loads_model: ClassVar[bool] = True
    begun: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()

    def features(self, texts):
        self.begun.set()
        assert self.released.wait(PATIENCE)
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs)


def test_a_page_waits_for_the_batch_that_uses_the_model():
    strategy, order = minrisk.Standard(Held()), []

    async def main():
        executor = RankingExecutor(2)
        segment = minrisk.Segment(["a", "b"])
        ranking = asyncio.create_task(executor.rank(strategy, segment))
        ranking.add_done_callback(lambda _: order.append("ranking"))
        await asyncio.to_thread(Held.begun.wait, PATIENCE)
        work = asyncio.create_task(executor.run_with(strategy, lambda _: order.append("page")))
        await executor.rank(make_strategy("standard", "chrf"), segment)
        order.append("light")
        Held.released.set()
        await asyncio.gather(ranking, work)
        await executor.close()

    asyncio.run(main())
    assert order[0] == "light"
    assert set(order[1:]) == {"ranking", "page"}


def test_records_of_a_server_can_be_inspected(upstream, tmp_path):
    """From the command to the page: what clients were told is what the page shows."""
    path, report = tmp_path / "record.jsonl", tmp_path / "report.html"
    process = spawn("serve", "--port", 0, "--upstream", upstream.url, "--samples", 4,
                    "--uncertainty", "--record", path)
    with process:
        line = next(line for line in process.stderr if b"serving at" in line)
        server = Running(line.split()[-1].decode().removesuffix("/v1"), None)
        replies = [server.chat(f"question {number}") for number in range(3)]
        parts = [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]
        replies.append(server.call("/v1/chat/completions", {
            "model": "m", "messages": [{"role": "user", "content": parts}]}))
        streamed = server.chat("streamed", stream=True)
        passed = server.chat("passed through", temperature=0)
        process.terminate()
    done = run("inspect", path, "-o", report, "-q")
    assert (done.code, done.err) == (0, "")
    found = page_data(report.read_text(encoding="utf-8"))
    for row, reply in enumerate(replies):
        assert_agrees(found, row, reply)
    assert found.column("source") == ["question 0", "question 1", "question 2", "in parts",
                                      "streamed", "passed through"]
    last = streamed.events[-2]["minrisk"]
    np.testing.assert_allclose(found.column("utility")[4], last["utility"], rtol=1e-4)
    assert (found.column("text")[5], found.column("samples")[5]) == (passed.text, 1)
    assert found.index["signature"].split("|weights")[0] in json.dumps(last["signature"])
    assert found.details[0]["counts"][0] == 2
