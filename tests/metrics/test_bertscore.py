"""BERTScore has bert-score's values, for all pairs at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")

from transformers import AutoModel

import minrisk
from minrisk._core.process import progress_listener
from minrisk.metrics.neural.bertscore import BertScore
from minrisk.metrics.neural.bertscore.encoder import TokenEmbeddings
from minrisk.testing import cases, check_metric
from tolerance import SINGLE, assert_close

DATA = Path(__file__).parent / "bertscore"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))
HYPS, REFS = GOLDEN["hypotheses"], GOLDEN["references"]
PARTS = ("precision", "recall", "f1")


def bertscore(kind: str = "bert", **options) -> BertScore:
    chosen = {"model": str(DATA / kind), "layer": GOLDEN["models"][kind]["layer"], "device": "cpu"}
    return BertScore(**chosen | options)


def scores(metric: BertScore, hyps=HYPS, refs=REFS):
    return metric.scores(metric.features(hyps), metric.features(refs))


@pytest.mark.parametrize("kind", GOLDEN["models"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("name", "options"), [
    ("plain", {}), ("idf", {"idf": "references"}),
    ("baseline", {"baseline": str(DATA / "baseline.csv")})])
def test_scores_equal_those_of_bert_score(kind, part, name, options):
    ours = scores(bertscore(kind, part=part, **options))
    theirs = np.array(GOLDEN["models"][kind][name])[:, :, PARTS.index(part)]
    assert_close(ours, theirs, "fp32")


@pytest.mark.parametrize("part", PARTS)
def test_frequencies_of_a_file_are_those_of_the_references_that_are_in_it(part, tmp_path):
    file = tmp_path / "texts"
    file.write_text("\n".join(REFS), encoding="utf-8")
    counted, by_file = (bertscore(idf=idf, part=part) for idf in ("references", str(file)))
    assert_close(scores(counted), scores(by_file), "fp32")


@pytest.mark.parametrize("wrapper", [lambda metric: metric, minrisk.Symmetric])
def test_weights_are_of_all_references_whatever_a_call_compares(wrapper):
    """As the steps of `prune` or `adaptive` do, which see some references and hypotheses only."""
    metric = wrapper(bertscore(idf="references"))
    segments = [minrisk.Segment(HYPS, REFS), minrisk.Segment(REFS[:2], HYPS[1:])]
    for pool, segment in zip(minrisk.bind(metric, segments), segments, strict=True):
        whole = pool.scores()
        direct = metric.scores(*(metric.features(texts)
                                 for texts in (segment.hypotheses, segment.references)))
        if wrapper is not minrisk.Symmetric:  # whose way back weighs by hypotheses, in one call
            assert_close(whole, direct, "fp32")
        for column in range(len(segment.references)):
            assert_close(pool.scores(np.array([column]))[:, 0], whole[:, column], "fp32")
        one = pool.keep(np.array([1]))
        assert_close(one.scores()[0], whole[1], "fp32")


@pytest.mark.parametrize("use", [
    lambda metric: minrisk.Cached(metric), lambda metric: minrisk.Documents(metric),
    lambda metric: minrisk.Cached(minrisk.Symmetric(metric)),
    lambda metric: minrisk.decode_parts(HYPS, [REFS], strategy=minrisk.Standard(metric))])
def test_weights_of_a_segment_are_neither_cached_nor_counted_in_parts(use):
    with pytest.raises(minrisk.InputError, match="depend on"):
        use(bertscore(idf="references"))


def test_matching_equals_a_loop_over_texts_where_nothing_is_similar():
    """Padding, which is at right angles to all, must not seem nearer than what is there."""
    rng = torch.Generator().manual_seed(0)

    def texts(sign: float) -> list[TokenEmbeddings]:
        vectors = [sign * torch.rand(length, 16, generator=rng) for length in (3, 7, 5)]
        return [TokenEmbeddings(np.arange(10, 10 + len(own)), torch.nn.functional.normalize(own))
                for own in vectors]

    hyps, refs = texts(1.0), texts(-1.0)
    near = [[hyp.vectors @ ref.vectors.T for ref in refs] for hyp in hyps]
    for part, over in (("precision", 1), ("recall", 0)):
        expected = [[float(own.amax(over).mean()) for own in row] for row in near]
        found = bertscore(part=part)._matcher.scores(hyps, refs)
        assert_close(found, expected, "fp32")


def test_small_batches_and_blocks_change_nothing(monkeypatch):
    large = scores(bertscore())
    monkeypatch.setattr("minrisk.metrics.neural.bertscore.matcher._TOKENS_PER_BLOCK", {False: 1})
    assert_close(scores(bertscore(tokens=1)), large, "fp32")


@pytest.mark.parametrize("part", PARTS)
def test_texts_against_themselves_score_as_against_their_copies(part, monkeypatch):
    """Where hypotheses are the references, half of the blocks follow from the other half."""
    monkeypatch.setattr("minrisk.metrics.neural.bertscore.matcher._TOKENS_PER_BLOCK", {False: 12})
    metric = bertscore(part=part)
    rows = metric.features([*HYPS, *REFS])
    copies = metric.features([*HYPS, *REFS])
    assert_close(metric.scores(rows, rows), metric.scores(rows, copies), "fp32")


def test_every_part_keeps_the_contract():
    for metric in (*(bertscore(part=part) for part in PARTS),
                   bertscore("xlm-roberta", idf=str(DATA / "README.md"), layer=0)):
        check_metric(metric, cases(count=2), rtol=SINGLE)


def test_layers_above_the_wanted_one_are_not_run():
    assert len(bertscore(layer=1)._matcher._encoder._model.encoder.layer) == 1


@pytest.mark.parametrize("kind", GOLDEN["models"])
def test_every_layer_is_that_of_the_whole_model(kind):
    """Models without any layers do not run, or return no hidden states."""
    model = AutoModel.from_pretrained(DATA / kind, add_pooling_layer=False)
    for layer in range(model.config.num_hidden_layers + 1):
        [found] = bertscore(kind, layer=layer).features(HYPS[:1]).base
        with torch.inference_mode():
            whole = model(torch.tensor(found.ids)[None], output_hidden_states=True)
        expected = torch.nn.functional.normalize(whole.hidden_states[layer][0], dim=-1)
        assert_close(found.vectors, expected, "fp32")


@pytest.mark.filterwarnings("ignore:1 of 2 texts")
def test_texts_are_cut_before_the_last_token():
    long, short = bertscore().features(["a long story " * 200, "a"]).base
    assert (long.ids.size, long.ids[-1]) == (128, short.ids[-1])


def test_progress_tells_encoding_and_matching_apart():
    told = []
    with progress_listener(lambda *event: told.append(event)):
        scores(bertscore())
    assert ("texts encoded", 6, 6) in told
    assert told[-1] == ("pairs scored", 30, 30)


@pytest.mark.parametrize(("options", "message"), [
    ({"layer": None}, "`layer`"),
    ({"layer": 4}, "layer 4"),
    ({"idf": "nowhere.txt"}, r"nowhere\.txt"),
    ({"baseline": "nowhere.csv"}, r"nowhere\.csv"),
    ({"baseline": str(DATA / "README.md")}, "LAYER,P,R,F")])
def test_bad_options_are_told(options, message):
    with pytest.raises(minrisk.InputError, match=message):
        bertscore(**options).features(["a"])


def test_the_layer_of_a_well_known_model_is_known():
    from minrisk.metrics.neural.bertscore.encoder import _layer

    assert _layer("FacebookAI/roberta-large", None, 24) == 17
    assert _layer("FacebookAI/roberta-large", 3, 24) == 3
