"""Prompt templates: a text with {source} in it."""

from __future__ import annotations

from minrisk._core.errors import InputError

PLACE = "{source}"


def check_template(template: str | None) -> None:
    """Raise an InputError if a template has no {source}."""
    if template is not None and PLACE not in template:
        raise InputError(f"prompt {template!r:.60} has no {PLACE}; put it where the source goes")


def fill(template: str | None, source: str) -> str:
    """The template with the source for {source}; without a template, the source itself."""
    return source if template is None else template.replace(PLACE, source)
