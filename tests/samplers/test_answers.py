"""What the output of `answer` keeps, and samples that are no candidates."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import minrisk
from commands import run, write
from openai_server import altered

VOTE = ("--metric", "exact-match", "--metric.pattern", r"\d+")


def choice(text, reason="stop"):
    return {"message": {"content": text}, "finish_reason": reason}


@pytest.fixture
def ask(server):
    def answers(*choices, n=5, options=VOTE):
        server.always = altered(*choices)
        done = run("answer", "--endpoint", server.endpoint, "--model", "m", "-n", n, *options,
                   stdin=b"How many?\n")
        assert done.code == 0, done.err
        return done

    return answers


def test_an_answer_has_its_samples_and_their_numbers(ask, tmp_path):
    done = ask(choice("It is 4."), choice("5"), choice("so 4"), choice(None, "content_filter"),
               choice("4!"))
    [found] = done.records
    assert found["answer"] == "4"
    assert found["votes"] == pytest.approx({"4": 0.6, "5": 0.2})  # of all samples
    assert found["samples"] == ["It is 4.", "5", "so 4", "4!"]
    assert found["samples"][found["index"]] == found["text"]
    assert (found["drawn"], found["dropped"]) == (5, 1)
    assert found["usage"]["completion_tokens"] > 0
    path = tmp_path / "answers.jsonl"
    path.write_text(done.out)
    assert run("inspect", path, *VOTE, "-o", tmp_path / "page.html").code == 0
    [again] = run("decode", path, *VOTE).records
    assert (again["text"], again["answer"]) == (found["text"], "4")


def test_truncated_samples_do_not_vote_where_others_are_finished(ask):
    """As in `serve`: the answer of a sample that was cut off is not its last number."""
    cut = choice("12 of the 8", "length")
    [found] = ask(cut, cut, cut, choice("in all 4"), choice("4")).records
    assert found["answer"] == "4"
    assert found["votes"] == pytest.approx({"4": 0.4})  # of all samples
    assert (found["drawn"], found["dropped"]) == (5, 3)
    assert found["samples"][found["index"]] == found["text"] == "in all 4"
    [found] = ask(cut, n=3).records
    assert (found["answer"], found["dropped"]) == ("8", 0)


def test_dissent_is_no_candidate_where_samples_are_equal(ask):
    texts = [choice("It is 7"), choice(None, "content_filter")]
    [found] = ask(*texts, n=4, options=(*VOTE, "--nbest", 4)).records
    assert found["votes"] == pytest.approx({"7": 0.5})
    assert [entry["text"] for entry in found["nbest"]] == ["It is 7"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("choices", [
    [choice("12 of the 8", "length"), choice("12 of the 8", "length"), choice("in all 4")],
    [choice("It is 7"), choice(None, "content_filter")]], ids=["truncated", "filtered"])
def test_answers_are_decoded_as_they_were_chosen(ask, server, choices, tmp_path):
    done = ask(*choices, n=6)
    [line] = done.records
    path = tmp_path / "answers.jsonl"
    path.write_text(done.out)
    [again] = run("decode", path, *VOTE).records
    metric = minrisk.ExactMatch(pattern=r"\d+")
    answered = minrisk.answer("How many?", 6, model="m", endpoint=server.endpoint, metric=metric)
    [decoded] = minrisk.decode_corpus([answered], metric=metric)
    assert line["index"] == again["index"] == decoded.index
    for found in (again, {"text": decoded.text, "answer": decoded.answer, **decoded.details}):
        assert [found["text"], found["answer"]] == [line["text"], line["answer"]]
        assert found["votes"] == pytest.approx(line["votes"])
    record = decoded.as_record()
    assert record["samples"][record["index"]] == decoded.text


@pytest.mark.filterwarnings("ignore")
def test_python_has_the_same(server):
    server.always = altered(choice("8", "length"), choice("4"), choice(None, "content_filter"))
    [found] = minrisk.answer([{"prompt": "How many?"}], 3, model="m", endpoint=server.endpoint,
                             metric=minrisk.ExactMatch(pattern=r"\d+"))
    assert (found.text, found.answer) == ("4", "4")
    record = found.as_record()
    assert record["samples"][record["index"]] == "4"
    assert len(found.samples) == 2
    assert found.samples.drawn == 3


@pytest.mark.parametrize(("options", "warns"), [((), True), (VOTE, False),
                                                ((*VOTE, "--strategy", "aggregate"), True)])
def test_records_that_were_chosen_otherwise_are_told(options, warns, tmp_path):
    metric = minrisk.ExactMatch(pattern=r"\d+")
    signature = minrisk.decode(["1"], metric=metric).signature
    records = [{"samples": ["a 1", "b 2", "c 1"], "signature": signature}] * 2
    found = run("decode", write(tmp_path / "records.jsonl", *records), *options)
    assert found.code == 0
    assert found.err.count("choices in the input") == warns


@pytest.mark.parametrize("command", ["decode", "sample"])
def test_nothing_is_said_of_a_choice_that_was_another(command, server, tmp_path):
    """The answer, votes and measures of an earlier choice; a user's own fields stay."""
    path = write(tmp_path / "answers.jsonl", {"source": "q", "samples": ["a 1", "b 2", "a 2"]})
    chosen = run("decode", path, *VOTE, "--nbest", 2, "--utilities", "--confidence",
                 "--uncertainty", "--abstain", 0.9).records
    own = {"source": "q", "samples": ["a"], "answer": "gold", "votes": 3, "confidence": "high"}
    write(path, {**chosen[0], "samples": ["a 1", "b 2", "a 2"], "source": "q"}, own)
    args = {"decode": (), "sample": ("--endpoint", server.endpoint, "--model", "m", "-n", 2)}
    done = run(command, path, *args[command])
    choice = {"text", "index", "utility"} if command == "decode" else {"samples", "counts"}
    found, kept = done.records
    assert choice <= found.keys()
    assert not (chosen[0].keys() - {"id", "source"} - choice) & found.keys()
    assert {name: kept[name] for name in ("answer", "votes", "confidence")} == {
        name: own[name] for name in ("answer", "votes", "confidence")}


