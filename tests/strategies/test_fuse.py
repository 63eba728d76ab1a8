"""Answers that a judge writes from all samples: kept only if the samples agree with them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import minrisk
import openai_server
from commands import run
from mbr_server import serving, settings
from minrisk.metrics.judge.templates import marked
from openai_server import altered
from upstream import mock_upstream

SAMPLES = ["the cat sat there", "a cat sat down", "the cat was down"]
FUSED = "the cat sat down"
VOTE = minrisk.ExactMatch(r"\d+")


@pytest.fixture
def server():
    with openai_server.serving() as found:
        found.usage = True
        yield found


def writes(server, text, reason="stop"):
    server.always = altered({"message": {"content": text}, "finish_reason": reason})
    return minrisk.Judge("m", server.endpoint)


def test_one_request_shows_all_samples_and_the_source(server):
    writer = writes(server, FUSED)
    ranking = minrisk.decode(SAMPLES, source="Where?", counts=[2, 2, 2],
                             strategy=minrisk.Fuse("chrf", writer))
    assert (ranking.text, ranking.proposal.text) == (FUSED, FUSED)
    assert ranking.proposal.utility >= ranking.proposal.best
    [body] = server.bodies
    [message] = body["messages"]
    assert all(marked(text) in message["content"] for text in ("Where?", *SAMPLES))
    assert "6 responses" in message["content"]
    assert body["max_tokens"] == 1024
    assert not body.keys() & {"grammar", "logprobs"}


@pytest.mark.parametrize(("text", "reason"), [
    ("dogs and cows", "stop"), (FUSED, "length"), ("", "stop"), (SAMPLES[1], "stop")])
def test_otherwise_the_best_sample_is_the_answer(server, text, reason):
    strategy = minrisk.Fuse("chrf", writes(server, text, reason))
    ranking = minrisk.decode(SAMPLES, source="Where?", strategy=strategy)
    assert ranking.text == minrisk.decode(SAMPLES).text
    assert ranking.proposal.reason


@pytest.mark.parametrize(("text", "kept"), [("It must be 7.", True), ("It must be 8.", False)])
def test_in_a_vote_it_needs_the_answer_of_the_majority(server, text, kept):
    strategy = minrisk.Fuse(VOTE, writes(server, text))
    [result] = minrisk.decode_corpus([{"samples": ["7", "so 7", "8"], "source": "?"}],
                                     strategy=strategy, confidence=True)
    assert (result.text == text) == result.proposal.is_kept == kept
    assert result.answer == "7"
    assert result.confidence.share == pytest.approx(2 / 3)
    assert result.details["judge_usage"]["requests"] == 1


def test_only_what_writes_can_be_the_writer():
    with pytest.raises(minrisk.InputError, match="judge"):
        minrisk.Fuse("chrf", "chrf")


def test_commands_name_the_writer_and_its_options(server, tmp_path):
    writes(server, FUSED)
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"samples": SAMPLES, "source": "Where?"}) + "\n")
    done = run("decode", path, "--strategy", "fuse", "--writer", "judge", "--writer.model", "m",
               "--writer.endpoint", server.endpoint, "--writer.fusion-tokens", 9,
               "--writer.fusion-prompt", "{count}: {candidates}")
    line = json.loads(done.out)
    assert (line["text"], line["index"]) == (FUSED, None)
    assert server.bodies[0]["max_tokens"] == 9
    assert server.bodies[0]["messages"][0]["content"].startswith("3: Response 1")


def test_answers_are_fused_while_they_are_drawn(server):
    writer = writes(server, FUSED)
    found = minrisk.answer("Where?", 3, sampler=lambda prompt, n: SAMPLES,
                           strategy=minrisk.Fuse("chrf", writer))
    assert found.text == FUSED


def test_a_server_gives_the_fused_answer(server):
    chosen = settings()
    preset = replace(chosen.preset, strategy=minrisk.Fuse("chrf", writes(server, FUSED)))
    with mock_upstream(*SAMPLES) as upstream, serving(
            upstream.url, replace(chosen, preset=preset)) as own:
        reply = own.chat(minrisk={"samples": 3})
    assert reply.text == FUSED
    assert reply.body["minrisk"]["proposal"]["kept"]
