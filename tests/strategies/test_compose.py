"""Composed JSON answers: the vote in each field, lists by element, schemas, hostile samples."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from generators import FEW
from minrisk._core.json_values import canonical
from minrisk.strategies._composition import assignment
from report_pages import page_data

BY_FIELD = minrisk.JsonMatch(by="field")

scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from("abc"))
flat = st.dictionaries(st.sampled_from("pqr"), scalars, max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from("pqr"), inner, max_size=3), max_leaves=8)
samples = st.lists(values, min_size=1, max_size=6)


def compose(found, strategy=None, **more):
    """The composed value, whether or not it is the answer."""
    ranking = minrisk.decode(list(map(json.dumps, found)),
                             strategy=strategy or minrisk.Compose(BY_FIELD), **more)
    return json.loads(ranking.proposal.text)


@FEW
@given(value=values, copies=st.integers(1, 4))
def test_equal_samples_give_their_value(value, copies):
    assert compose([value] * copies) == value


@FEW
@given(found=samples, seed=st.randoms())
def test_the_order_of_samples_does_not_matter(found, seed):
    shuffled = seed.sample(found, len(found))
    assert compose(shuffled) == compose(found)


@FEW
@given(found=samples, data=st.data())
def test_duplicates_are_weights(found, data):
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(found), max_size=len(found)))
    repeated = [value for value, count in zip(found, counts, strict=True) for _ in range(count)]
    assert compose(found, counts=counts) == compose(repeated)


@FEW
@given(found=samples)
def test_it_is_kept_only_if_it_is_worth_as_much_as_the_best_sample(found):
    ranking = minrisk.decode(list(map(json.dumps, found)), strategy=minrisk.Compose(BY_FIELD))
    proposal = ranking.proposal
    assert all(0 <= share < 1 + 1e-9 for share in proposal.shares.values())
    if proposal.is_kept:
        assert proposal.utility >= ranking.utility.max() * (1 - 1e-9)
        assert canonical(ranking.text) != canonical(ranking.hypotheses[ranking.best])
    else:
        assert ranking.text == ranking.hypotheses[ranking.best]


@FEW
@given(found=st.lists(flat, min_size=1, max_size=6))
def test_each_field_has_a_value_of_the_majority(found):
    composed = compose(found)
    for name in "pqr":
        votes = Counter(canonical(json.dumps(one[name])) for one in found
                        if one.get(name) is not None)
        blank = len(found) - votes.total()
        if 2 * blank > len(found):
            assert composed.get(name) is None
        elif 2 * blank < len(found):
            kinds = Counter(type(one[name]) for one in found if one.get(name) is not None)
            assert kinds[type(composed[name])] == max(kinds.values())
            same = Counter({text: count for text, count in votes.items()
                            if type(json.loads(text)) is type(composed[name])})
            assert same[canonical(json.dumps(composed[name]))] == max(same.values())


@pytest.mark.parametrize(("options", "found", "wanted"), [
    ({}, [{"a": 1, "b": 1, "c": 2}, {"a": 1, "b": 2, "c": 1}, {"a": 2, "b": 1, "c": 1}],
     {"a": 1, "b": 1, "c": 1}),
    ({}, [{"a": None}, {"a": "x"}, {"a": "x"}, {"a": None}, {"a": None}], {"a": None}),
    ({}, [{"a": None}, {"a": "x"}, {"a": "y"}, {"a": "y"}], {"a": "y"}),
    ({}, [{"a": 1, "b": 2}, {"a": 1}, {"a": 1}], {"a": 1}),
    ({}, [["a", "b"], ["b", "c"], ["b", "d", "c"]], ["b", "c"]),
    ({}, [[1, 1, 2], [1, 1], [1, 2]], [1, 1, 2]),
    ({}, [[], [], ["a"]], []),
    ({"lists": "whole"}, [[1, 2], [1, 2], [1, 3], [2, 3], [2, 3, 1]], [1, 2]),
    ({"numbers": "median"}, [{"a": 1}, {"a": 9}, {"a": 9}, {"a": 2}, {"a": 3}], {"a": 3}),
    ({"numbers": "median"}, [-1, -10, 10**40, 0.5, -0.5], -0.5),
    ({}, [[{"n": "x", "q": 1}, {"n": "y", "q": 2}], [{"n": "y", "q": 2}, {"n": "x", "q": 3}],
          [{"n": "x", "q": 1}]], [{"n": "x", "q": 1}, {"n": "y", "q": 2}]),
    ({"keys": "n"}, [[{"n": "x", "q": 1, "r": 1}], [{"n": "x", "q": 2, "r": 1}],
                     [{"n": "x", "q": 2, "r": 3}], [{"n": "y", "q": 1, "r": 1}]],
     [{"n": "x", "q": 2, "r": 1}]),
])
def test_what_is_composed(options, found, wanted):
    assert compose(found, minrisk.Compose(BY_FIELD, **options)) == wanted


@pytest.mark.parametrize(("options", "found", "wanted"), [
    ({}, [{"a": None}, {"a": "x"}, {"a": "y"}], {"a": "x"}),
    ({"numbers": "median"}, [{"a": 1}, {"a": 2}, {"a": 100}], {"a": 2}),
    ({"numbers": "median"}, [{"a": 1}, {"a": 9}, {"a": 9}, {"a": 2}, {"a": 3}], {"a": 3}),
    ({"numbers": "median"}, [{"a": 9, "b": 1}, {"a": 9, "b": 1}, {"a": 3, "b": 1},
                             {"a": 1, "b": 2}, {"a": 2, "b": 3}], {"a": 3, "b": 1}),
])
def test_the_answer_is_composed_too_where_a_sample_is_worth_as_much(options, found, wanted):
    ranking = minrisk.decode(list(map(json.dumps, found)),
                             strategy=minrisk.Compose(BY_FIELD, **options))
    assert json.loads(ranking.text) == wanted
    assert ranking.proposal.is_kept


def test_shares_are_those_of_all_samples():
    found = ['{"a": 1, "b": [{"c": "x"}]}', '{"a": 1, "b": [{"c": "y"}]}', "none", '{"a": 2}']
    proposal = minrisk.decode(found, strategy=minrisk.Compose(BY_FIELD)).proposal
    assert proposal.shares[".a"] == pytest.approx(0.5)
    assert all(path in (".a", ".b[0].c") for path in proposal.shares)


@FEW
@given(shape=st.tuples(st.integers(1, 4), st.integers(1, 4)), seed=st.integers(0, 99))
def test_assignments_have_the_largest_sum(shape, seed):
    scores = np.random.default_rng(seed).integers(0, 5, shape) / 4
    pairs = assignment(scores)
    wide = scores if shape[0] <= shape[1] else scores.T
    largest = max(sum(wide[row, column] for row, column in enumerate(columns))
                  for columns in itertools.permutations(range(wide.shape[1]), wide.shape[0]))
    rows, columns = zip(*pairs, strict=True)
    assert len(set(rows)) == len(set(columns)) == min(shape)
    assert sum(scores[pair] for pair in pairs) == pytest.approx(largest)


SPLIT = ['{"a": 1, "b": 1, "c": 2}', '{"a": 1, "b": 2, "c": 1}', '{"a": 2, "b": 1, "c": 1}']


@pytest.fixture
def needs_jsonschema():
    pytest.importorskip("jsonschema", reason="needs the extra minrisk[json]")


@pytest.mark.usefixtures("needs_jsonschema")
class TestSchemas:
    @pytest.mark.parametrize(("schema", "is_kept"), [
        ({"type": "object", "required": ["a"]}, True),
        ({"properties": {"c": {"const": 2}}}, False),
        ({"$ref": "http://127.0.0.1:9/none"}, False),
        ({"pattern": "x"}, True),  # not of objects
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, False),
    ])
    def test_an_answer_that_the_schema_does_not_allow_is_not_kept(self, schema, is_kept):
        strategy = minrisk.Compose(BY_FIELD, schema=json.dumps(schema))
        ranking = minrisk.decode(SPLIT, strategy=strategy)
        assert ranking.proposal.is_kept == is_kept
        assert (ranking.text in SPLIT) != is_kept
        assert is_kept or "schema" in ranking.proposal.reason

    def test_it_may_be_in_a_file(self, tmp_path):
        path = tmp_path / "schema.json"
        path.write_text('{"properties": {"c": {"const": 2}}}')
        [result] = minrisk.decode_corpus([SPLIT], strategy="compose", metric=BY_FIELD,
                                         schema=str(path))
        assert result.text in SPLIT

    @pytest.mark.parametrize("schema", [
        "{", '{"type": 7}', "no such file", "{}[]", '{"pattern": "("}'])
    def test_a_schema_that_is_none_is_an_error(self, schema):
        with pytest.raises(minrisk.InputError, match="schema"):
            minrisk.Compose(BY_FIELD, schema=schema)


def test_the_page_shows_the_fields():
    report = minrisk.inspect([{"samples": SPLIT}], strategy=minrisk.Compose(BY_FIELD))
    found = page_data(report.html).details[0]["proposal"]
    assert found["kept"]
    assert set(found["shares"]) == {".a", ".b", ".c"}


HOSTILE = {
    "deep": ["[" * 600 + "]" * 600, '{"a":' * 600 + "1" + "}" * 600, '{"a": 1, "b": 2}'],
    "nested": ["[" * 99 + "1" + "]" * 99, "[" * 99 + "2" + "]" * 99],
    "repeated keys": ['{"a": 1, "a": 2}', '{"a": 2}', '{"a": 3}'],
    "no numbers": ['{"a": NaN}', '{"a": Infinity}', "-Infinity", "no JSON at all"],
    "exponents": ["1E9999999999999999999999", "-1E9999999999999999999999", "1E-99999999999999999999"
                  ],
    "equal elements": [json.dumps([1] * size) for size in range(2000, 2008)],
    "other names": [json.dumps({f"{row}.{name}": name for name in range(2000)})
                    for row in range(8)],
    "similar objects": [json.dumps([{"a": row * place % 7, "b": place % 5} for place in range(300)])
                        for row in range(8)],
    "surrogates": [f'{{"a":"\\ud800","b":{b},"c":{c}}}' for b, c in ((1, 1), (2, 1), (1, 2))],
    "huge": [json.dumps([*range(60_000)]), "[1]"],
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("numbers", ["vote", "median"])
def test_hostile_samples_are_composed_or_not(found, numbers):
    ranking = minrisk.decode(found, strategy=minrisk.Compose(BY_FIELD, numbers=numbers))
    proposal = ranking.proposal
    assert proposal.is_kept or ranking.text in found
    assert ranking.text.encode()
    assert canonical(proposal.text) is not None if proposal.text else proposal.reason


def test_samples_with_too_many_values_are_not_composed():
    ranking = minrisk.decode(HOSTILE["huge"], strategy=minrisk.Compose(BY_FIELD))
    assert ranking.proposal.text is None
    assert "values" in ranking.proposal.reason