@pytest.mark.parametrize("command", [("decode",), ("rank", "references.txt")])
@pytest.mark.parametrize(("options", "warns"), [((), True), (VOTE, False)])
def test_answers_that_are_compared_as_texts_are_told(command, options, warns, ask, tmp_path,
                                                     monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text(ask(choice("It is 4."), choice("5")).out)
    Path("references.txt").write_text("4")
    found = run(command[0], "answers.jsonl", *command[1:], *options)
    assert found.code == 0, found.err
    assert found.err.count("in the input were made by votes") == warns


def guess(prompt, n):
    return ["It is 4."] * (n - 1) + ["5"]


def test_one_question_has_one_result(tmp_path):
    found = minrisk.answer("2 + 2?", 3, sampler=guess)
    assert (found.text, found.utility) == ("It is 4.", pytest.approx(found.ranking.utility[0]))
    summary = minrisk.answer("2 + 2?", 3, sampler=guess, output=tmp_path / "out.jsonl")
    assert summary.segments == 1


def test_an_event_loop_goes_on_while_a_question_is_answered():
    waiting = threading.Event()

    def slow(prompt, n):
        assert waiting.wait(60)  # for the loop
        return guess(prompt, n)

    async def both():
        answers = asyncio.gather(*(minrisk.answer_async(prompt, 3, sampler=slow)
                                   for prompt in ("one?", [{"role": "user", "content": "two?"}])))
        await asyncio.sleep(0)
        waiting.set()
        return await answers

    assert [found.text for found in asyncio.run(both())] == ["It is 4."] * 2
