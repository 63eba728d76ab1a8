"""What metrics declare, what strategies ask of all of theirs, and who becomes a metric."""

from __future__ import annotations

import dataclasses
import json
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import minrisk
from commands import run
from minrisk._core.adapters import MetricAdapter, as_metric, metric_option, named_metric
from minrisk._core.metric import Ability, Metric, Traits, concurrent_batches_of
from minrisk._core.options import Options
from minrisk._core.reference_parts import PartsDecoder
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, batch_size_of, loads_model, metrics_of, prepare
from minrisk.io.records import Record
from minrisk.metrics.comet import Comet, CometQE
from minrisk.metrics.edit import Edit
from minrisk.metrics.neural.mqm import MQM
from minrisk.metrics.ter import Ter
from minrisk.metrics.wrappers.combined import Combined, Symmetric
from minrisk.run.stages import Decode
from minrisk.strategies.cascade import UncountedStage
from minrisk.tasks.parts import ComputePartialStatistics
from minrisk.testing import check_metric

CHRF = minrisk.ChrF()
TEXTS = ["a cat", "the cat", "cats", "the cat"]


@dataclass(frozen=True)
class Length(Metric[Any]):
    """Closeness in length, with a model of which nobody sees anything."""

    name: ClassVar[str] = "length"
    loads_model: ClassVar[bool] = True

    def features(self, texts):
        return np.array([len(text) for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return -np.abs(hyps[:, None] - refs[None])


class Plain:
    """The same without a base class."""

    features = staticmethod(Length().features)
    scores = staticmethod(Length().scores)


def overlap(hypothesis, reference):
    return len(set(hypothesis) & set(reference))


LIGHT = [minrisk.Standard(CHRF), minrisk.Standard(Ter()), minrisk.CoarseToFine(CHRF, Edit()),
         minrisk.Standard(Combined((CHRF, Edit()))), minrisk.Standard(Symmetric(CHRF)),
         minrisk.Confident(minrisk.Cascade(minrisk.Aggregate(CHRF), minrisk.Standard(CHRF)))]
HEAVY = [minrisk.Standard(Comet()), minrisk.Standard(MQM()), minrisk.Standard(Length()),
         minrisk.Standard(Combined((CHRF, Comet()), (0.5, 1.0))),
         minrisk.QualityThenMBR(CHRF, CometQE()), minrisk.CoarseToFine(CHRF, MQM()),
         minrisk.Standard(Symmetric(Comet())), minrisk.Standard(Plain()),
         minrisk.Confident(minrisk.Cascade(minrisk.Standard(Comet()), minrisk.Standard(CHRF))),
         UncountedStage(minrisk.Rerank(CometQE()))]


@pytest.mark.parametrize("strategy", LIGHT, ids=signature)
def test_without_a_model_there_is_a_worker_per_core_and_a_segment_at_a_time(strategy):
    assert not loads_model(strategy)
    assert batch_size_of(strategy) == 1
    assert not Decode(strategy).loads_model


@pytest.mark.parametrize("strategy", HEAVY, ids=signature)
def test_one_model_anywhere_makes_a_strategy_heavy(strategy):
    assert loads_model(strategy)
    assert batch_size_of(strategy) > 1
    assert Decode(strategy).loads_model


def test_parts_of_references_are_as_heavy_as_their_metric():
    segment = minrisk.Segment(["a", "b"])
    light, heavy = (ComputePartialStatistics(PartsDecoder(minrisk.Aggregate(metric), segment))
                    for metric in (CHRF, Combined((CHRF, Comet()), (0.5, 1.0))))
    assert not light.loads_model
    assert heavy.loads_model


def test_a_sum_with_a_model_reads_the_texts_of_a_batch_together():
    assert Combined((CHRF, minrisk.BLEU())).features_per_segment
    assert not Combined((CHRF, Comet())).features_per_segment


def test_the_metrics_of_a_strategy_are_those_of_all_its_stages_each_once():
    cascade = minrisk.Cascade(minrisk.CoarseToFine(CHRF, Edit()),
                              minrisk.QualityThenMBR(Comet(), CometQE()))
    assert metrics_of(minrisk.Confident(cascade)) == [Comet(), CHRF, Edit(), CometQE()]
    assert metrics_of(minrisk.Standard(Plain()))[0].name == "Plain"


def test_the_metrics_of_a_strategy_that_is_no_dataclass_are_its_own():
    class Bare:
        name = "bare"
        metric = CHRF

        def rank(self, segments):
            return minrisk.Standard(self.metric).rank(segments)

    assert isinstance(Bare(), Strategy)
    assert metrics_of(Bare()) == [CHRF]
    assert minrisk.decode(TEXTS, strategy=Bare()).best == 1


def test_a_cascade_can_say_how_sure_it_is():
    cascade = minrisk.Cascade(minrisk.Aggregate(CHRF), minrisk.Standard(CHRF), keep=2)
    [ranking] = minrisk.Confident(cascade).rank([minrisk.Segment(TEXTS)])
    assert ranking.best == 1
    assert 0 < ranking.confidence.probability <= 1


def test_a_cascade_leaves_self_out_where_its_last_stage_does():
    fine = minrisk.Standard(CHRF, leave_self_out=True)
    segment = minrisk.Segment(["a cat", "the cat", "dogs"], weights=[1, 1, 8])
    cascade = minrisk.Cascade(minrisk.Aggregate(CHRF), fine, keep=3)
    [one] = minrisk.Confident(cascade).rank([segment])
    [other] = minrisk.Confident(fine).rank([segment])
    assert one.confidence.probability == other.confidence.probability


def test_prepare_loads_every_metric_of_a_strategy():
    loaded = []

    @dataclass(frozen=True)
    class Heavy(Length):
        label: str = "a"

        def prepare(self):
            loaded.append(self.label)

    strategy = minrisk.Cascade(minrisk.Standard(Symmetric(Heavy("one"))),
                               minrisk.CoarseToFine(Combined((CHRF, Heavy("two"))), Heavy("three")))
    prepare(minrisk.Confident(strategy))
    assert sorted(loaded) == ["one", "three", "two"]


def test_prepare_finds_a_model_that_is_not_there():
    pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")
    with pytest.raises(minrisk.InputError, match="nowhere"):
        prepare(minrisk.Standard(Comet("./nowhere", device="cpu")))
    with pytest.raises(minrisk.InputError, match="no_such_module"):
        prepare(minrisk.make_strategy("standard", "python:no_such_module:f"))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: minrisk.Rerank(CHRF), "'rerank' needs a metric that judges by the source "
     "alone (comet-qe, "),
    (lambda: minrisk.QualityThenMBR(CHRF, Edit()), "quality of strategy 'quality-then-mbr' needs"),
    (lambda: minrisk.Centroid(CHRF), "has vectors to cluster (comet, "),
    (lambda: minrisk.Aggregate(Edit()), "standard, n-by-s, "),
    (lambda: minrisk.ControlVariate(CHRF), "has a surrogate to correct (comet, "),
    (lambda: minrisk.Aggregate(Combined((CHRF, Edit()))), "'chrf+edit' does not"),
    (lambda: minrisk.Standard(3), "metric must be a metric"),
    (lambda: minrisk.CoarseToFine(CHRF, int), "coarse must be a metric"),
    (lambda: Combined((CHRF, None)), "metrics must be a metric"),
    (lambda: minrisk.Standard(Symmetric), "class Symmetric"),
    (lambda: minrisk.Cascade(CHRF, minrisk.Standard(CHRF)), "coarse must be a strategy"),
    (lambda: minrisk.Confident("standard"), "strategy must be a strategy"),
])
def test_what_does_not_fit_is_told_when_it_is_made(make, message):
    with pytest.raises(minrisk.InputError) as error:
        make()
    assert message in str(error.value)


