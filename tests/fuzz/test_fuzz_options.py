"""Whatever an option is given: an object that has it, or one line about what was wanted."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from fuzzing import fuzz, json_values, scalars
from minrisk import ChrF, Standard
from minrisk._core.errors import InputError
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES, Registry
from minrisk._core.signature import signature


class Text(str):
    __slots__ = ()


def overlap(hypothesis: str, reference: str) -> float:
    return float(hypothesis == reference)


class Choice(NamedTuple):
    registry: Registry
    name: str
    fields: tuple[dataclasses.Field[Any], ...]


CHOICES = [Choice(registry, name, dataclasses.fields(registry.get(name)))
           for registry in (METRICS, STRATEGIES, SAMPLERS) for name in registry.builtin]
OBJECTS: list[Any] = [
    b"bytes", (), (1,), (1.0, "a"), [], {}, {"a": 1}, set(), 1j, Decimal("0.5"), Decimal("NaN"),
    Fraction(1, 3), 10**5000, -10**5000, Fraction(10**5000), np.float32(0.5), np.float64("nan"),
    np.int8(3), np.bool_(True), np.array(2), np.zeros(3), np.array("a"), Text("chrf"), Path("a"),
    range(3), object(), ChrF, ChrF(), Standard, Standard(ChrF()), overlap, len, print,
    NotImplemented, ..., float, "chrf", "comet-qe", "chrf*nan", "chrf+bleu*2", "cached:chrf",
    "python:len", "cpu", "auto", "{source}", "{", "http://127.0.0.1/v1", "http://[",
    "http://u:p@h/?q", '{"min_p": 0.1}', '["a"]', "[", "(", r"(\d+)", "(?P<a>", "*+"]
VALUES = st.one_of(st.sampled_from(OBJECTS), scalars, json_values)


@st.composite
def given_options(draw: st.DrawFn) -> tuple[Choice, dict[str, Any]]:
    """Some of the options of a metric, strategy or sampler; those without a default always."""
    choice = draw(st.sampled_from(CHOICES))
    required = [f.name for f in choice.fields
                if f.default is f.default_factory is dataclasses.MISSING]
    names = draw(st.lists(st.sampled_from([f.name for f in choice.fields]), max_size=3)
                 if choice.fields else st.just([]))
    return choice, {name: draw(VALUES) for name in dict.fromkeys([*required, *names])}


@fuzz(found=given_options())
def test_an_option_is_taken_or_refused(found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (registry, name, _), options = found
    cls = registry.get(name)
    outcomes = [attempt(lambda: registry.make(name, **options)), attempt(lambda: cls(**options))]
    assert (outcomes[0] is None) == (outcomes[1] is None)
    for made in filter(None, outcomes):
        signature(made, registry.kind)


def attempt(make: Any) -> Any:
    try:
        return make()
    except InputError:
        return None


@fuzz(registry=st.sampled_from([METRICS, STRATEGIES, SAMPLERS]), options=st.dictionaries(
    st.text(max_size=5) | st.sampled_from(["order", "metric", "model", "chrf__order"]), VALUES,
    max_size=2), name=st.text(max_size=8) | st.lists(st.sampled_from(
        ["chrf", "bleu", "combined", "cached", "symmetric", "python", "standard", "hf", ":", "+",
         "*", "2", "-1e5", "nan", "1.1.1", "9e999", ".", " ", "\x00"]), max_size=6).map("".join))
def test_a_name_is_known_or_refused(registry, name, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = attempt(lambda: registry.make(name, **options))
    if made is not None:
        signature(made, registry.kind)
