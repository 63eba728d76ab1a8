"""Warnings show the line of the user's program that called minrisk."""

from __future__ import annotations

import re
import warnings

import pytest

import minrisk
from project import ROOT

SEGMENT = {"samples": ["a", "b"], "logprobs": [-1.0, -2.0]}


@pytest.mark.parametrize("call", [
    lambda: minrisk.decode(["a", "b"], metric="exact-match:x"),
    lambda: list(minrisk.decode_corpus([SEGMENT])),
    lambda: list(minrisk.decode_corpus(iter([SEGMENT]), metric="exact-match:x")),
    lambda: list(minrisk.export([{"source": "s", "samples": ["a"]}, {"samples": ["b"]}])),
    lambda: minrisk.score(["a"], [["b"]], metric="exact-match:x"),
])
def test_a_warning_shows_the_line_that_called(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {warning.filename for warning in caught} == {__file__}


def test_all_warnings_are_given_in_one_place():
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "src" / "minrisk").rglob("*.py")
           if re.search(r"\bwarnings\.warn\b", path.read_text(encoding="utf-8"))}
    assert own == {"src/minrisk/_core/errors.py"}
