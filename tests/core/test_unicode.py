"""Texts that every tokenizer and file accepts."""

from __future__ import annotations

import pytest

from minrisk._core.texts import valid_unicode


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""), ("the café \U0001f600", "the café \U0001f600"), ("\ufeffa", "\ufeffa"),
    ("\ud83d" + "\ude00", "\U0001f600"), ("\ud83d\ud83d" + "\ude00", "\ufffd\U0001f600"),
    ("a\ud800b", "a\ufffdb"), ("\udc00\ud800", "\ufffd\ufffd")])
def test_surrogate_pairs_are_joined_and_lone_surrogates_replaced(text, expected):
    assert valid_unicode(text) == expected
