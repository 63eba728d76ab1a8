"""What every sampler declares, and how objects are adapted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import minrisk
from minrisk._core.adapters import SamplerAdapter, as_sampler
from minrisk._core.registry import SAMPLERS
from minrisk._core.sampler import Sample, Sampler
from minrisk._core.signature import signature

ADDRESS = "http://localhost:8000/v1"


@dataclass(frozen=True)
class Plain(Sampler):
    """Has no more than it must."""

    name: ClassVar[str] = "plain"

    def sample(self, prompts, n, seed=0, indices=None):
        return [[Sample(prompt, n)] for prompt in prompts]


class Foreign:
    """Derives from nothing, and says what it can do."""

    name = "foreign"
    takes_messages = is_causal = True
    prompt = "Continue: {source}"

    def __init__(self) -> None:
        self.prepared = 0

    def prepare(self):
        self.prepared += 1

    def batch_size(self, n):
        return 2 * n

    def sample(self, prompts, n, seed=0, indices=None):
        return [[Sample(prompt, n)] for prompt in prompts]

    def stream(self, requests, n, seed=0):
        yield from ((request, [Sample(request, n)]) for request in requests)


class Bare:
    def sample(self, prompts, n, seed=0, indices=None):
        return [[Sample(prompt, n)] for prompt in prompts]


@pytest.mark.parametrize("sampler", [Plain(), as_sampler(Bare())], ids=["derived", "adapted"])
def test_what_a_sampler_does_not_declare_is_not_so(sampler):
    assert (sampler.takes_messages, sampler.is_causal, sampler.prompt, sampler.streams) == (
        False, False, None, False)
    assert sampler.batch_size(1024) == 16
    sampler.prepare()
    assert sampler.sample(["a"], 3) == [[Sample("a", 3)]]
    with pytest.raises(minrisk.InputError, match=r"'(plain|Bare)' .*stream"):
        sampler.stream([], 1)


def test_an_object_that_derives_from_nothing_is_adapted_with_what_it_has():
    foreign = Foreign()
    sampler = as_sampler(foreign)
    assert isinstance(sampler, SamplerAdapter)
    assert (sampler.name, sampler.takes_messages, sampler.is_causal, sampler.prompt,
            sampler.streams) == ("foreign", True, True, "Continue: {source}", True)
    assert sampler.batch_size(4) == 8
    sampler.prepare()
    assert foreign.prepared == 1
    assert list(sampler.stream(["a"], 2)) == [("a", [Sample("a", 2)])]
    assert signature(sampler, "sampler").startswith("sampler:foreign|version:")


@pytest.mark.parametrize("value", [5, None, object(), Plain, Bare],
                         ids=["number", "none", "object", "class", "bare class"])
def test_what_is_no_sampler_is_told(value):
    with pytest.raises(minrisk.InputError, match="sampler"):
        as_sampler(value)


@pytest.mark.parametrize("name", SAMPLERS.builtin)
def test_built_in_samplers_derive_from_the_base_class(name):
    assert issubclass(SAMPLERS.get(name), Sampler)


def test_a_sampler_by_name_has_its_options():
    assert minrisk.make_sampler("ct2", model="m", top_p=0.5) == minrisk.CTranslate2("m", top_p=0.5)
    with pytest.raises(minrisk.InputError, match="'temperature'"):
        minrisk.make_sampler("ct2", model="m", temprature=0.5)
    with pytest.raises(minrisk.InputError, match="'ct2'"):
        minrisk.make_sampler("cd2", model="m")


def test_the_address_of_a_server_comes_from_the_environment_unless_given(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", ADDRESS)
    sampler = minrisk.Endpoint("m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert sampler.endpoint == ADDRESS  # what it was when the sampler was made
    assert f"endpoint:{ADDRESS}|" in signature(sampler, "sampler")
    assert sampler == minrisk.Endpoint("m", endpoint=ADDRESS)


def test_an_address_that_nothing_gives_is_asked_for(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(minrisk.InputError, match="OPENAI_BASE_URL"):
        minrisk.Endpoint("m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@host/v1")
    with pytest.raises(minrisk.InputError, match="query") as error:
        minrisk.Endpoint("m")
    assert "secret" not in str(error.value)
