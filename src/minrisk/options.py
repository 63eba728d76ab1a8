"""Fields of a configuration that say what they are for, to `--help` as to the reader."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from minrisk.errors import unknown


def option(default: Any = dataclasses.MISSING, *, help: str, matters: bool = True) -> Any:
    """A dataclass field with a line of help; it must be given if it has no default.

    One that does not matter cannot change a result, such as a number of threads: signatures leave
    it out.
    """
    return dataclasses.field(default=default, metadata={"help": help, "matters": matters})


def check_choices(config: Any) -> None:
    """Options that have a few possible values must have one of them."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal and getattr(config, name) not in get_args(hint):
            raise unknown(f"{name} of {config.name}:", getattr(config, name), get_args(hint))


def inner(*, help: str) -> Any:
    """The field of a wrapper that holds a metric, or several; their options go by their names."""
    return dataclasses.field(metadata={"help": help, "inner": True})


def inner_field(config: Any) -> str | None:
    """The name of that field, of a class or an object that has one."""
    found = (f.name for f in dataclasses.fields(config) if f.metadata.get("inner"))
    return next(found, None)


def inner_metrics(config: Any) -> tuple[Any, ...]:
    """The metrics that a metric holds in that field."""
    name = inner_field(config) if dataclasses.is_dataclass(config) else None
    found = getattr(config, name) if name else ()
    return found if isinstance(found, tuple) else (found,)


def labels(names: Iterable[str]) -> list[str]:
    """A name for each that is its own: the second `chrf` is `chrf2`."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}{seen[name]}")
    return found