def test_a_misfit_is_told_before_anything_is_written_whatever_is_skipped(tmp_path):
    samples = tmp_path / "in.jsonl"
    samples.write_text(json.dumps({"samples": TEXTS, "source": "s"}) + "\n")
    out = tmp_path / "out.jsonl"
    out.write_text("kept\n")
    result = run("decode", samples, "--strategy", "rerank", "--metric", "mqm", "-o", out,
                 "--on-error", "skip")
    assert result.code == 2
    assert "comet-qe, comet-kiwi, metricx-qe" in result.err
    assert out.read_text() == "kept\n"


@pytest.mark.parametrize("given", [Length, Length(), Plain, Plain(), "chrf", overlap,
                                   lambda hyp, ref: 1.0 * overlap(hyp, ref)],
                         ids=["class", "object", "plain class", "plain object", "name", "function",
                              "lambda"])
def test_whatever_judges_pairs_is_a_metric(given):
    metric = as_metric(given)
    assert isinstance(metric, Metric)
    check_metric(metric)
    [ranking] = minrisk.Standard(given).rank([minrisk.Segment(TEXTS)])
    assert np.isfinite(ranking.utility).all()
    assert as_metric(metric) is metric


def test_a_function_is_named_and_its_mistakes_are_told():
    assert "metric:overlap" in signature(minrisk.Standard(overlap))
    with pytest.raises(minrisk.InputError, match=r"'<lambda>' .*TypeError"):
        minrisk.decode(TEXTS, metric=as_metric(lambda h: 1.0))
    with pytest.raises(minrisk.InputError, match=r"number, .*None"):
        minrisk.decode(TEXTS, metric=lambda h, r: None)


