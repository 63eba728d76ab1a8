"""A real server with a real small language model: llama.cpp's, from packages that bring both."""

from __future__ import annotations

import numpy as np
import pytest

from commands import run
from llama_server import IS_INSTALLED, REASON, llama_server
from minrisk.samplers.openai import Endpoint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* samples so far were cut"),
    pytest.mark.skipif(not IS_INSTALLED, reason=REASON),
]

WHOLE = '{"top_k": 0, "min_p": 0}'  # llama.cpp cuts the distribution unless told not to


@pytest.fixture(scope="module")
def endpoint():
    with llama_server() as url:
        yield url


def test_tokens_are_drawn_with_the_probabilities_that_the_server_tells(endpoint):
    model = Endpoint("smollm2", endpoint, api="completions", max_tokens=1, top_p=1.0, extra=WHOLE)
    n = 200
    [samples] = model.sample(["The sky is"], n)
    counts, logprobs = {}, {}
    for sample in samples:
        counts[sample.text] = counts.get(sample.text, 0) + 1
        logprobs[sample.text] = sample.logprob
    expected = {text: n * np.exp(logprob) for text, logprob in logprobs.items()}
    large = [text for text in counts if expected[text] > 5]
    assert len(large) > 3
    statistic = sum((counts[t] - expected[t]) ** 2 / expected[t] for t in large)
    assert statistic < len(large) + 5 * np.sqrt(2 * len(large)) + 5


def test_chats_are_repeatable(endpoint):
    """Each request has a seed of its own, and the server has four places for them."""
    chat = [[{"role": "user", "content": "Name one animal, and nothing else."}]]
    model = Endpoint("smollm2", endpoint, max_tokens=8, temperature=0.7, concurrency=1)
    [first], [again] = (model.sample(chat, 12, seed=1) for _ in range(2))
    assert len(first) == 12
    assert len({sample.text for sample in first}) > 4
    assert [sample.text for sample in again] == [sample.text for sample in first]
    assert all(sample.logprob < 0 for sample in first)


def test_the_command_translates_with_it(endpoint, tmp_path):
    (tmp_path / "in.txt").write_text("The cat sleeps.\nI like bread.\n")
    common = ["--endpoint", endpoint, "--model", "smollm2", "-n", "8", "--max-tokens", "24",
              "--prompt", "Translate into French: {source}", "--temperature", "0.7"]
    samples = run("sample", tmp_path / "in.txt", *common)
    assert samples.code == 0
    assert [sum(record["counts"]) for record in samples.records] == [8, 8]
    assert all(len(record["logprobs"]) == len(record["samples"]) for record in samples.records)
    result = run("translate", tmp_path / "in.txt", *common)
    assert result.code == 0
    assert all(len(line) > 3 for line in result.out.splitlines())
