"""Samples of several models in one pool: names, numbers, weights, and servers that fail."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run
from minrisk._core.sampler import PartialError
from minrisk.openai.upstreams import parse_upstreams, ranges, split
from openai_server import refusing_prompt, serving, status

KEYS = {"FIRST_KEY": "sk-first-secret", "SECOND_KEY": "sk-second-secret"}


@pytest.fixture
def two():
    with ExitStack() as stack:
        yield [stack.enter_context(serving()) for _ in range(2)]


def endpoints(servers, **options):
    return [minrisk.Endpoint(name, server.endpoint, retries=0, **options)
            for name, server in zip("ab", servers, strict=True)]


def models(samples):
    return Counter(sample.model for sample in samples for _ in range(sample.count))


def test_each_model_draws_its_part_and_its_samples_say_so(two):
    ensemble = minrisk.Ensemble(endpoints(two), weights=(1, 0.5))
    [first, second] = ensemble.sample(["one", "two"], 7)
    assert models(first) == models(second) == {"a": 4, "b": 3}
    assert {(one.model, one.weight) for one in first} == {("a", 1), ("b", 0.5)}
    assert all(one.text.startswith("two ") for one in second)
    assert {body["model"] for body in two[0].bodies} == {"a"}


def test_numbers_names_and_options_of_all(two):
    ensemble = minrisk.Ensemble(endpoints(two), samples=(2, 6), names=("x", "y"))
    ensemble = ensemble.with_options(temperature=0.3)
    [found] = ensemble.sample(["one"], 4)
    assert models(found) == {"x": 2, "y": 6}
    assert {body["temperature"] for server in two for body in server.bodies} == {0.3}


def test_two_samplers_of_one_model_draw_different_samples(two):
    same = minrisk.Endpoint("m", two[0].endpoint)
    [found] = minrisk.Ensemble([same, same]).sample(["one"], 8)
    assert models(found) == {"m": 4, "m2": 4}
    assert {one.text for one in found if one.model == "m"} != {
        one.text for one in found if one.model == "m2"}


@pytest.mark.parametrize("failing", [0, 1])
def test_a_server_that_fails_costs_its_samples(two, failing):
    two[failing].always = status(500)
    with pytest.warns(UserWarning, match="ab"[failing]):
        found = minrisk.Ensemble(endpoints(two)).sample(["one", "two"], 4)
    assert [models(samples) for samples in found] == [{"ab"[1 - failing]: 2}] * 2


def test_a_server_that_is_not_there_costs_its_samples(two):
    a, b = endpoints(two)
    two[1].server_close()
    two[1].shutdown()
    with pytest.warns(UserWarning, match="b"):
        [found] = minrisk.Ensemble([a, b]).sample(["one"], 4)
    assert models(found) == {"a": 2}


def test_only_a_prompt_that_fails_everywhere_fails(two):
    two[0].always = refusing_prompt("one")
    two[1].always = refusing_prompt("one")
    with pytest.raises(PartialError) as error:
        minrisk.Ensemble(endpoints(two)).sample(["one", "two"], 4)
    failed, found = error.value.results
    assert isinstance(failed, minrisk.InputError)
    assert models(found) == {"a": 2, "b": 2}


def test_samplers_of_any_kind_form_a_pool():
    def broken(prompt, n):
        raise minrisk.InputError("no")

    def words(prompt, n):
        return [f"{prompt} {row}" for row in range(n)]

    with pytest.warns(UserWarning, match="broken"):
        [found] = minrisk.Ensemble([words, broken]).sample(["one"], 5)
    assert models(found) == {"words": 3}


@pytest.mark.parametrize("options", [
    {"samples": (1,)}, {"weights": (1, 0)}, {"names": ("a", "b", "c")}])
def test_wrong_numbers_are_errors(two, options):
    with pytest.raises(minrisk.InputError, match=next(iter(options))):
        minrisk.Ensemble(endpoints(two), **options)


def test_a_vote_of_one_model_does_not_stop_the_pool(two):
    with pytest.raises(minrisk.InputError, match="vote"):
        minrisk.Ensemble(endpoints(two, vote="x"))


def test_answers_have_the_models_weights_and_their_disagreement(two, tmp_path, monkeypatch):
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    path, out = tmp_path / "prompts.jsonl", tmp_path / "best.jsonl"
    path.write_text(json.dumps({"prompt": "one"}) + "\n")
    found = run("answer", path, "-o", out, "--metric", "chrf", "--confidence",
        "--endpoint", f"{two[0].endpoint},model=a,samples=4,key-variable=FIRST_KEY",
        "--endpoint", f"{two[1].endpoint},model=b,name=other,samples=2,weight=0.5,"
                      "key-variable=SECOND_KEY")
    assert found.code == 0, found.err
    [line] = [json.loads(line) for line in out.read_text().splitlines()]
    shown = dict(zip(line["models"], line["weights"], strict=True))
    assert shown == {"a": 1, "other": 0.5}
    assert sum(line["counts"]) == 6
    assert 0 <= line["confidence"]["disagreement"] <= 1
    assert [server.keys[0] for server in two] == [f"Bearer {key}" for key in KEYS.values()]
    written = "".join(one.read_text() for one in tmp_path.rglob("*") if one.is_file())
    assert not [key for key in KEYS.values() if key in written]


@pytest.mark.parametrize("text", [
    "localhost", "http://h/v1,modle=a", "http://h/v1,samples=x", "http://h/v1,samples=0",
    "http://h/v1,name=a+b", "http://h/v1,weight=nan", "http://h/v1,weight=-1", "http://h/v1,model", "http://u:p@h/v1"])
def test_settings_of_a_server_are_checked(text):
    with pytest.raises(minrisk.InputError) as error:
        parse_upstreams([text], "--upstream")
    assert "u:p" not in str(error.value)


def test_an_unknown_setting_is_told_before_a_missing_model(tmp_path):
    questions = tmp_path / "questions.txt"
    questions.write_text("2 + 2?\n")
    found = run("answer", questions, "--endpoint", "http://h/v1,modle=m")
    assert found.code == 2
    assert "modle" in found.err


@given(n=st.integers(0, 100), shares=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_parts_add_up_and_are_within_one_of_their_share(n, shares):
    parts = split(n, shares)
    assert sum(parts) == n
    assert all(abs(part - n * share / sum(shares)) < 1
               for part, share in zip(parts, shares, strict=True))
    assert [number for part in ranges(range(3, 3 + n), parts) for number in part] == [
        *range(3, 3 + n)]
