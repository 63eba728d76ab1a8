"""Options: dataclass fields with a help text and checks.

`option` declares the help text and the valid values of a field of a metric, strategy or sampler.
`flag` does so for the other options of calls and commands, and also how they appear on the command
line. Classes that derive from `Options` check the values in their constructor.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from minrisk._core.errors import InputError, brief, nearest


def option(default: Any = dataclasses.MISSING, *, help: str = "", ge: float | None = None,
           gt: float | None = None, le: float | None = None, lt: float | None = None,
           affects_results: bool = True) -> Any:
    """Declare a dataclass field as an option; without a default, it is required.

    The type of the field is int, float, bool, str, a Literal of choices, a tuple of one of these,
    or a union of one of them and None. An int is accepted as a float; a bool is not a number.

    Args:
        default: the default value.
        help: one line for `--help` [default: the first sentence about the option in the section
            `Args` of the docstring of its class].
        ge, gt, le, lt: bounds of a number: at least, above, at most, below.
        affects_results: False for an option that cannot change a result, such as a number of
            threads; signatures leave it out.

    >>> @dataclass(frozen=True)
    ... class Sized(Options):
    ...     name = "sized"
    ...     size: int = option(4, ge=1, help="members of the set")
    >>> Sized(3)
    Sized(size=3)
    >>> Sized(0)
    Traceback (most recent call last):
    minrisk.InputError: sized: size must be an integer of at least 1; got 0
    """
    bounds = Bounds(ge, gt, le, lt)
    return dataclasses.field(default=default, metadata={
        "help": help, "affects_results": affects_results, "bounds": bounds})


@dataclass(frozen=True)
class FlagSpec:
    """How an option appears on the command line."""

    names: tuple[str, ...] = ()  # aliases; only short ones are shown in the help
    section: str = "Running"
    metavar: str | None = None
    advanced: bool = False  # only in --help-all
    hidden: bool = False
    registry: Any = None  # whose names are the valid values


def flag(default: Any, *names: str, help: str = "", section: str = "Running",
         metavar: str | None = None, advanced: bool = False, hidden: bool = False,
         registry: Any = None, ge: float | None = None, gt: float | None = None,
         le: float | None = None, lt: float | None = None) -> Any:
    """A dataclass field that is an argument of calls, and a flag of the same name of commands."""
    spec = FlagSpec(names, section, metavar, advanced, hidden, registry)
    return dataclasses.field(default=default, metadata={
        "help": help, "bounds": Bounds(ge, gt, le, lt), "flag": spec})


def explained(choices: Mapping[str, str]) -> str:
    """Choices with their meanings, for a help: `json (JSON lines) or text (lines of text)`."""
    *others, last = (f"{name} ({meaning})" for name, meaning in choices.items())
    return f"{', '.join(others)} or {last}" if others else last


class Options:
    """The base class of dataclasses whose fields are options; it checks their values.

    A subclass with further checks calls `super().__post_init__()` first. Metrics, strategies and
    samplers may declare their papers and their cost, for lists and the manual.
    """

    papers: ClassVar[tuple[str, ...]] = ()  # such as "Eikema & Aziz 2022"
    cost: ClassVar[str] = ""  # in terms of n hypotheses and m references, or n samples

    def __post_init__(self) -> None:
        check_options(self)


def check_options(config: Any) -> None:
    """Check and convert the values of all fields that are options."""
    kind: type = type(config)
    for check in _checks(kind):
        given = getattr(config, check.name)
        value = check(config, given)
        if value is not given:
            object.__setattr__(config, check.name, value)


@dataclass(frozen=True)
class Bounds:
    """The bounds of a number."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def hold(self, value: Any) -> bool:
        """Whether the number, or every number of a tuple, is within the bounds."""
        if isinstance(value, tuple):
            return all(map(self.hold, value))
        return not isinstance(value, int | float) or bool(
            (self.ge is None or value >= self.ge) and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le) and (self.lt is None or value < self.lt))

    def __str__(self) -> str:
        if self.ge is not None and self.le is not None:
            return f" from {self.ge} to {self.le}"
        named = (("at least", self.ge), ("above", self.gt), ("at most", self.le),
                 ("below", self.lt))
        words = " and ".join(f"{name} {bound}" for name, bound in named if bound is not None)
        return f" of {words}" if words.startswith("at") else f" {words}".rstrip()


UNBOUNDED = Bounds()


@dataclass(frozen=True)
class _Check:
    """The check of one field."""

    name: str
    hint: Any
    bounds: Bounds
    convert: Callable[[Any, str, Any], Any] | None  # for fields that hold metrics or strategies
    is_flag: bool  # an argument of calls and commands; messages do not name the owner

    def __call__(self, config: Any, value: Any) -> Any:
        if self.convert is not None:
            return self.convert(config, self.name, value)
        name = self.name if self.is_flag else f"{owner(config)}: {self.name}"
        return checked(name, value, self.hint, self.bounds)


def checked(name: str, value: Any, hint: Any, bounds: Bounds = UNBOUNDED) -> Any:
    """The value, converted to this type; an InputError if it has another type or is out of bounds.

    >>> checked("size", 3, float)
    3.0
    """
    try:
        converted = _converted(value, hint)
    except _CONVERSION_ERRORS:
        converted = _INVALID
    if converted is _INVALID or not bounds.hold(converted):
        close = nearest(value, _choices(hint)) if isinstance(value, str) else None
        meant = f"; did you mean {close!r}?" if close else ""
        raise InputError(f"{name} must be {_describe(hint, bounds)}; got {brief(value)}{meant}")
    return converted


