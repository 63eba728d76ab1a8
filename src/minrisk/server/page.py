"""`GET /`: the state of the server and its last requests, for the operator. No texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_COLUMNS = ("id", "route", "status", "model", "drawn", "distinct", "confidence", "signature")
_STYLE = ("body{font:14px system-ui;margin:2em}table{border-collapse:collapse}"
          "td,th{border-bottom:1px solid #ccc;padding:.3em .8em;text-align:left}")


def page(requests: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> str:
    """A page without scripts."""
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join("<tr>" + "".join(f"<td>{_shown(one.get(name))}</td>" for name in _COLUMNS)
                   + "</tr>" for one in requests)
    facts = ", ".join(f"{escape(name)}: {escape(str(value))}" for name, value in state.items())
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>minrisk</title>"
            f"<style>{_STYLE}</style><h1>minrisk serve</h1><p>{facts}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></html>")


def _shown(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
    return escape(text[:120])
