"""A pool of several upstreams: numbers, weights, names, and upstreams that fail."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from mbr_server import serving, settings
from minrisk.cli.serve import BackendOptions, LimitOptions, _backend
from minrisk.server.settings import Preset
from upstream import held, mock_upstream, web


@dataclass
class Pool:
    servers: list
    names: list[str]

    def backend(self, *changes: str):
        texts = tuple(f"{server.url},name={name}{change}" for server, name, change in zip(
            self.servers, self.names, changes or [""] * len(self.servers), strict=True))
        return _backend(BackendOptions(upstream=texts), LimitOptions(retries=0))


@pytest.fixture
def pool():
    with ExitStack() as stack:
        texts = {"a": ["the cat sat", "the cat sat down"], "b": ["a dog ran"]}
        yield Pool([stack.enter_context(mock_upstream(*own)) for own in texts.values()],
                   [*texts])


async def broken(upstream, body):
    return web.json_response({"error": {"message": "no"}}, status=500)


async def refused(upstream, body):
    return web.json_response({"error": {"message": "no such model"}}, status=404)


def asked(upstream):
    return sum(body.get("n", 1) for body in upstream.bodies)


def test_samples_are_divided_and_all_are_references_of_all(pool, tmp_path):
    record = tmp_path / "record.jsonl"
    with serving(pool.backend(",model=x,samples=3", ",model=y,samples=1,weight=0.5"),
                 settings(samples=8), record=record) as server:
        found = server.chat().body["minrisk"]
        [logged] = server.requests
    assert [asked(one) for one in pool.servers] == [6, 2]
    assert [one.bodies[0]["model"] for one in pool.servers] == ["x", "y"]
    assert found["models"] == logged["models"] == {"a": 6, "b": 2}
    assert 0 < found["disagreement"] <= 1
    recorded = json.loads(record.read_text())
    assert dict(zip(recorded["models"], recorded["weights"], strict=True)) == {"a": 1, "b": 0.5}


@pytest.mark.parametrize("answer", [broken, refused])
@pytest.mark.parametrize("failing", [0, 1])
def test_an_upstream_that_fails_costs_its_samples(pool, failing, answer):
    pool.servers[failing].answer = answer
    with serving(pool.backend(), settings(samples=4)) as server:
        reply = server.chat()
        [logged] = server.requests
    assert reply.status == 200
    found = reply.body["minrisk"]
    assert found["failed_models"] == logged["failed_models"] == {"ab"[failing]: 2}
    assert found["models"] == {"ab"[1 - failing]: 2}
    assert (found["samples"], found["requested"]) == (2, 4)


def test_the_error_is_that_of_an_upstream_if_all_fail(pool):
    for one in pool.servers:
        one.answer = refused
    with serving(pool.backend(), settings(samples=4)) as server:
        assert server.chat().status == 404
        assert server.chat(temperature=0).status == 404


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_passes_through_is_answered_by_the_first_that_works(pool, stream):
    pool.servers[0].answer = broken
    with serving(pool.backend(), settings(samples=4)) as server:
        reply = server.chat(temperature=0, stream=stream)
        assert "a dog ran" in reply.raw.decode()
        assert reply.status == 200


def test_a_model_may_name_upstreams_and_an_alias_too(pool):
    strategy = settings().preset.strategy
    chosen = settings(samples=2, aliases={"both": Preset("b+a", 4, strategy)})
    with serving(pool.backend(), chosen) as server:
        models = [server.chat(model=name).body["minrisk"]["models"]
                  for name in ("b", "both", "anything")]
        listed = {one["id"] for one in server.call("/v1/models").body["data"]}
    assert models == [{"b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 1}]
    assert {"a", "b", "both"} <= listed


@pytest.mark.parametrize("fields", [{}, {"temperature": 0}, {"temperature": 0, "stream": True}])
def test_the_name_of_an_upstream_is_no_model_of_its_server(pool, fields):
    with serving(pool.backend("", ",model=y"), settings(samples=4)) as server:
        for model in ("a", "b+a", "other"):
            server.chat(model=model, **fields)
        server.call("/v1/responses", {"model": "a", "input": "x", **fields})
    first, second = (one.bodies for one in pool.servers)
    assert [body.get("model") for body in first] == [None, None, "other", None]
    assert {body["model"] for body in second} <= {"y"}


def test_samples_that_are_late_are_those_of_their_upstream(pool):
    pool.servers[1].answer = held
    with serving(pool.backend(), settings(samples=4, deadline=0.5)) as server:
        found = server.chat().body["minrisk"]
        assert server.chat(model="b").status == 504
    assert found["models"] == {"a": 2}
    assert found["failed_models"] == {"b": 2}


def test_it_is_ready_while_one_upstream_answers(pool):
    backend = pool.backend()
    pool.servers[0].url = "http://127.0.0.1:9/v1"
    one_is_there, none_is = pool.backend(), Pool(
        [pool.servers[0], pool.servers[0]], pool.names).backend()
    for own, status in ((backend, 200), (one_is_there, 200), (none_is, 503)):
        with serving(own, settings(samples=2)) as server:
            assert server.call("/ready").status == status


def test_each_upstream_has_its_own_key(pool, monkeypatch):
    monkeypatch.setenv("FIRST_KEY", "sk-first-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other-secret")
    with serving(pool.backend(",key-variable=FIRST_KEY", ""), settings(samples=2)) as server:
        reply = server.chat()
        text = reply.raw.decode() + str(reply.headers) + "".join(server.log)
    assert [one.headers[0]["Authorization"] for one in pool.servers] == [
        "Bearer sk-first-secret", "Bearer sk-other-secret"]
    assert "secret" not in text
