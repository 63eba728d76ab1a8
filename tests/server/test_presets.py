"""Presets by name, for clients that can change the model or the address alone."""

from __future__ import annotations

import pytest

openai = pytest.importorskip("openai", reason="needs the openai package")
pytest.importorskip("aiohttp")

from mbr_server import serving, settings
from upstream import mock_upstream

MESSAGES = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def upstream():
    with mock_upstream("the cat", "the dog", "the cat") as found:
        yield found


@pytest.fixture(scope="module")
def server(upstream):
    chosen = settings("chrf", 4, allow=("bleu",), presets=True, max_samples=20)
    with serving(upstream.url, chosen) as found:
        yield found


def client(server, path=""):
    return openai.OpenAI(base_url=f"{server.url}{path}/v1", api_key="x", max_retries=0)


def ask(own, model):
    return own.chat.completions.create(model=model, messages=MESSAGES).model_extra["minrisk"]


NAMES = {"vote-6": ("exact-match", 6), "mbr-5": ("chrf", 5), "bleu-3": ("bleu", 3)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["m", "org/m"])
def test_a_preset_is_named_by_the_model_or_by_the_path(upstream, server, name, model):
    metric, samples = NAMES[name]
    for own, given in ((client(server), f"{name}/{model}"),
                       (client(server, f"/mbr/{name}"), model)):
        found = ask(own, given)
        assert found["requested"] == samples
        assert f"metric:{metric}" in found["signature"]
        assert upstream.bodies[-1]["model"] == model


def test_a_preset_works_for_text_and_responses(upstream, server):
    own = client(server, "/mbr/vote-6")
    assert own.completions.create(model="m", prompt="x").choices[0].text == "the cat"
    assert own.responses.create(model="m", input="x").output_text == "the cat"
    assert [one.id for one in own.models.list()]
    assert upstream.bodies[-1]["model"] == "m"


@pytest.mark.parametrize("name", ["ter-4", "vote-1000", "command-2", "vote-0"])
def test_other_presets_are_not_found_and_the_known_ones_named(server, name):
    for own, given in ((client(server), f"{name}/m"), (client(server, f"/mbr/{name}"), "m")):
        with pytest.raises(openai.NotFoundError, match="vote-N") as raised:
            ask(own, given)
        assert raised.value.code == "model_not_found"


@pytest.mark.parametrize(("path", "fields"), [
    ("", {"model": "vote-6"}), ("", {"model": "vote-6/"}), ("/mbr/vote-6", {})])
def test_a_preset_without_a_model_sends_none(upstream, server, path, fields):
    found = server.call(f"{path}/v1/chat/completions", {"messages": MESSAGES, **fields})
    assert found.body["minrisk"]["requested"] == 6
    assert "metric:exact-match" in found.body["minrisk"]["signature"]
    assert "model" not in upstream.bodies[-1]


@pytest.mark.parametrize("preset", ["nope", "nope-4", "vote-1000", "vote"])
@pytest.mark.parametrize("fields", [{}, {"model": "m"}])
def test_a_path_that_is_no_preset_is_not_found(upstream, server, preset, fields):
    before = len(upstream.bodies)
    found = server.call(f"/mbr/{preset}/v1/chat/completions", {"messages": MESSAGES, **fields})
    listed = server.call(f"/mbr/{preset}/v1/models")
    assert (found.status, listed.status) == (404, 404)
    assert "vote-N" in listed.body["error"]["message"]
    assert len(upstream.bodies) == before


def test_a_model_beside_a_path_must_be_a_string(server):
    found = server.call("/mbr/vote-6/v1/chat/completions", {"messages": MESSAGES, "model": 5})
    assert (found.status, found.body["error"]["param"]) == (400, "model")


def test_a_path_lists_models_alone(server):
    ids = [one.id for one in client(server, "/mbr/vote-6").models.list()]
    assert ids == ["m"]


def test_presets_are_listed(server):
    ids = [one.id for one in client(server).models.list()]
    assert {"vote-4/m", "mbr-4/m", "bleu-4/m", "m"} <= set(ids)
    assert client(server).models.retrieve("vote-4/m").id == "vote-4/m"


def test_without_the_option_a_name_is_the_upstreams(upstream):
    with serving(upstream.url, settings()) as server:
        ask(client(server), "vote-6/m")
        assert upstream.bodies[-1]["model"] == "vote-6/m"
        with pytest.raises(openai.NotFoundError):
            ask(client(server, "/mbr/vote-6"), "m")


def test_aliases_are_presets_of_a_path(upstream):
    base = settings("chrf", 4, presets=True)
    alias = base.preset.__class__("inner", 2, base.preset.strategy)
    with serving(upstream.url, settings("chrf", 4, presets=True,
                                        aliases={"careful": alias})) as server:
        assert ask(client(server, "/mbr/careful"), "any")["requested"] == 2
        assert upstream.bodies[-1]["model"] == "inner"
        assert "metric:exact-match" in ask(client(server), "vote-3/careful")["signature"]
