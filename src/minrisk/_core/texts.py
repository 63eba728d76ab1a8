"""Texts as models read them: valid Unicode, and prompt templates with placeholders ({source})."""

from __future__ import annotations

import re

from minrisk._core.errors import InputError, Wording


def valid_unicode(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD for lone surrogates.

    JSON may contain lone surrogates, which UTF-8 cannot encode and no tokenizer accepts.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


SOURCE = "source"
_MAX_SHOWN = 60  # characters of a template in messages
_PLACE = re.compile(r"\{(\w+)\}")


def check_template(template: str | None, *places: str, option: str = "prompt") -> None:
    """Raise an InputError if a template lacks one of these placeholders [default: {source}]."""
    for name in places or (SOURCE,):
        if template is not None and not has_place(template, name):
            raise InputError(Wording(
                option + "={template!r} has no {{{name}}}; add it where the {name} belongs",
                template=template[:_MAX_SHOWN], name=name))


def has_place(template: str, name: str) -> bool:
    return f"{{{name}}}" in template


def fill(template: str | None, source: str) -> str:
    """The template with {source} replaced; without a template, the source itself."""
    return source if template is None else fill_places(template, source=source)


def fill_places(template: str, **values: object) -> str:
    """The template with these placeholders replaced; other names in braces are text.

    Placeholders inside values are text, too.

    >>> fill_places("{a} and {b}, {c}", a="{b}", b=2)
    '{b} and 2, {c}'
    """
    return _PLACE.sub(lambda found: str(values.get(found[1], found[0])), template)
