"""A module that keeps the consensus, with DSPy itself and a server on this machine."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

pytest.importorskip("dspy", reason="needs the extra minrisk[dspy]")
pytest.importorskip("pydantic")

import dspy
from pydantic import BaseModel

import minrisk
from minrisk.integrations.dspy import Consensus
from upstream import failing, mock_upstream


class Fact(BaseModel):
    city: str
    degrees: int


def field(value, name="answer"):
    return f"[[ ## {name} ## ]]\n{value}\n\n[[ ## completed ## ]]"


@pytest.fixture
def served():
    """Makes a model that gives these texts, one after the other, and its server."""
    with ExitStack() as stack:
        def serve(*texts):
            upstream = stack.enter_context(mock_upstream(*texts))
            return dspy.LM("openai/m", api_base=upstream.url, api_key="x", cache=False,
                           num_retries=0), upstream

        yield serve


def test_open_questions_have_a_consensus(served):
    lm, upstream = served(*map(field, ("dogs", "the cat sat", "a cat sat", "the cat sat")))
    module = Consensus(dspy.Predict("question -> answer"), n=4)
    with dspy.context(lm=lm):
        found = module(question="What did the cat do?")
    assert found.answer == "the cat sat"
    assert found.minrisk["samples"] == 4
    assert found.minrisk["utility"] > 0
    assert [body["temperature"] for body in upstream.bodies] == [1.0] * 4


def test_votes_are_in_the_prediction_and_async_calls_do_not_block(served):
    main = threading.get_ident()

    def same(hyp, ref):
        assert threading.get_ident() != main
        return float(hyp == ref)

    async def ask(**options):
        return await Consensus(dspy.ChainOfThought("question -> answer"), n=3,
                               **options).acall(question="2 + 2?")

    thought = field("hm", "reasoning").partition("\n\n")[0]
    lm, _ = served(*(f"{thought}\n\n{field(value)}" for value in ("4", "5", "4")))
    with dspy.context(lm=lm):
        found = asyncio.run(ask(metric="exact-match"))
        assert (found.answer, found.reasoning) == ("4", "hm")
        assert found.minrisk["votes"] == pytest.approx({"4": 2 / 3, "5": 1 / 3})
        assert asyncio.run(ask(metric=same)).answer == "4"


def test_values_of_a_type_are_compared_as_json(served):
    class Weather(dspy.Signature):
        question: str = dspy.InputField()
        fact: Fact = dspy.OutputField()

    lm, _ = served(*(field(f'{{"city": "{city}", "degrees": {degrees}}}', "fact")
                  for city, degrees in (("Paris", 5), ("Paris", 6), ("Lyon", 5), ("Paris", 5))))
    module = Consensus(dspy.Predict(Weather), n=4, metric="json-match",
                       metric_options={"by": "field"})
    with dspy.context(lm=lm):
        assert module(question="How warm is it?").fact == Fact(city="Paris", degrees=5)


def test_an_abstention_is_none_and_failures_are_an_error(served):
    lm, upstream = served(*map(field, "abc"))
    module = Consensus(dspy.Predict("question -> answer"), n=3, metric="exact-match", abstain=0.9)
    with dspy.context(lm=lm):
        found = module(question="x")
        assert (found.answer, found.minrisk["abstained"]) == (None, True)
        upstream.answer = failing(400)
        with pytest.raises(minrisk.UnusableError):
            module(question="x")


def test_runs_that_fail_cost_their_predictions_only(served, caplog):
    module = Consensus(dspy.Predict("question -> answer"), n=3)
    texts = field("a cat"), "no field", field("a cat")
    with dspy.context(lm=served(*texts)[0], adapter=dspy.ChatAdapter(
            use_json_adapter_fallback=False)):
        assert module(question="x").minrisk["samples"] == 2
        with pytest.warns(UserWarning, match="1 of 3"):
            found = asyncio.run(module.acall(question="x"))
    assert (found.answer, found.minrisk["samples"]) == ("a cat", 2)


def test_a_field_that_no_prediction_has_is_an_error(served):
    module = Consensus(dspy.Predict("question -> answer"), n=2, field="anser")
    with dspy.context(lm=served(field("a"))[0]), pytest.raises(minrisk.InputError, match="answer"):
        module(question="x")


def test_only_the_chosen_run_is_in_the_trace(served):
    lm, _ = served(*map(field, ("a", "b", "b")))
    module = Consensus(dspy.Predict("question -> answer"), n=3, metric="exact-match")
    with dspy.context(lm=lm, trace=[]):
        found = module(question="x")
        [(_, inputs, outputs)] = dspy.settings.trace
    assert inputs["question"] == "x"
    assert outputs["answer"] == found["answer"] == "b"


def test_the_guide_runs(run_guide):
    answers = (field("hm", "reasoning").partition("\n\n")[0] + f"\n\n{field(text)}"
               for text in ("Light scatters.", "Light is scattered.", "Magic."))
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)  # of earlier runs
    assert run_guide("dspy", *answers).startswith("Light")