def owner(config: Any) -> str:
    """The name of a metric, strategy or sampler, for messages."""
    name = getattr(type(config), "name", None)
    return name if isinstance(name, str) else type(config).__name__


@cache
def _checks(cls: type) -> tuple[_Check, ...]:
    try:
        hints = get_type_hints(cls)
    except NameError:  # types of a class that is local to a function cannot be resolved
        hints = {}
    return tuple(_Check(f.name, hints.get(f.name, Any), f.metadata.get("bounds", UNBOUNDED),
                        f.metadata.get("convert"), "flag" in f.metadata)
                 for f in dataclasses.fields(cls) if {"bounds", "convert"} & f.metadata.keys())


def _converted(value: Any, hint: Any) -> Any:
    """The value as a field of this type holds it; raises one of _CONVERSION_ERRORS if it cannot."""
    if hint in _PLAIN:
        return _PLAIN[hint](value)
    if get_origin(hint) is Literal:
        for choice in get_args(hint):
            if isinstance(value, type(choice)) and value == choice:
                return choice
        raise ValueError
    if get_origin(hint) is tuple:
        return tuple(_converted(part, get_args(hint)[0]) for part in _list(value))
    if _is_union(hint):
        return _first_that_fits(value, get_args(hint))
    return value


def _first_that_fits(value: Any, hints: Iterable[Any]) -> Any:
    for hint in hints:
        try:
            return _converted(value, hint)
        except _CONVERSION_ERRORS:
            continue
    raise TypeError


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError
    number = int(value)
    if number.bit_length() > _MAX_BITS:
        raise TypeError
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _exactly(kind: type | types.UnionType) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return check


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _integer, float: _number, bool: _exactly(bool), str: _exactly(str),
    type(None): _exactly(type(None))}
_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "a string",
          type(None): "None"}
_INVALID = object()
_MAX_BITS = 256  # of integers: enough for any seed; Python refuses to print huge ones
_CONVERSION_ERRORS = (TypeError, ValueError, OverflowError)
_list = _exactly(tuple | list)


def _describe(hint: Any, bounds: Bounds) -> str:
    if hint in _NAMES:
        noun = "a finite number" if hint is float and bounds == UNBOUNDED else _NAMES[hint]
        return f"{noun}{bounds if hint in (int, float) else ''}"
    if _is_union(hint):
        return " or ".join(_describe(part, bounds) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a tuple, each part {_describe(get_args(hint)[0], bounds)}"
    *others, last = map(repr, _choices(hint))
    return f"{', '.join(others)} or {last}" if others else last


def _choices(hint: Any) -> list[Any]:
    if _is_union(hint):
        return [choice for part in get_args(hint) for choice in _choices(part)]
    return list(get_args(hint)) if get_origin(hint) is Literal else []


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or get_origin(hint) is Union


def help_of(cls: type, field: dataclasses.Field[Any]) -> str:
    """The help of an option: its own, or the first sentence about it in the docstring of its class.

    >>> import minrisk
    >>> help_of(minrisk.ChrF, dataclasses.fields(minrisk.ChrF)[0])
    'maximum order of character n-grams'
    """
    found = field.metadata.get("help") or documented(cls).get(field.name, "")
    return _SENTENCE_END.split(found, 1)[0]


_ARGUMENTS = re.compile(r"^Args:\n((?: +.*\n?)+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", re.MULTILINE)
_OTHER_CLASS = re.compile(r"as in `(\w+)`\.")
_SENTENCE_END = re.compile(r"\.(?=\s+[A-Z`\"]|$)")


@cache
def documented(cls: type) -> dict[str, str]:
    """What the sections `Args` in the docstrings of a class and its bases say of each argument.

    They may refer to a class of the same module: as in `Comet`.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__bases__):
        found |= documented(base)
    section = _ARGUMENTS.search(inspect.cleandoc(cls.__doc__ or ""))
    for names, text in _ARGUMENT.findall(section[1] if section else ""):
        other = _OTHER_CLASS.fullmatch(text)
        theirs = documented(getattr(sys.modules[cls.__module__], other[1], object)) if other else {}
        found |= {name: theirs.get(name, "") if other else " ".join(text.split())
                  for name in names.split(", ")}
    return found


def inner_field(config: Any) -> str | None:
    """The name of the field that holds the inner metrics of a wrapper, or None."""
    return _inner_field(config if isinstance(config, type) else type(config))


@cache
def _inner_field(cls: type) -> str | None:
    names = (f.name for f in dataclasses.fields(cls) if f.metadata.get("inner"))
    return next(names, None)


def inner_metrics(config: Any) -> tuple[Any, ...]:
    """The metrics inside a wrapper; none for other metrics."""
    name = inner_field(config) if dataclasses.is_dataclass(config) else None
    value = getattr(config, name) if name else ()
    return value if isinstance(value, tuple) else (value,)


def unwrapped(config: Any) -> Any:
    """The adapted object if this is an adapter, else the object itself."""
    adapted = (getattr(config, f.name) for f in dataclasses.fields(config)
               if f.metadata.get("transparent")) if dataclasses.is_dataclass(config) else ()
    return next(iter(adapted), config)


def labels(names: Iterable[str]) -> list[str]:
    """Unique labels for names: the second `chrf` becomes `chrf2`.

    >>> labels(["chrf", "bleu", "chrf"])
    ['chrf', 'bleu', 'chrf2']
    """
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}{seen[name]}")
    return unique
