"""Votes are stopped when they are decided, and stragglers are cancelled."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

import minrisk
from commands import PATIENCE
from mbr_server import serving, settings
from minrisk._core.vote import Vote
from minrisk.metrics.votes.symbolic import Symbolic
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.responses import Choice
from minrisk.server.choosing import Votes
from minrisk.server.sampling import SampleCollector
from upstream import failing, held, mock_upstream, plain


def stragglers(upstream, first):
    """All but the first answers are held."""
    plain, seen = upstream.answer, iter(range(10**6))

    async def answer(own, body):
        return await (plain if next(seen) < first else held)(own, body)

    upstream.answer = answer


def test_stragglers_of_a_decided_vote_are_cancelled():
    with (mock_upstream("yes") as own,
          serving(own.url, settings("exact-match", 5), per_request=1) as server):
        stragglers(own, 3)  # of a wave of 4
        own_reply = server.chat()
        assert own_reply.text == "yes"
        assert own_reply.body["minrisk"]["samples"] == 3
        assert own.left.acquire(timeout=60)
    assert server.requests[0]["cancelled"] == 2


def test_a_vote_ends_early_also_where_one_request_could_have_all_samples():
    with mock_upstream("it is 7", "7") as own, serving(
            own.url, settings(minrisk.ExactMatch(r"\d+"), 16)) as server:
        found = server.chat().body["minrisk"]
        assert server.chat(minrisk={"samples": 64}).body["minrisk"]["samples"] == 9
    assert (found["samples"], found["requested"]) == (9, 16)
    assert [body["n"] for body in own.bodies] == [9, 9]


def test_a_vote_that_is_not_decided_has_all_samples():
    with mock_upstream("yes", "no") as own, serving(
            own.url, settings("exact-match", 18)) as server:
        assert server.chat().body["minrisk"]["samples"] == 18
    assert sum(body["n"] for body in own.bodies) == 18


def test_a_vote_asks_an_upstream_that_fails_for_no_further_wave():
    with mock_upstream("yes") as own, serving(
            own.url, settings("exact-match", 16), retries=0) as server:
        own.answer = failing(500)
        assert server.chat().status == 502
    assert len(own.bodies) == 1


def test_many_equal_answers_end_a_long_vote():
    async def answer(own, body):
        await asyncio.sleep(0.05)  # answers that come at once are not all counted in time
        return await plain(own, body)

    chosen = settings("json-match", 64)
    with (mock_upstream('{"a": 1}', '{"a": 1.0}') as own,
          serving(own.url, chosen, per_request=1, concurrency=1) as server):
        own.answer = answer
        found = server.chat().body["minrisk"]
    assert 9 <= found["samples"] < 64
    assert found["requested"] == 64


def test_samples_that_come_while_others_are_counted_are_counted_together():
    counted = []

    async def main():
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def find(choices, earlier):
            counted.append(len(choices))
            begun.set()
            await go_on.wait()
            return Votes([choice.text for choice in choices])

        collector = SampleCollector(SimpleNamespace(samples=64), Vote(0.05), find)
        for _ in range(12):
            collector.report(CompletionResponse([Choice({}, "yes")], None), 1)
            await begun.wait()
        go_on.set()
        await collector.stop

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert counted == [1, 11]


def test_many_votes_that_are_not_counted_yet_end_with_the_request():
    """Answers that come faster than they are counted: those of one part take for ever."""
    with (mock_upstream("a" * 40 + "!") as own, serving(own.url, settings(
            minrisk.ExactMatch(pattern="(?:a+)+$"), 64, choosing_deadline=0.2),
            per_request=1) as server):
        assert server.chat().status == 504


def test_a_vote_on_equal_values_is_stopped_however_they_are_written():
    pytest.importorskip("math_verify")
    with (mock_upstream(r"\boxed{1/2}", "it is 0.5", r"\boxed{\frac{1}{2}}") as own,
          serving(own.url, settings("symbolic", 32), per_request=1) as server):
        stragglers(own, 9)
        reply = server.chat()
        assert reply.status == 200
        assert reply.body["minrisk"]["samples"] == 9
    assert server.requests[0]["cancelled"] == 32 - 9


def test_a_vote_whose_answers_cannot_be_counted_has_all_samples(monkeypatch):
    def failing(self, text, others):
        raise minrisk.InputError("the judge has left")

    pytest.importorskip("math_verify")
    monkeypatch.setattr(Symbolic, "equal_answers", failing)
    with (mock_upstream("1/2", "1/2", "3", "5", "7", "9") as own,
          serving(own.url, settings("symbolic", 6), per_request=1) as server):
        reply = server.chat()
    assert (reply.status, reply.body["minrisk"]["samples"]) == (200, 6)


def test_graded_utilities_are_never_stopped():
    with mock_upstream("yes") as own, serving(own.url, settings("chrf", 16),
                                              per_request=1) as server:
        assert server.chat().body["minrisk"]["samples"] == 16


def test_the_operator_may_want_all_samples():
    with (mock_upstream("yes") as own, serving(
            own.url, settings("exact-match", 16, stop_error=None), per_request=1) as server):
        assert server.chat().body["minrisk"]["samples"] == 16


def test_a_client_that_wants_several_choices_gets_all_samples():
    with mock_upstream("yes", "no") as own, serving(own.url, settings("exact-match", 16),
                                                    per_request=1) as server:
        assert server.chat(n=2).body["minrisk"]["samples"] == 16
