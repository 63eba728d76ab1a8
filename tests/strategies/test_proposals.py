"""An answer that is not a sample: every output has it, and all else is about the samples."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given

import minrisk
from generators import FEW, cases
from minrisk._core.adapters import metric_option
from minrisk._core.metric import AnyMetric
from minrisk._core.options import option
from minrisk._core.strategy import MeanUtility, PoolStrategy
from report_pages import page_data
from tolerance import assert_close

SAMPLES = ["the cat sat there", "a cat sat down", "the cat was down"]
BETTER = "the cat sat down"


@dataclass(frozen=True)
class Proposing(PoolStrategy, MeanUtility):
    """Proposes the same text for every segment."""

    name: ClassVar[str] = "proposing"
    proposes: ClassVar[bool] = True
    metric: AnyMetric = metric_option()
    text: str | None = option(BETTER, help="what is proposed")
    reason: str | None = option(None, help="why it is not the answer")

    def rank_pool(self, pool):
        return pool.with_proposal(pool.ranking(pool.utility()), self.text, self.reason, {"": 0.5})


KEPT = Proposing("chrf")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_proposal_that_is_as_good_as_the_best_sample_is_the_answer():
    ranking = minrisk.decode(SAMPLES, strategy=KEPT)
    assert ranking.text == BETTER
    assert ranking.proposal.is_kept
    assert ranking.proposal.utility >= ranking.proposal.best == ranking.utility.max()
    assert SAMPLES[ranking.best] != BETTER
    assert repr(BETTER) in repr(ranking)


@pytest.mark.parametrize("strategy", [
    Proposing("chrf", text="dogs"), Proposing("chrf", reason="no"), Proposing("chrf", text=None),
    Proposing("chrf", text=SAMPLES[1])])
def test_otherwise_the_best_sample_is_and_the_proposal_says_why(strategy):
    ranking = minrisk.decode(SAMPLES, strategy=strategy)
    assert ranking.text == SAMPLES[ranking.best]
    assert not ranking.proposal.is_kept
    assert ranking.proposal.reason


@FEW
@given(case=cases())
def test_its_utility_is_that_of_a_hypothesis_with_its_text(case):
    strategy = Proposing("chrf", text="a b c")
    segment = minrisk.Segment(case.hyps, case.refs, weights=case.weights)
    whole = minrisk.Segment([*case.hyps, "a b c"], case.refs, weights=case.weights)
    [ranking], [other] = (one.rank([own]) for one, own in (
        (strategy, segment), (minrisk.Standard("chrf"), whole)))
    assert_close(ranking.proposal.utility, other.utility[-1], scale=100)
    assert_close(ranking.utility, other.utility[:-1], scale=100)
    if ranking.proposal.is_kept:
        assert ranking.proposal.utility >= ranking.proposal.best * (1 - 1e-9)


def test_json_lines_have_the_answer_without_an_index_and_what_it_is_worth(tmp_path):
    path = tmp_path / "best.jsonl"
    minrisk.decode_corpus([SAMPLES, ["x", "x"]], strategy=KEPT, output=path, nbest=2,
                          utilities=True)
    first, second = lines(path)
    assert (first["text"], first["index"]) == (BETTER, None)
    assert first["utility"] == first["proposal"]["utility"] >= first["proposal"]["best_utility"]
    assert first["proposal"]["kept"]
    assert [one["text"] in SAMPLES for one in first["nbest"]] == [True, True]
    assert len(first["utilities"]) == 3
    assert (second["text"], second["index"]) == ("x", 0)
    assert second["proposal"]["text"] == BETTER
    assert second["proposal"]["reason"]


def test_tables_have_the_answer_first_and_then_the_best_samples(tmp_path):
    path = tmp_path / "best.csv"
    minrisk.decode_corpus([SAMPLES], strategy=KEPT, output=path, nbest=3)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    best = minrisk.decode(SAMPLES, metric="chrf").order
    assert [row["text"] for row in rows] == [BETTER, *(SAMPLES[row] for row in best[:2])]
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert (rows[0]["index"], rows[0]["proposal.kept"]) == ("", "true")


def test_a_table_has_columns_for_proposals_only_where_there_are_any(tmp_path):
    path = tmp_path / "best.csv"
    minrisk.decode_corpus([SAMPLES], output=path)
    assert "proposal.kept" not in path.read_text()


def test_text_is_the_answer(tmp_path):
    path = tmp_path / "best.txt"
    minrisk.decode_corpus([SAMPLES], strategy=KEPT, output=path, format="text", nbest=2)
    assert path.read_text().splitlines()[0] == BETTER
    assert path.read_text().splitlines()[1] in SAMPLES


def test_parquet_has_a_null_index(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra minrisk[parquet]")
    path = tmp_path / "best.parquet"
    minrisk.decode_corpus([SAMPLES, ["x", "x"]], strategy=KEPT, output=path)
    rows = parquet.read_table(path).to_pylist()
    assert [row["index"] for row in rows] == [None, 0]
    assert [row["proposal"]["kept"] for row in rows] == [True, False]


def test_an_abstention_has_no_text_at_all(tmp_path):
    path = tmp_path / "best.jsonl"
    for strategy in (KEPT, Proposing("chrf", text="dogs")):
        minrisk.decode_corpus([SAMPLES], strategy=strategy, output=path, abstain=1.0,
                              overwrite=True)
        [line] = lines(path)
        assert line["text"] is None
        assert "text" not in line["proposal"]


def test_training_data_have_the_answer(tmp_path):
    corpus = [{"source": "s", "samples": SAMPLES}]
    assert next(minrisk.export(corpus, strategy=KEPT)) == {"source": "s", "target": BETTER}
    pair = next(minrisk.export(corpus, strategy=KEPT, pairs="best-worst"))
    assert pair["chosen"] == BETTER
    assert pair["rejected"] in SAMPLES


def test_results_have_it_and_can_be_read_again():
    [result] = minrisk.decode_corpus([SAMPLES], strategy=KEPT)
    assert (result.text, result.index) == (BETTER, None)
    assert result.proposal == result.ranking.proposal
    record = result.as_record()
    assert (record["text"], record["index"]) == (BETTER, None)
    [again] = minrisk.decode_corpus([record])
    assert again.text in SAMPLES
    assert "proposal" not in again.fields
    [score] = minrisk.score({"ours": [result]}, [BETTER], metric="chrf").values()
    assert score.value == pytest.approx(100)


def test_a_stage_passes_its_proposal_on():
    strategy = minrisk.Cascade(minrisk.Standard("chrf"), KEPT, keep=2)
    ranking = minrisk.decode(SAMPLES, strategy=strategy)
    assert ranking.text == BETTER
    assert ranking.proposal.utility == pytest.approx(
        minrisk.decode(SAMPLES, strategy=KEPT).proposal.utility)


def test_confidence_is_about_the_samples():
    plain, ours = (minrisk.decode(SAMPLES, strategy=minrisk.Confident(one)).confidence
                   for one in (minrisk.Standard("chrf"), KEPT))
    assert plain == ours


def test_the_page_shows_it_and_keeps_what_was_recorded():
    recorded = {"samples": SAMPLES, "proposal": {"kept": False, "reason": "the schema"}}
    ours, theirs = (page_data(minrisk.inspect([record], strategy=KEPT).html)
                    for record in ({"samples": SAMPLES}, recorded))
    assert ours.column("text") == [BETTER]
    assert ours.details[0]["proposal"]["kept"]
    assert ours.index["systems"]["utilities"][0] == ours.column("utility")
    assert len(ours.details[0]["texts"]) == len(SAMPLES)
    assert theirs.column("text")[0] in SAMPLES
    assert theirs.details[0]["proposal"]["reason"] == "the schema"
