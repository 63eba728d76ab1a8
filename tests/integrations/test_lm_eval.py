"""A filter that keeps the consensus, with lm-evaluation-harness and a server on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("lm_eval", reason="needs the extra minrisk[lm-eval]")

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import minrisk
from minrisk.integrations.lm_eval import ConsensusFilter
from project import blocks
from upstream import mock_upstream


def test_a_task_distils_repeats_to_one(tmp_path, monkeypatch):
    """The task of the guide."""
    [task] = blocks("docs/guides/integrations.md", "yaml")
    monkeypatch.chdir(tmp_path)
    Path("sums.yaml").write_text(task, encoding="utf-8")
    Path("sums.jsonl").write_text('{"question": "2 + 2?", "answer": "4"}\n', encoding="utf-8")
    with mock_upstream("5", "It is 4.", "The answer is 4", "6") as upstream:
        found = simple_evaluate(
            "local-chat-completions", model_args={
                "model": "m", "base_url": f"{upstream.url}/chat/completions",
                "tokenizer_backend": None, "num_concurrent": 1, "max_retries": 1},
            tasks=["sums"], apply_chat_template=True, bootstrap_iters=0,
            task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False))
    assert len(upstream.bodies) == 8
    scores = found["results"]["sums"]
    assert (scores["exact_match,first"], scores["exact_match,vote"]) == (0.0, 1.0)
    [line] = Path("choices.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["votes"] == {"4": 0.5, "5": 0.25, "6": 0.25}


def test_many_documents_with_their_sources():
    found = ConsensusFilter(source="question").apply(
        [["a b", "a", "c"], ["x", "x", "y"]], [{"question": "1"}, {"question": "2"}])
    assert found == [["a b"], ["x"]]
    assert ConsensusFilter("exact-match", abstain=0.9).apply([["a", "b"]], [{}]) == [[""]]


@pytest.mark.parametrize(("named", "responses"), [
    ("questoin", [["a", "b"]]), ("take_first", ["one text"])])
def test_what_cannot_be_compared_is_an_error_that_names_it(named, responses):
    with pytest.raises(minrisk.InputError, match=named):
        ConsensusFilter(source="questoin").apply(iter(responses), [{"question": "x"}])


def test_wrong_names_are_an_error():
    with pytest.raises(minrisk.InputError, match="standart"):
        ConsensusFilter(strategy="standart")