def test_an_object_that_is_no_metric_declares_by_its_methods():
    class Rich(Plain):
        name = "rich"
        needs_source = True
        is_error = True
        loads_model = False

        def aggregate(self, refs, groups):
            total = np.zeros(len(groups))
            np.add.at(total, groups.labels, groups.share * refs)
            return total

        def quality(self, hyps, source):
            return hyps

    metric = as_metric(Rich())
    assert metric.abilities == Ability.AVERAGES | Ability.QUALITY
    assert (metric.needs_source, metric.is_error, metric.loads_model) == (True, True, False)
    assert signature(minrisk.Standard(Rich())).startswith("strategy:standard|metric:rich|")
    with pytest.raises(minrisk.InputError, match="vectors"):
        metric.vectors(metric.features(["a"]))
    assert MetricAdapter(Rich) != metric


def test_a_metric_by_name_is_made_once():
    assert named_metric("chrf", order=4) is named_metric("chrf", order=4)
    assert named_metric("chrf", order=4) is not named_metric("chrf", order=5)


@pytest.mark.parametrize(("name", "option"), [("bertscore", "model"),
                                             ("symmetric:bertscore", "bertscore__model")])
def test_a_metric_whose_files_have_changed_is_made_again(name, option, tmp_path):
    """A loop must not be served by a model that is no longer there; the cache of scores is none."""
    (tmp_path / "weights").write_text("one")
    first = named_metric(name, **{option: str(tmp_path)})
    assert named_metric(name, **{option: str(tmp_path)}) is first
    (tmp_path / "weights").write_text("three")
    assert named_metric(name, **{option: str(tmp_path)}) is not first
    path = tmp_path / "scores.db"
    cached = named_metric("cached:chrf", path=str(path))
    path.write_text("scores")
    assert named_metric("cached:chrf", path=str(path)) is cached
    assert minrisk.Standard("bleu").metric is minrisk.Standard("bleu").metric


def test_a_metric_that_declares_what_it_has_not_breaks_the_contract():
    class Boaster(Length):
        abilities = Ability.VECTORS

    with pytest.raises(AssertionError, match="VECTORS"):
        check_metric(Boaster())


def test_abilities_follow_from_methods():
    class Clustered(Length):
        def vectors(self, features):
            return features[:, None]

    class HalfDone(Length):
        def finalize(self, hyps, statistics, source=None):
            return statistics

    assert Length().abilities == HalfDone().abilities == Ability.NONE
    assert Clustered().abilities == Ability.VECTORS
    assert Symmetric(Clustered()).abilities == Ability.NONE  # which has no vectors of its own


def test_an_adapted_object_has_what_it_has_and_the_defaults_of_the_rest():
    class Told(Plain):
        concurrent_batches = 3

        def details(self, segment, ranking):
            return {"told": ranking.best}

        def as_given(self, refs):
            return refs + 1

    metric = as_metric(Told())
    assert metric.concurrent_batches == 3
    assert minrisk.Standard(metric).rank([minrisk.Segment(["a"], ["a"])])[0].utility == [-1]
    assert metric.details(minrisk.Segment(["a"]), minrisk.decode(["a"])) == {"told": 0}
    metric.prepare()
    assert metric.take_usage(None, ["a"]) == {}
    assert metric.fingerprint() is None


def test_a_strategy_of_somebody_else_declares_what_it_needs():
    @dataclass(frozen=True)
    class Mine(Options):
        name: ClassVar[str] = "mine"
        metric: Any = metric_option(needs=Ability.QUALITY)

    assert Mine(CometQE()).metric == CometQE()
    with pytest.raises(minrisk.InputError, match="'mine'"):
        Mine(CHRF)


