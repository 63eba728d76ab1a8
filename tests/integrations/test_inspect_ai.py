"""A solver and a reducer that keep the consensus, with Inspect itself and its mock model."""

from __future__ import annotations

import pytest

pytest.importorskip("inspect_ai", reason="needs the extra minrisk[inspect-ai]")

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import SolverSpec, chain, generate, system_message

import minrisk
from minrisk.integrations.inspect_ai import consensus, consensus_of_epochs

NUMBERS = {"metric": "exact-match", "metric_options": {"pattern": r"\d+"}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Evaluates one sample with a model that gives these texts."""
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))

    def evaluate(texts, solver=None, scorer=None, **options):
        outputs = [ModelOutput.from_content("mockllm", text) for text in texts]
        for output in outputs:
            output.usage = ModelUsage()  # to count tokens, Inspect would download a tokenizer
        task = Task([Sample("2 + 2?", target="4")], scorer=scorer or includes())
        [log] = eval(task, solver=solver, model=get_model("mockllm/model", custom_outputs=outputs),
                     display="none", log_dir=str(tmp_path), **options)
        assert log.status == "success", log.error
        return log

    return evaluate


def test_a_solver_keeps_the_consensus_with_its_votes(run):
    [sample] = run(["5", "It is 4.", "7", "4"], consensus(n=4, **NUMBERS)).samples
    assert sample.scores["includes"].value == "C"
    assert sample.output.completion == sample.messages[-1].text == "It is 4."
    assert sample.metadata["minrisk"]["votes"] == {"4": 0.5, "5": 0.25, "7": 0.25}
    assert sample.metadata["minrisk"]["confidence"]["share"] == 0.5


def test_a_solver_is_found_by_its_name(run):
    [sample] = run(["5", "4", "4"], SolverSpec("minrisk/consensus", {"n": 3}, {"n": 3})).samples
    assert sample.output.completion == "4"


def test_the_copies_may_run_another_solver(run):
    each = chain(system_message("Be brief."), generate())
    [sample] = run(["dogs", "the cat sat", "the cat sat"],
                   consensus(n=3, sampled=each)).samples
    assert [message.role for message in sample.messages] == ["system", "user", "assistant"]
    assert sample.output.completion == "the cat sat"


def test_an_abstention_is_an_empty_output(run):
    [sample] = run(["4", "5", "6"], consensus(n=3, abstain=0.9, **NUMBERS)).samples
    assert sample.output.completion == sample.messages[-1].text == ""
    assert sample.metadata["minrisk"]["abstained"]


@pytest.mark.parametrize("reducer", ["minrisk/consensus", None])
def test_a_reducer_takes_the_score_of_the_best_epoch(run, reducer):
    made = reducer or consensus_of_epochs("exact-match")
    log = run(["4", "5", "4"], generate(), match(), epochs=Epochs(3, made))
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    [reduced] = log.reductions[0].samples
    assert reduced.answer == "4"
    assert reduced.metadata["minrisk"]["samples"] == 3


def test_wrong_names_are_an_error():
    with pytest.raises(minrisk.InputError, match="chrff"):
        consensus(metric="chrff")
    with pytest.raises(minrisk.InputError, match="n"):
        consensus(n=0)


def test_the_guide_runs(run_guide, tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    assert run_guide("inspect_ai", "It is 4.", "5", "4", "4").startswith("It is 4. {'4': 0.75")
