"""Votes among JSON answers."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk._core.json_values import canonical
from minrisk.metrics.votes.json_match import JsonMatch
from small_metrics import scores
from tolerance import assert_close

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(), lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=12)


def backwards(value):
    """The same value with the keys of all objects in another order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return [backwards(item) for item in value] if isinstance(value, list) else value


def exact(text):
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


@given(VALUES)
def test_layout_and_order_of_keys_do_not_matter(value):
    plain, other = json.dumps(value), json.dumps(backwards(value), indent=3, ensure_ascii=False)
    assert canonical(plain) == canonical(other)
    assert scores(JsonMatch(), [plain], [other]) == 1
    assert scores(JsonMatch(by="field"), [plain], [other]) == 1


@given(VALUES)
def test_the_canonical_form_is_the_same_value_and_its_own_canonical_form(value):
    plain = json.dumps(value)
    found = canonical(plain)
    assert exact(found) == exact(plain)
    assert canonical(found) == found


@pytest.mark.parametrize(("one", "other"), [
    ("1", "1.0"), ("1e2", "100"), ("0.5", "5e-1"), ("-0", "0"), ("1E+3", "1000.00"),
    ("0.1", "0.1000"), ("1e400", "10e399"), (f"1e{'9' * 30}", f"10e{'9' * 29}8")])
def test_numbers_are_compared_by_value(one, other):
    assert scores(JsonMatch(), [f'{{"a": {one}}}'], [f'{{"a": {other}}}']) == 1


def test_long_numbers_are_not_rounded():
    assert scores(JsonMatch(), ["12345678901234567890123"], ["12345678901234567890124"]) == 0


def test_a_value_is_found_in_a_block_of_code_or_among_words():
    texts = ['{"a": 1}', 'Sure:\n```json\n{"a": 1}\n```\nDone.', 'The answer is {"a": 1}, I think']
    assert scores(JsonMatch(), texts, texts[:1]).tolist() == [[1], [1], [1]]


def test_a_text_without_json_agrees_with_none_not_even_itself():
    texts = ["no idea", "{", "NaN", '{"a": 1}']
    assert scores(JsonMatch(), texts, texts).tolist() == np.diag([0, 0, 0, 1]).tolist()
    assert scores(JsonMatch(by="field"), texts, texts).tolist() == np.diag([0, 0, 0, 1]).tolist()


def test_hostile_texts_have_no_answer():
    for text in ("[" * 100_000, "{" * 100_000, '{"a":' * 100_000):
        assert canonical(text) is None


def test_paths_can_be_ignored():
    metric = JsonMatch(ignore="id,items[].time,a.b")
    one = '{"id": 1, "items": [{"time": 3, "v": 1}, 5], "a": {"b": 1, "c": 2}}'
    other = '{"id": 2, "items": [{"v": 1}, 5], "a": {"c": 2}}'
    assert scores(metric, [one], [other]) == 1
    assert scores(JsonMatch(), [one], [other]) == 0


@pytest.mark.parametrize("path", [".", "..", "id,.", "a..b]", "a[0]", "[x]"])
def test_a_path_that_makes_no_sense_is_refused(path):
    with pytest.raises(minrisk.InputError, match="names"):
        JsonMatch(ignore=path)


def test_fields_agree_in_part():
    metric = JsonMatch(by="field")
    found = scores(metric, ['{"a": 1, "b": [1, 2]}'],
                   ['{"a": 1, "b": [1, 3]}', '{"a": 1}', '{"c": 0}', "{}"])
    assert_close(found, [[2 * 2 / 6, 2 * 1 / 4, 0, 0]], scale=1)


def test_fields_decide_where_no_two_answers_are_equal():
    answers = ['{"a": 1, "b": 2, "c": 3}', '{"a": 9, "b": 9, "c": 9}', '{"a": 1, "b": 2, "c": 4}']
    ranking = minrisk.decode(answers, metric=JsonMatch(by="field"))
    assert ranking.order.tolist() == [0, 2, 1]


def test_confidence_is_about_answers_not_about_their_layout():
    answers = ['{"a": 1}', '{ "a": 1 }', '{"a": 1.0}', '{"a": 2}']
    ranking = minrisk.decode(answers, strategy=minrisk.Confident(minrisk.Standard("json-match")))
    assert ranking.confidence.probability > 0.7


def test_deep_nesting_is_no_answer_and_no_error():
    deep = "[" * 600 + "]" * 600
    assert canonical(deep) is None
    assert canonical("[" * 100 + "]" * 100) is not None
    assert minrisk.decode([deep, '{"a": 1}'], metric="json-match").text == '{"a": 1}'


def test_fences_are_found_in_linear_time():
    assert canonical("```" + "\n" * 100_000 + "x") is None  # quadratic: minutes


def test_the_answer_and_the_votes_are_reported():
    samples = ['{"a": 1}', "no idea", '{"a": 1.0}', '{"a": 2}']
    [found] = minrisk.decode_corpus([{"samples": samples}], metric="json-match")
    assert found.details == {"answer": '{"a":1}', "votes": {'{"a":1}': 0.5, '{"a":2}': 0.25}}
