"""Options refuse values that they do not take, all in one phrasing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

import minrisk
from minrisk._core.options import Bounds, Options, help_of, option
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES, Recipe


@dataclass(frozen=True)
class Everything(Options):
    name = "all"

    whole: int = option(4, ge=1, le=9, help="a whole number")
    share: float = option(0.5, gt=0, lt=1, help="a share")
    free: float = option(1.0, help="any number")
    flag: bool = option(False, help="a flag")
    text: str = option("x", help="a text")
    unit: Literal["character", "word"] = option("word", help="a choice")
    maybe: int | None = option(None, ge=0, help="a number or none")
    either: int | str = option("a", help="a number or a text")
    parts: tuple[float, ...] = option((), help="numbers")
    shares: tuple[float, ...] = option((), ge=0, help="shares")
    plain: int = "no option, so nobody looks"  # type: ignore[assignment]
    made: list[int] = field(default_factory=list)


@pytest.mark.parametrize(("options", "message"), [
    ({"whole": "6"}, "all: whole must be an integer from 1 to 9; got '6'"),
    ({"whole": 2.5}, "got 2.5"), ({"whole": True}, "got True"), ({"whole": None}, "got None"),
    ({"whole": 0}, "got 0"), ({"whole": 10}, "got 10"),
    ({"share": 0}, "share must be a number above 0 and below 1; got 0"),
    ({"share": 1.0}, "got 1.0"),
    ({"share": float("nan")}, "got nan"),
    ({"share": False}, "got False"),
    ({"free": float("inf")}, "free must be a finite number; got inf"),
    ({"free": 10**400}, "got 1000"),
    ({"flag": 1}, "flag must be True or False; got 1"),
    ({"text": b"x"}, "text must be a string; got b'x'"),
    ({"unit": "words"}, "did you mean 'word'?"),
    ({"unit": 3}, "got 3"),
    ({"unit": ["word"]}, "got ['word']"),
    ({"maybe": -1}, "maybe must be an integer of at least 0 or None; got -1"),
    ({"maybe": "auto"}, "got 'auto'"),
    ({"either": 1.5}, "either must be an integer or a string; got 1.5"),
    ({"parts": (1.0, "2")}, "got (1.0, '2')"),
    ({"parts": 1.0}, "parts must be a tuple"),
    ({"shares": (1, -1)}, "got (1, -1)"),
    ({"maybe": 10**5000}, "too large to show"),
    ({"text": 10**5000}, "value of type int"),
    ({"unit": 10**5000}, "value of type int"),
])
def test_what_an_option_does_not_take_is_refused(options, message):
    with pytest.raises(minrisk.InputError) as error:
        Everything(**options)
    assert message in str(error.value)


def test_what_an_option_takes_is_held_as_its_type():
    made = Everything(whole=np.int64(3), free=2, parts=[1, 2.5], maybe=0, either=7)
    assert (made.whole, made.free, made.parts) == (3, 2.0, (1.0, 2.5))
    assert [type(value) for value in (made.whole, made.free, made.parts[0])] == [int, float, float]
    assert (made.maybe, made.either) == (0, 7)
    assert Everything() == Everything()


def test_long_values_are_shortened():
    with pytest.raises(minrisk.InputError) as error:
        Everything(whole="x" * 1000)
    assert len(str(error.value)) < 150


def test_a_class_of_its_own_that_is_no_options_is_checked_where_it_is_made_by_name():
    @dataclass(frozen=True)
    class Plugin:
        name = "plugin"
        size: int = option(1, ge=1, help="a size")

    assert Plugin(0).size == 0
    with pytest.raises(minrisk.InputError, match="plugin: size"):
        Recipe("metric", "plugin", Plugin).make({"size": 0})


def test_types_that_cannot_be_resolved_are_not_checked():
    class Local: ...

    @dataclass(frozen=True)
    class Plugin(Options):
        thing: Local = option(None, help="something")

    assert Plugin(3).thing == 3


class Anything:
    """Can do everything, by name."""

    features = scores = aggregate = vectors = quality = surrogate = print
    partial_statistics = finalize = print


PARTS = dict(part for registry in (METRICS, STRATEGIES, SAMPLERS)
             for part in registry.installed())
REQUIRED = {"metric": Anything(), "metrics": (Anything(),), "coarse": Anything(),
            "quality": Anything(), "similarity": Anything(), "writer": Anything(),
            "threshold": 1.0, "subset": 1, "model": "m", "function": "m:f", "command": "cat"}


def refused(bounds: Bounds) -> Iterator[object]:
    yield object()  # of no type that an option has
    for bound, beyond in ((bounds.ge, -1), (bounds.gt, 0), (bounds.le, 1), (bounds.lt, 0)):
        if bound is not None:
            yield bound + beyond


@pytest.mark.parametrize("name", PARTS)
def test_every_option_refuses_what_it_does_not_take(name):
    cls = PARTS[name]
    given = {f.name: REQUIRED[f.name] for f in dataclasses.fields(cls) if f.name in REQUIRED}
    if name == "cascade":
        given["coarse"] = "standard"
    for one in dataclasses.fields(cls):
        for value in refused(one.metadata["bounds"]) if "bounds" in one.metadata else ():
            with pytest.raises(minrisk.InputError, match=f": {one.name} must be"):
                cls(**given | {one.name: value})


@pytest.mark.parametrize("name", ["cached", "symmetric"])
def test_a_metric_around_one_other_does_not_take_several(name):
    with pytest.raises(minrisk.InputError, match=r"metric .*\(\)"):
        METRICS.get(name)(metric=())


def test_what_is_no_metric_or_strategy_is_told_however_large_it_is():
    with pytest.raises(minrisk.InputError, match="too large"):
        minrisk.Standard(10**5000)
    with pytest.raises(minrisk.InputError, match="too large"):
        minrisk.decode(["a"], metric="chrf", strategy=10**5000)


@pytest.mark.parametrize(("kind", "name"), [
    (registry, name) for registry in (METRICS, STRATEGIES, SAMPLERS) for name in registry.builtin])
def test_a_field_is_that_of_the_nearest_class(kind, name):
    """In a diamond, dataclasses take the field of the class that is named first, even if it only
    inherits it; help, bounds and default would then be those of another class."""
    cls = kind.get(name)
    for own in dataclasses.fields(cls):
        nearest = next(base for base in cls.__mro__ if own.name in vars(base).get(
            "__annotations__", {}))
        assert nearest.__dataclass_fields__[own.name].metadata == own.metadata


@dataclass(frozen=True)
class Documented(Options):
    """A base class.

    Args:
        size: members of the set (Simon et al. 2020). No more than a hundred.
        seed: seed of the choice.
    """

    size: int = option(4)
    seed: int = option(0)


@dataclass(frozen=True)
class DocumentedElsewhere(Options):
    """A class that refers to another one.

    Args:
        size, seed: as in `Documented`.
        other: as in `Nothing`.

    Raises:
        InputError: if a value is wrong.
    """

    size: int = option(4)
    seed: int = option(0, help="another seed")
    other: int = option(0)


class Derived(Documented):
    pass


def helps(cls: type) -> list[str]:
    return [help_of(cls, field) for field in dataclasses.fields(cls)]


def test_the_help_of_an_option_is_its_own_or_the_first_sentence_about_it():
    assert helps(Documented) == ["members of the set (Simon et al. 2020)", "seed of the choice"]
    assert helps(Derived) == helps(Documented)
    assert helps(DocumentedElsewhere) == [helps(Documented)[0], "another seed", ""]
