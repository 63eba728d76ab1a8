"""What judges cost: in the answer, in the metrics, in the log and in the record."""

from __future__ import annotations

import asyncio
import threading

import pytest

import minrisk
from commands import PATIENCE, read, wait_for
from mbr_server import serving, settings
from minrisk.metrics.judge.answers import answer_cache
from minrisk.server.executor import RankingExecutor
from openai_server import altered, likeness, scoring
from upstream import mock_upstream

TEXTS = ["the cat sat", "a cat sat", "the cat sat", "dogs bark"]
# nine pairs of three distinct texts, each request with 5 tokens of prompt and 3 of completion
JUDGED = {"requests": 9, "prompt_tokens": 45, "completion_tokens": 27}
SAMPLED = {"prompt_tokens": 7, "completion_tokens": 12, "total_tokens": 19,
           "completion_tokens_details": {"reasoning_tokens": 4}}


@pytest.fixture(autouse=True)
def empty_cache():
    """Another server may have had the same port."""
    answer_cache.cache_clear()


@pytest.fixture
def judge(server):
    server.always = scoring(likeness)
    return minrisk.Judge("m", server.endpoint, retries=0, logprobs=False)


def values(metrics: str) -> dict[str, float]:
    return {name: float(value) for name, _, value in
            (line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#"))}


def test_usage_includes_that_of_judges_which_is_also_by_itself(judge, tmp_path):
    record = tmp_path / "record.jsonl"
    with (mock_upstream(*TEXTS) as own,
          serving(own.url, settings(judge), record=record) as server):
        body = server.chat().body
        metrics = values(server.call("/metrics").raw.decode())
    assert body["minrisk"]["judge_usage"] == JUDGED
    assert body["usage"] == SAMPLED | {"prompt_tokens": 52, "completion_tokens": 39,
                                       "total_tokens": 91}
    assert metrics["minrisk_judge_requests_total"] == 9
    assert metrics['minrisk_judge_tokens_total{kind="prompt"}'] == 45
    assert metrics['minrisk_judge_tokens_total{kind="completion"}'] == 27
    assert metrics['minrisk_tokens_total{kind="prompt"}'] == 7  # the upstream's
    [logged], [recorded] = server.requests, read(record.read_text())
    assert (logged["prompt_tokens"], logged["judge_usage"]) == (52, JUDGED)
    assert (recorded["usage"], recorded["judge_usage"]) == (SAMPLED, JUDGED)


def test_a_judge_whose_answers_are_cached_uses_nothing(judge):
    with mock_upstream(*TEXTS) as own, serving(own.url, settings(judge)) as server:
        server.chat()
        again = server.chat().body
    assert "judge_usage" not in again["minrisk"]
    assert again["usage"] == SAMPLED


def test_usage_is_left_out_where_a_judge_does_not_tell(judge, server):
    server.always = lambda h: h.reply(200, {"choices": [{"message": {"content": "4"}}]})
    with mock_upstream(*TEXTS) as own, serving(own.url, settings(judge)) as running:
        body = running.chat().body
    assert "usage" not in body
    assert body["minrisk"]["judge_usage"] == {"requests": 9}


def test_a_ranking_of_given_candidates_has_the_usage_of_its_judge(judge):
    with mock_upstream("x") as own, serving(own.url, settings(judge)) as server:
        ranked = server.call("/v1/rank", {"candidates": TEXTS, "source": "what?"}).body
    assert ranked["minrisk"]["judge_usage"] == JUDGED
    assert server.requests[0]["judge_usage"] == JUDGED


def test_judges_are_counted_where_no_choice_can_be_made(judge, server):
    server.always = altered({"message": {"content": "no score"}})
    with mock_upstream(*TEXTS) as own, serving(own.url, settings(judge)) as running:
        assert running.chat().status == 500
        failed = values(running.call("/metrics").raw.decode())["minrisk_judge_requests_total"]
        assert failed >= 1
        server.always = scoring(likeness)
        body = running.chat("another question").body
        assert body["minrisk"]["judge_usage"] == JUDGED
        counted = values(running.call("/metrics").raw.decode())["minrisk_judge_requests_total"]
        assert counted == failed + 9


def test_judges_are_counted_for_clients_that_left(judge, server):
    begun, released, counted = threading.Event(), threading.Event(), []

    def held(handler):
        begun.set()
        assert released.wait(PATIENCE)
        scoring(likeness)(handler)

    async def main():
        executor = RankingExecutor(1, counted.append)
        ranking = asyncio.create_task(executor.rank(
            minrisk.Standard(judge), minrisk.Segment(TEXTS, source="what?")))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        ranking.cancel()
        await asyncio.gather(ranking, return_exceptions=True)
        released.set()
        await executor.close()

    server.always = held
    asyncio.run(main())
    wait_for(lambda: counted)
    [spent] = counted
    assert 1 <= spent["requests"] < JUDGED["requests"]  # the others were cancelled
