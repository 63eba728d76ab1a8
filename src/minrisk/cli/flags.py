"""Options in messages: the library names them as in Python, the command line as flags.

    subset=9 -> --subset 9        resume=True -> --resume        beta= -> --metric.beta
                                  logprobs=False -> --no-logprobs
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial

from minrisk._core.errors import with_options
from minrisk.cli.options import FieldOption

_OPTION = re.compile(r"""(?<![\w.-])([a-z]\w*)=   # also a value, which may be a field of a template
                     (True\b|False\b|'[^']*'|"[^"]*"|-?[\d.]*\d|\{\w+(?:!r)?(?::\w+)?\})?""",
                     re.VERBOSE)
_flags: ContextVar[dict[str, str]] = ContextVar("flags of the running command", default={})  # noqa: B039


def set_flags(options: Iterable[FieldOption], given: Iterable[FieldOption] = ()) -> None:
    """The options that messages from now on may mean; of two with one name, that which is given."""
    _flags.set(_unambiguous(options) | _unambiguous(given))


def as_flags(text: object, flags: Mapping[str, str] | None = None) -> str:
    """The text of a message, an error or a warning, with flags where a `Wording` names options."""
    rename = partial(_as_flag, _flags.get() if flags is None else flags)
    return with_options(text, partial(_OPTION.sub, rename))


def portable_as_flags() -> Callable[[object], str]:
    """`as_flags` for worker processes, which know no running command."""
    return partial(as_flags, flags=_flags.get())


def _unambiguous(options: Iterable[FieldOption]) -> dict[str, str]:
    flags: dict[str, set[str]] = {}
    for option in options:
        flags.setdefault(option.field.name, set()).add(option.flag)
    return {name: found.pop() for name, found in flags.items() if len(found) == 1}


def _as_flag(flags: Mapping[str, str], found: re.Match[str]) -> str:
    flag = flags.get(found[1])
    value = (found[2] or "").strip("'").replace("!r}", "}")
    if flag is None:
        return found[0]
    if value == "False":
        return f"--no-{flag[2:]}"
    return flag if value in ("", "True") else f"{flag} {value}"
