"""Errors that the user can fix; any other exception is a bug and may show its traceback."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import currentframe
from types import FrameType
from typing import Self


class Wording(str):
    """A message that names options as in Python; the command line shows them as flags.

    Only options in the template are renamed. Values are shown unchanged: a file may be called
    `seed=3`.

    >>> Wording("{path} exists; overwrite=True replaces it", path="seed=3.jsonl")
    'seed=3.jsonl exists; overwrite=True replaces it'
    """

    template: str
    values: Mapping[str, object]

    def __new__(cls, template: str, /, **values: object) -> Self:
        made = super().__new__(cls, template.format(**values) if values else template)
        made.template, made.values = template, values
        return made

    def renamed(self, rename: Callable[[str], str]) -> str:
        """The text with the options in its template (and in nested messages) renamed."""
        if not self.values:
            return rename(self.template)
        values = {name: with_options(value, rename) if isinstance(value, Wording | Exception)
                  else value for name, value in self.values.items()}
        return rename(self.template).format(**values)


def with_options(text: object, rename: Callable[[str], str]) -> str:
    """The text of a message, an error or a warning, with its options renamed."""
    message = message_of(text) if isinstance(text, BaseException) else text
    return message.renamed(rename) if isinstance(message, Wording) else str(message)


def message_of(error: BaseException | str) -> str:
    """The text of an error or a warning: a `Wording`, if it was made from one."""
    first = error.args[0] if isinstance(error, BaseException) and error.args else error
    return first if isinstance(first, Wording) else str(error)


class MinriskError(Exception):
    """The base class of all errors that the user can fix; the message says how.

    >>> import minrisk
    >>> try:
    ...     minrisk.decode(["a"], metric="chrff")
    ... except MinriskError as error:
    ...     print(str(error).partition("?")[0])
    unknown metric 'chrff'; did you mean 'chrf'
    """


class InputError(MinriskError, ValueError):
    """Invalid data, options or names; the message says what was given and what was expected.

    >>> import minrisk
    >>> minrisk.decode([])
    Traceback (most recent call last):
    minrisk.InputError: zero hypotheses; at least one is needed
    """


class MissingExtra(MinriskError, ImportError):  # noqa: N818 - it says what to install
    """An optional dependency is not installed; the message has the `pip install` line.

    >>> raise MissingExtra("the 'comet' metric needs torch: pip install 'minrisk[comet]'")
    Traceback (most recent call last):
    minrisk._core.errors.MissingExtra: the 'comet' metric needs torch: pip install 'minrisk[comet]'
    """


class UnusableError(MinriskError):
    """An error that affects every segment: a wrong key, a missing model, a server that is down.

    It aborts a run, even one that skips errors of single segments: the other segments would fail
    for the same reason, and can be resumed once it is fixed.

    >>> import minrisk
    >>> issubclass(minrisk.UnusableError, minrisk.MinriskError)
    True
    """


def not_features(found: object) -> InputError:
    """The error for a value that is not a metric's features, such as plain texts."""
    return InputError("expected what the metric's `features` returns, as in "
                      "metric.scores(metric.features(hypotheses), metric.features(references)); "
                      f"got {type(found).__name__}")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line that called minrisk as the location, at any depth of the stack."""
    frame, depth, level = currentframe(), 1, 2
    while frame and (caller := frame.f_back):
        depth += 1
        if _is_ours(frame) and not _is_ours(caller):
            level = depth  # keep the outermost, because packages that we call may call us back
        frame = caller
    warnings.warn(message, category, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "minrisk"


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import into a MissingExtra that names the extra to install.

    >>> with needs_extra("the 'x' metric", "x"):
    ...     import no_such_package
    Traceback (most recent call last):
    minrisk._core.errors.MissingExtra: the 'x' metric needs no_such_package: pip install ...
    """
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        if error.name is None:  # installed but broken, e.g. by an outdated dependency
            raise MissingExtra(Wording("{what} fails to import a package: {error}; for versions "
                                       "that fit: pip install 'minrisk[{extra}]'",
                                       what=what, error=error, extra=extra)) from error
        raise MissingExtra(Wording("{what} needs {package}: pip install 'minrisk[{extra}]'",
                                   what=what, package=error.name, extra=extra)) from None


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for an unknown name, with the closest known one."""
    choices = sorted(known)
    close = nearest(name, choices)
    hint = f"did you mean {close!r}? " if close else ""
    listed = ", ".join(choices) or "none"
    return InputError(f"unknown {kind} {name!r}; {hint}known: {listed}")


def nearest(name: object, choices: Iterable[object]) -> str | None:
    """The choice that is spelled most like the name, if one is close."""
    from difflib import get_close_matches  # slow to import, and only errors need it

    return next(iter(get_close_matches(str(name), map(str, choices), n=1)), None)


def brief(value: object) -> str:
    """The beginning of a value's `repr`, for messages; never fails."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # thousands of digits, or a list that contains itself
        return f"a value of type {type(value).__name__} that is too large to show"