def test_listings_tell_which_metrics_and_strategies_go_together():
    metrics = {entry["name"]: entry for entry in run("list", "metrics", "--json").records}
    assert metrics["chrf"]["aggregates"]
    assert not {"centroid", "control-variate", "rerank"} & set(metrics["chrf"]["strategies"])
    assert metrics["symmetric"]["strategies"] is None
    strategies = {entry["name"]: entry for entry in run("list", "strategies", "--json").records}
    judges = strategies["rerank"]["metrics"]["metric"]
    assert {"comet-qe", "python"} <= set(judges)
    assert not {"chrf", "comet"} & set(judges)
    assert strategies["quality-then-mbr"]["metrics"]["quality"] == judges
    assert "all but centroid, " in run("list", "metrics").out
    assert "--quality takes a metric that judges by the source alone: comet-qe" in (
        run("list", "strategies").out)


def declaring(trait: str) -> Metric[Any]:
    """A metric that declares one trait."""
    declared = {"loads_model": False, trait: True}
    if trait == "needs_source":
        declared["reads_source"] = True
    return type(f"Declares{trait}", (Length,), declared)()


WRAPPERS = {
    "symmetric": Symmetric, "cutoff": lambda metric: minrisk.Cutoff(metric, 0, -1),
    "documents": minrisk.Documents, "cached": minrisk.Cached,
    "sum": lambda metric: Combined((metric, metric)), "adapter": MetricAdapter}
OTHERWISE = {  # a score of both directions has a reference in either; others give texts only
    ("symmetric", "ignores_references"), ("cached", "needs_segment"),
    ("documents", "needs_segment"), ("cutoff", "is_vote"), ("documents", "is_vote"),
    ("sum", "is_vote")}


@pytest.mark.parametrize("trait", [f.name for f in dataclasses.fields(Traits)
                                   # wrappers refuse metrics that compare hypotheses
                                   if f.name not in ("abilities", "compares_hypotheses")])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_have_the_traits_of_their_metrics(wrapper, trait):
    inner = declaring(trait)
    if (wrapper, trait) in OTHERWISE:
        with pytest.raises((minrisk.InputError, AssertionError)):
            assert getattr(WRAPPERS[wrapper](inner), trait)
        return
    found = Traits.declared_by(WRAPPERS[wrapper](inner))
    assert dataclasses.replace(found, abilities=Ability.NONE) == Traits.declared_by(inner)


def test_traits_are_all_that_a_metric_declares():
    declared = {name for name, value in vars(Metric).items() if isinstance(value, property)}
    assert declared - {"name", "concurrent_batches"} == {f.name for f in dataclasses.fields(Traits)}


@dataclass(frozen=True)
class Overlapping(Length):
    """Two batches of it are scored at once, in threads that it prepares."""

    name: ClassVar[str] = "overlapping"
    loads_model: ClassVar[bool] = True
    concurrent_batches: ClassVar[int] = 2
    threads: ClassVar[list[int]] = []

    def prepare_thread(self):
        self.threads.append(threading.get_ident())


@pytest.mark.parametrize("metric", [
    Combined((minrisk.ChrF(), Overlapping())), Symmetric(Overlapping()),
    MetricAdapter(Overlapping()), minrisk.Cached(Overlapping())])
def test_batches_of_a_wrapper_overlap_as_those_of_its_metric(metric):
    assert metric.concurrent_batches == 2
    Overlapping.threads.clear()
    records = [Record(i, i, "", 0, segment=minrisk.Segment(["a", "bb"], position=i))
               for i in range(3)]
    assert len(list(Decode(minrisk.Standard(metric), batch_size=1)(iter(records)))) == 3
    assert Overlapping.threads
    assert threading.get_ident() not in Overlapping.threads


def test_metrics_without_a_model_do_not_keep_batches_of_others_apart():
    strategy = minrisk.CoarseToFine(Overlapping(), CHRF)
    assert concurrent_batches_of(metrics_of(strategy)) == 2


def test_a_wrapper_gives_the_segment_to_its_metric():
    found = minrisk.decode(["a", "b"], logprobs=[-1.0, -2.0], metric="symmetric:logprob")
    assert found.utility.tolist() == [-1.25, -1.75]


def test_a_sum_of_errors_is_an_error():
    assert Combined((Ter(), minrisk.Wer())).is_error
    assert not Combined((Ter(), CHRF)).is_error
    assert not Combined((Ter(), minrisk.Wer()), (1.0, -1.0)).is_error


def test_traits_of_metrics_inside_metrics_are_found_once():
    """Each level would multiply the questions by the number of traits."""
    metric = minrisk.make_metric("cached:" * 60 + "chrf")
    assert not metric.loads_model
