"""A `Runnable` that keeps the consensus, with LangChain itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("langchain_core", reason="needs the extra minrisk[langchain]")

from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

import minrisk
from minrisk.integrations.langchain import consensus

NUMBERS = {"metric": "exact-match", "metric_options": {"pattern": r"\d+"}}


def model(*texts):
    return FakeListChatModel(responses=list(texts))


def test_a_message_has_the_consensus_and_its_votes():
    found = consensus(model("It is 4.", "5", "4", "It's 4"), n=4, **NUMBERS).invoke("2 + 2?")
    assert "4" in found.text
    told = found.response_metadata["minrisk"]
    assert told["votes"] == {"4": 0.75, "5": 0.25}
    assert told["confidence"]["share"] == 0.75


def test_it_stands_in_a_chain_and_chooses_among_open_answers():
    chain = (ChatPromptTemplate.from_template("What did the {who} do?")
             | consensus(model("dogs", "the cat sat", "the cat sat"), n=3)
             | StrOutputParser())
    assert chain.invoke({"who": "cat"}) == "the cat sat"
    assert asyncio.run(chain.ainvoke({"who": "cat"})) == "the cat sat"


def test_strings_are_chosen_among_and_abstention_is_empty():
    chain = model("a", "b", "c") | StrOutputParser()
    assert consensus(chain, n=3, metric="exact-match").invoke("x") in "abc"
    assert consensus(chain, n=3, metric="exact-match", abstain=0.9).invoke("x") == ""
    found = consensus(model("a", "b"), n=2, metric="exact-match", abstain=0.9).invoke("x")
    assert (found.content, found.response_metadata["minrisk"]["abstained"]) == ("", True)


def test_the_event_loop_is_not_blocked_by_the_choice():
    main = threading.get_ident()

    def same(hyp, ref):
        assert threading.get_ident() != main
        return float(hyp == ref)

    found = asyncio.run(consensus(model("a", "b"), n=4, metric=same).ainvoke("x"))
    assert found.text in "ab"


def test_outputs_without_a_text_are_an_error():
    numbers = RunnableLambda(lambda given: 3)
    with pytest.raises(minrisk.InputError, match="int"):
        consensus(numbers, n=2).invoke("x")
    with pytest.raises(minrisk.InputError, match="n"):
        consensus(numbers, n=0)


def test_the_guide_runs(run_guide):
    pytest.importorskip("langchain_openai")
    found = run_guide("langchain", "Light scatters.", "Light is scattered.", "Light scatters.")
    assert found.startswith("Light")
    assert "probability" in found


def test_runs_that_fail_cost_their_outputs_only():
    def flaky(given):
        value = next(outputs)
        if value is None:
            raise ConnectionError("no answer")
        return value

    outputs = iter(["a", None, "a", None, "b", "b", None, None])
    chosen = consensus(RunnableLambda(flaky), n=3)
    config = {"max_concurrency": 1}
    with pytest.warns(UserWarning, match="1 of 3"):
        assert chosen.invoke("x", config) == "a"
    with pytest.warns(UserWarning, match="1 of 3"):
        assert asyncio.run(chosen.ainvoke("x", config)) == "b"
    with pytest.raises(ConnectionError):
        consensus(RunnableLambda(flaky), n=2).invoke("x")
