"""What can go wrong on the user's side; everything else is a bug and may show its traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class MinriskError(Exception):
    """A problem the user can mend; the message says how. All errors of minrisk are of this kind.

    >>> import minrisk
    >>> try:
    ...     minrisk.decode(["a"], metric="chrff")
    ... except MinriskError as error:
    ...     print(str(error).partition("?")[0])
    unknown metric 'chrff'; did you mean 'chrf'
    """


class InputError(MinriskError, ValueError):
    """Data, options or names that make no sense; says what was given and what was wanted.

    >>> import minrisk
    >>> minrisk.decode([])
    Traceback (most recent call last):
    minrisk.InputError: zero hypotheses; at least one is needed
    """


class MissingExtra(MinriskError, ImportError):  # noqa: N818 - it says what to install
    """An optional dependency is not installed; says the `pip install` line.

    >>> raise MissingExtra("the 'comet' metric needs torch: pip install 'minrisk[comet]'")
    Traceback (most recent call last):
    minrisk._core.errors.MissingExtra: the 'comet' metric needs torch: pip install 'minrisk[comet]'
    """


class UnusableError(MinriskError):
    """What concerns every segment: a wrong key, a model that is not there, a server that is down.

    A run ends with it, whatever is done about errors of single segments: the others would fail for
    the same reason, and what was not tried can be done once the cause is mended.

    >>> import minrisk
    >>> issubclass(minrisk.UnusableError, minrisk.MinriskError)
    True
    """


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Around imports: a package that is missing is named with the extra that brings it."""
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        raise MissingExtra(f"{what} needs {error.name}: pip install 'minrisk[{extra}]'") from None


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that nobody registered, with the nearest known ones."""
    choices = sorted(known)
    close = nearest(name, choices)
    hint = f"did you mean {close!r}? " if close else ""
    listed = ", ".join(choices) or "none"
    return InputError(f"unknown {kind} {name!r}; {hint}known: {listed}")


def nearest(name: object, choices: Iterable[object]) -> str | None:
    """What somebody may have meant."""
    from difflib import get_close_matches  # here, for mistakes alone need it

    return next(iter(get_close_matches(str(name), map(str, choices), n=1)), None)


def brief(value: object) -> str:
    """How a value begins, for messages; also where Python refuses to write out all of it."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # thousands of digits, or lists in each other
        return f"a value of type {type(value).__name__} that is too large to show"
