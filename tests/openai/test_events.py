"""Events of a stream, however they are cut, and the answer that chunks make up."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators import FEW
from minrisk.openai import responses
from minrisk.openai.encoding import Mask, parsed_event
from minrisk.openai.responses import StreamedResponse, read_events

STREAM = (": a comment\n\nevent: x\ndata: {\"a\": 1}\n\ndata:two\r\ndata: lines\r\n\r\n"
          "data: grün\n\ndata: [DONE]").encode()
DATA = ['{"a": 1}', "two\nlines", "grün", "[DONE]"]


def read_all(pieces):
    async def source():
        for piece in pieces:
            yield piece

    async def main():
        return [data async for data in read_events(source())]

    return asyncio.run(main())


@FEW
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_events_are_the_same_however_they_are_cut(cuts):
    bounds = [0, *cuts, len(STREAM)]
    assert read_all([STREAM[a:b] for a, b in pairwise(bounds)]) == DATA


def test_an_event_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(responses, "_MAX_EVENT", 1000)
    with pytest.raises(ValueError, match="1,000"):
        read_all([b"data: ", *[b"x" * 100] * 20])


def test_an_event_of_lines_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(responses, "_MAX_EVENT", 1000)
    with pytest.raises(ValueError, match="1,000"):
        read_all([b"data: x\n"] * 200)


def whole(*chunks):
    answer = StreamedResponse()
    for chunk in chunks:
        answer.add(chunk)
    return answer


def delta(index=0, finish=None, **fields):
    return {"id": "one", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def test_texts_are_joined_and_names_are_not():
    answer = whole(delta(role="assistant", content=""), delta(role="assistant", content="a "),
                   delta(content="b", reasoning_content="be"), delta(reasoning_content="cause"),
                   delta(finish="stop"), {"id": "one", "choices": [], "usage": {"x": 1}})
    assert answer.is_finished
    assert answer.body == {
        "id": "one", "model": "m", "usage": {"x": 1}, "choices": [
            {"index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": "a b", "reasoning_content": "because"}}]}


def test_tool_calls_are_joined_by_their_index():
    start = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    answer = whole(
        delta(role="assistant", content=None, tool_calls=[start]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]),
        delta(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]),
        delta(finish="tool_calls"))
    [choice] = answer.body["choices"]
    assert choice["message"]["content"] is None
    assert [call["function"] for call in choice["message"]["tool_calls"]] == [
        {"name": "f", "arguments": '{"a": 1}'}, {"name": "g", "arguments": "{}"}]


def test_choices_are_told_apart_and_all_must_finish():
    chunks = [delta(0, content="a"), delta(1, content="b"), delta(0, "stop")]
    assert not whole(*chunks).is_finished
    answer = whole(*chunks, delta(1, "length", content="c"))
    assert answer.is_finished
    assert [one["message"]["content"] for one in answer.body["choices"]] == ["a", "bc"]


def test_plain_texts_and_log_probabilities_are_joined():
    answer = whole(
        {"choices": [{"text": "a", "index": 0, "logprobs": {"tokens": ["a"], "x": [-1.0]}}]},
        {"choices": [{"text": "b", "index": 0, "logprobs": {"tokens": ["b"], "x": [-2.0]},
                      "finish_reason": "stop"}]})
    assert answer.body["choices"] == [{
        "text": "ab", "index": 0, "finish_reason": "stop",
        "logprobs": {"tokens": ["a", "b"], "x": [-1.0, -2.0]}}]


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3),
                    lambda own: st.lists(own, max_size=3) | st.dictionaries(
                        st.sampled_from(["choices", "delta", "index", "content", "tool_calls"]),
                        own, max_size=4), max_leaves=12)


@FEW
@given(chunks=st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "id"]), JSON),
                       max_size=4))
def test_any_chunks_make_up_an_answer(chunks):
    assert isinstance(whole(*chunks).body["choices"], list)


def test_more_choices_or_items_than_any_response_has_are_refused(monkeypatch):
    monkeypatch.setattr(responses, "_MAX_ITEMS", 100)
    with pytest.raises(ValueError, match="choices"):
        whole(*[delta(index) for index in range(2000)])
    with pytest.raises(ValueError, match="items"):
        whole(*[delta(tool_calls=[{"index": index}]) for index in range(101)])


def test_an_event_of_very_many_values_is_refused():
    texts = json.dumps({"a": ", [{" * 100_000}).encode()
    values = json.dumps({"a": list(range(100_000))}).encode()
    assert parsed_event(texts, Mask()).problem is None
    assert "values" in parsed_event(values, Mask()).problem.text
