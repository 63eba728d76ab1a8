"""`minrisk validate`: what it measures is true, its advice follows, and a kill costs little."""

from __future__ import annotations

import gzip
import json
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import minrisk
from commands import PATIENCE, read, run, spawn, wait_for, write
from minrisk import ChrF, InputError, Ranking, Segment
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.strategy import Budget
from minrisk.cli import SOME_FAILED
from minrisk.evaluation.stages import PreviewReader
from minrisk.evaluation.study import EXACT, Study, Trial, TrialResult, TrialResults, trials
from minrisk.evaluation.validation import summarise
from minrisk.io.inputs import input_files
from minrisk.io.segments import SampleReader
from minrisk.tasks.corpus import LimitedReader
from project import SUPPORT
from small_metrics import Counting, Curved
from tolerance import assert_close

HYPS = ["the cat sat", "the cat sat down", "a cat sat", "dogs", "the cat sat", "a cat", "cats",
        "the dog sat down"]


@dataclass(frozen=True)
class Reversed:
    """the worst first, and no idea of utilities: a fault to be found"""

    name: ClassVar[str] = "reversed"
    metric: object

    def rank(self, segments):
        exact = minrisk.Standard(self.metric).rank(segments)
        return [Ranking(r.order[::-1], np.zeros_like(r.utility)) for r in exact]


@dataclass(frozen=True)
class Overlap:
    """common letters; references cannot be averaged"""

    name: ClassVar[str] = "overlap"

    def features(self, texts):
        return np.array([[letter in text for letter in "abcdots"] for text in texts], float)

    def scores(self, hyps, refs, source=None):
        return hyps @ refs.T


@pytest.fixture
def plugins(monkeypatch):
    monkeypatch.setitem(STRATEGIES.builtin, "reversed", "test_validation:Reversed")
    monkeypatch.setitem(METRICS.builtin, "overlap", "test_validation:Overlap")


def outcomes(trial_list, segment, metric=None, top=20):
    study = Study(metric or ChrF(), [segment], [], top)
    study.trials = [EXACT, *trial_list]
    return study.evaluate(segment).outcomes


def test_a_reader_that_was_looked_at_is_sent_as_what_it_reads(tmp_path):
    path = write(tmp_path / "in.jsonl", *({"samples": [f"{n}", "x"]} for n in range(50)))
    reader = PreviewReader(LimitedReader(SampleReader(input_files([path])), 40))
    assert len(reader.typical()) < 40
    sent = pickle.loads(pickle.dumps(reader))
    for found in (reader, sent):
        assert [raw.index for raw in found.records(found.open())] == list(range(40))


def test_budgets_are_halves_of_n_down_to_one():
    segment = Segment(HYPS)
    found = [trial.options(segment)["subset"] for trial in trials(["n-by-s"], [segment])]
    assert found == [4, 2, 1]
    labels = [trial.label for trial in trials(["aggregate"], [segment])]
    assert labels == ["aggregate groups n/2", "aggregate groups n/4", "aggregate groups n/8"]


def with_budget(monkeypatch, cls: type, name: str, budget: Budget | None) -> None:
    """Give a strategy class this budget and name."""
    monkeypatch.setitem(globals(), f"_{name}", type(name, (cls,), {"tried": budget}))
    monkeypatch.setitem(STRATEGIES.builtin, name, f"{__name__}:_{name}")


def test_budgets_are_of_what_they_say(monkeypatch):
    for name, budget in {"a": Budget("groups", "references", (0.5,)),
                         "b": Budget("keep", "hypotheses", (0.5,)),
                         "c": Budget("calls", "pairs", (0.5, 0.25)),
                         "d": Budget("alpha", None, (0.9, 0.99)), "e": None}.items():
        with_budget(monkeypatch, minrisk.Standard, name, budget)
    segment = Segment(HYPS, ["x", "y"])
    found = [trial.options(segment) for trial in trials(["a", "b", "c", "d", "e"], [segment])]
    assert found == [{"groups": 1}, {"keep": 4}, {"calls": 0.5}, {"alpha": 0.9}, {"alpha": 0.99},
                     {}]
    assert [trial.label for trial in trials(["c", "d", "e"], [segment])] == [
        "c calls n²/2", "d alpha 0.9", "d alpha 0.99", "e"]


SHARES = [name for name in STRATEGIES.builtin
          if (budget := getattr(STRATEGIES.get(name), "tried", None)) and budget.of]


@pytest.mark.parametrize("strategy", SHARES)
def test_a_budget_of_everything_loses_nothing(strategy):
    """So the options exist, and each is a share of the right whole."""
    budget = STRATEGIES.get(strategy).tried
    segment = Segment(HYPS, [*HYPS, "birds"], "a cat", position=3)
    metric = {"centroid": Counting(), "control-variate": Curved()}.get(strategy, ChrF())
    coarse = "aggregate" if strategy == "cascade" else ChrF(order=1)
    study = Study(metric, [segment], [], coarse=coarse, quality=Counting())
    trial = Trial(strategy, budget.option, 1.0, budget.of)
    study.trials = [EXACT, trial]
    outcome = study.evaluate(segment).outcomes[trial.label]
    assert outcome.first
    assert_close(outcome.lost, 0, scale=100)  # of scores that go so far


def test_every_outcome_is_measured_against_exact_mbr(plugins):
    exact = minrisk.decode(HYPS)
    worst = Trial("reversed")
    found = outcomes([worst], Segment(HYPS), top=len(HYPS) - 1)[worst.label]
    assert (found.first, found.among) == (False, False)
    assert_close(found.lost, exact.utility.max() - exact.utility.min(), scale=100)
    assert outcomes([worst], Segment(HYPS), top=len(HYPS))[worst.label].among


def test_the_same_string_elsewhere_is_the_same_choice(plugins):
    hyps = ["a cat", "dogs", "a cat"]
    found = outcomes([Trial("reversed")], Segment(hyps, ["dogs", "dog"]))
    assert not found["reversed"].first
    found = outcomes([Trial("reversed")], Segment(["dogs", "cat", "dogs"], ["x"]))
    assert found["reversed"].first  # none is better than another, and the last is "dogs" too


def test_gain_is_what_exact_mbr_wins_over_a_sample():
    segment = Study(ChrF(), [Segment(HYPS)], []).evaluate(Segment(HYPS))
    utility = minrisk.decode(HYPS).utility
    assert_close(segment.gain, utility.max() - utility.mean(), scale=100)
    assert segment.references == len(HYPS)
    assert segment.outcomes["standard"].pairs == len(set(HYPS)) ** 2


def test_gain_counts_equal_samples_as_often_as_they_were_drawn():
    counted = Segment(["the cat sat", "a cat", "dogs"], counts=[1, 2, 5])
    repeated = Segment(np.repeat(counted.hypotheses, counted.counts).tolist())
    gains = [Study(ChrF(), [segment], []).evaluate(segment).gain for segment in (counted, repeated)]
    assert_close(*gains, scale=100)
    others = Segment(counted.hypotheses, ["a cat sat"], counts=counted.counts)
    exact = minrisk.Standard(ChrF()).rank([others])[0].utility
    found = Study(ChrF(), [others], []).evaluate(others).gain
    assert_close(found, exact.max() - exact @ [1, 2, 5] / 8, scale=100)


def test_judgements_survive_json():
    segment = Study(ChrF(), [Segment(HYPS)], ["n-by-s"]).evaluate(Segment(HYPS))
    assert TrialResults.from_json(json.loads(json.dumps(segment.as_json())),
                                     list(segment.outcomes)) == segment


@pytest.mark.parametrize(("before", "after", "message"), [
    (b'"outcomes"', b'"outc\xffmes"', "found byte 0xff"), (b'"gain"', b'"gai\\"', "invalid JSON"),
    (b'"outcomes"', b'"outcomez"', "'outcomes'"),
    (b'"standard"', b'"standart"', "'standard'"),
    (b'"first": true', b'"first": null', "first"),
    (b'{"first"', b'["first"', "invalid JSON"), (b'"features": 0', b'"features": "', "invalid"),
])
def test_results_that_were_damaged_are_told(samples, tmp_path, before, after, message):
    out = tmp_path / "out.jsonl"
    args = ("validate", samples, "--strategy", "aggregate", "-o", out)
    assert run(*args).code == 0
    out.write_bytes(out.read_bytes().replace(before, after, 1))  # of the same size
    result = run(*args, "--resume")
    assert (result.code, result.out) == (2, "")
    assert f"{out}:1: " in result.err
    assert message in result.err


def test_ids_may_have_any_character(tmp_path):
    record = {"id": "a\u2028b\x85c\ud800", "samples": HYPS}
    path = write(tmp_path / "in.jsonl", json.dumps(record))
    assert run("validate", path, "--strategy", "aggregate").code == 0


def test_a_gain_that_rounding_makes_negative_is_summed_up():
    segment = TrialResults(-1e-17, 3, 0.1, {EXACT.label: TrialResult(True, True, 0.0, 9, 0.1)})
    summary = summarise([EXACT], [segment])
    assert summary.recommended is summary.fewest_pairs is summary.exact


def test_what_a_metric_cannot_do_is_left_out_and_told():
    notes = []
    study = Study(Overlap(), [Segment(HYPS)], STRATEGIES.names(), note=notes.append)
    assert {trial.strategy for trial in study.trials} >= {"standard", "n-by-s"}
    assert "aggregate" not in {trial.strategy for trial in study.trials}
    notes = [*map(str, notes)]
    assert sum(note.startswith("without aggregate: ") and "'overlap' does not" in note
               for note in notes) == 1
    assert any("without coarse-to-fine: " in note and "coarse=" in note for note in notes)


def test_a_strategy_that_is_named_and_cannot_run_is_an_error(tmp_path):
    path = write(tmp_path / "in.jsonl", {"samples": HYPS})
    result = run("validate", path, "--strategy", "n-by-s", "--strategy", "centroid", "-q")
    assert result.code == 2
    assert "centroid" in result.err
    with pytest.raises(minrisk.InputError, match="mbr-bon"):
        minrisk.validate([HYPS], strategies=["mbr-bon"])


def test_strategies_with_other_aims_are_named_as_not_tried(tmp_path):
    others = [name for name in sorted(STRATEGIES.builtin)
              if not getattr(STRATEGIES.get(name), "approximates_standard", True)]
    wanted = f"without {', '.join(others)}: they do not approximate standard MBR"
    result = run("validate", write(tmp_path / "in.jsonl", {"samples": HYPS}))
    assert f"minrisk: left out {', '.join(others)}, " in result.err
    assert wanted in minrisk.validate([HYPS]).skipped
    named = run("validate", tmp_path / "in.jsonl", "--strategy", "medoids")
    assert named.code == 0
    assert "left out" not in named.err


def test_what_is_left_out_is_one_line_and_naming_it_says_why(tmp_path):
    samples = write(tmp_path / "in.jsonl", {"samples": HYPS})
    result = run("validate", samples)
    assert sum("left out" in line for line in result.err.splitlines()) == 1
    names = result.err.partition("left out ")[2].partition(";")[0].split(", ")
    reasons = minrisk.validate([HYPS]).skipped
    assert [name for reason in reasons
            for name in reason.partition(":")[0].removeprefix("without ").split(", ")] == names
    for name in {"centroid", "rerank", "coarse-to-fine"} & {*names}:
        told = run("validate", samples, "--strategy", name)
        assert told.code == 2
        assert f"cannot try {name}: strategy '{name}' needs " in told.err


def test_stages_of_a_cascade_are_given_as_to_decode(tmp_path):
    samples = write(tmp_path / "in.jsonl", *({"samples": [f"{text} {i}" for text in HYPS]}
                                            for i in range(3)))
    stages = ["--coarse", "n-by-s", "--coarse.subset", 3, "--coarse.metric", "bleu",
              "--fine", "aggregate"]
    found = run("validate", samples, "--strategy", "cascade", *stages, "--format", "json")
    assert found.code == 0, found.err
    made = json.loads(found.out)
    assert {trial["strategy"] for trial in made["trials"]} == {"standard", "cascade"}
    same = minrisk.validate(str(samples), strategies=["cascade"],
                            coarse=minrisk.NByS("bleu", 3), fine="aggregate")
    assert same.signature == made["signature"]
    [half] = [trial for trial in made["trials"] if trial["budget"] == "keep n/2"]
    decoded = run("decode", samples, "--strategy", "cascade", *stages, "--keep",
                  round(len(HYPS) / 2), "--utilities")
    pairs = [record["pairs"] for record in decoded.records]
    assert half["pairs"] == pytest.approx(sum(pairs) / len(pairs))
    both = run("validate", samples, "--strategy", "cascade", "--strategy", "coarse-to-fine",
               *stages)
    assert "--coarse" in both.err
    with pytest.raises(minrisk.InputError, match="fine="):
        minrisk.validate([HYPS], fine="aggregate")


def test_no_single_segment_decides_what_is_tried():
    segments = [Segment([f"cat {i}" for i in range(n)]) for n in (1, 8, 9)]
    assert [trial.label for trial in trials(["n-by-s"], segments)] == [
        "n-by-s subset n/2", "n-by-s subset n/4", "n-by-s subset n/8"]


POOR = [["one"], ["same", "same", "same"], ["two", "texts"], [""]]


@pytest.mark.parametrize("first", POOR, ids=len)
def test_a_poor_first_segment_changes_no_trial(tmp_path, first):
    rest = [{"samples": [f"{text} {i}" for text in HYPS]} for i in range(3)]
    plain = run("validate", write(tmp_path / "plain.jsonl", *rest), "--format", "json")
    poor = run("validate", write(tmp_path / "poor.jsonl", {"samples": first}, *rest),
               "--format", "json")
    assert poor.code == 0, poor.err
    found = [[(t["strategy"], t["budget"]) for t in json.loads(result.out)["trials"]]
             for result in (plain, poor)]
    assert found[0] == found[1]
    left_out = [result.err.partition("left out ")[2].partition(";")[0] for result in (plain, poor)]
    assert left_out[0] == left_out[1]
    assert "centroid" in left_out[0]


@pytest.mark.parametrize("samples", POOR)
def test_poor_segments_alone_are_no_mistake(tmp_path, samples):
    result = run("validate", write(tmp_path / "poor.jsonl", {"samples": samples}))
    assert result.code == 0, result.err
    assert "centroid" in result.err.partition("left out ")[2].partition(";")[0]


def test_segments_before_a_broken_input_are_kept(samples, tmp_path):
    whole = gzip.compress(samples.read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[:-12])
    result = run("validate", tmp_path / "cut.jsonl.gz", "-o", tmp_path / "out.jsonl")
    assert result.code == 2
    assert "truncated gz" in result.err
    assert "--resume continues" in result.err


def test_real_samples_give_the_known_accuracy(ntrex):
    """That of all 200 segments is known from the tests of strategies."""
    segments = [Segment(r["samples"], position=i) for i, r in enumerate(ntrex[:40])]
    study = Study(ChrF(), [segments[0]], [])
    study.trials = [EXACT, Trial("aggregate")]
    found = [study.evaluate(segment).outcomes["aggregate"] for segment in segments]
    assert (sum(o.first for o in found), sum(o.among for o in found)) == (30, 39)


def summary_of(*rows, tolerance=None):
    """A summary of one segment; a row is strategy, loss, pairs and seconds."""
    made = {name: TrialResult(lost == 0, True, lost, pairs, seconds)
            for name, lost, pairs, seconds in rows}
    segment = TrialResults(10.0, 8, 0.5, made)
    return summarise([Trial(name) for name in made], [segment, segment], tolerance)


def test_the_recommended_is_the_cheapest_within_the_tolerance():
    rows = [("standard", 0, 64, 3.5), ("fast", 0.09, 16, 1), ("few", 0.05, 8, 2),
            ("bad", 0.2, 1, 0.1)]
    found = summary_of(*rows)
    assert found.tolerance == pytest.approx(0.1)  # 1% of the gain
    assert found.recommended.trial.strategy == found.fastest.trial.strategy == "fast"
    assert found.fewest_pairs.trial.strategy == "few"
    assert found.fastest.seconds == 1.5  # with the features
    assert summary_of(*rows, tolerance=0.3).fastest.trial.strategy == "bad"
    assert summary_of(*rows, tolerance=0).recommended.trial.strategy == "standard"


@pytest.mark.parametrize(("count", "share"), [(40, 0.15), (20, 0.3), (20, 0.15)])
def test_a_loss_must_be_tolerable_at_the_upper_end_of_its_interval(count, share):
    """By the mean alone, it would be recommended in 2 of 5 cases and more, and by percentiles of
    resampled means in one of 8 and more, as few segments lose.
    """
    rng, recommended = np.random.default_rng(0), 0
    for _ in range(200):  # 0.115 in the mean
        losses = rng.exponential(0.115 / share, count) * (rng.random(count) < share)
        segments = [TrialResults(10.0, 8, 0.0, {
            "standard": TrialResult(True, True, 0.0, 64, 1.0),
            "fast": TrialResult(not loss, True, loss, 8, 0.1)}) for loss in losses.tolist()]
        found = summarise([EXACT, Trial("fast")], segments)
        row = found.rows[1]
        assert row.lost_low <= row.lost <= row.lost_high
        recommended += found.recommended is row
        assert (found.recommended is row) == (row.lost_high <= found.tolerance)
    assert recommended / 200 < 0.1


def test_exact_is_recommended_where_others_are_hardly_faster():
    found = summary_of(("standard", 0, 64, 1.0), ("fast", 0.01, 8, 0.4))
    assert found.fastest.trial.strategy == "fast"
    assert found.recommended is found.exact


@pytest.fixture
def samples(tmp_path):
    return write(tmp_path / "samples.jsonl",
                 *({"id": f"s{i}", "samples": [*HYPS[i:], *HYPS[:i]]} for i in range(6)))


def test_the_summary_is_a_table_with_a_recommendation(samples):
    result = run("validate", samples, "--top", 3)
    assert result.code == 0
    lines = result.out.split("\n")
    assert lines[0].split() == ["strategy", "budget", "top-1", "top-3", "lost", "up", "to", "pairs",
                                "ms"]
    assert lines[1].split()[:6] == ["standard", "100.0%", "100.0%", "0", "0", "49"]
    assert sum(line.startswith("n-by-s ") for line in lines) == 3
    assert "Means over 6 segments of 8 references" in result.out
    assert "By time:  " in result.out
    assert "By pairs: " in result.out


def test_the_summary_as_json_has_every_trial(samples):
    found = json.loads(run("validate", samples, "--format", "json", "--tolerance", 100).out)
    assert found["segments"] == 6
    assert found["tolerance"] == 100
    assert found["trials"][0] | {"seconds": 0} == {
        "strategy": "standard", "budget": "", "first": 1, "among": 1, "lost": 0,
        "lost_low": 0, "lost_high": 0, "pairs": 49,
        "seconds": 0}
    assert found["signature"].startswith("metric:chrf|metric.order:6|")
    assert {t["strategy"] for t in found["trials"]} >= {"standard", "n-by-s", "aggregate"}


def test_strategies_can_be_chosen_and_given_what_they_need(samples):
    result = run("validate", samples, "--format", "json", "--strategy", "coarse-to-fine",
                 "--coarse", "chrf", "--coarse.order", 1, "--metric.order", 2)
    found = json.loads(result.out)
    assert {t["strategy"] for t in found["trials"]} == {"standard", "coarse-to-fine"}
    assert "|metric.order:2|" in "|" + found["signature"]
    assert "|coarse:chrf|coarse.order:1|" in found["signature"]


def judged(path):
    """The results of a run but for its times."""
    entries = read(path.read_text())
    for entry in entries:
        del entry["features"]
        for outcome in entry["outcomes"].values():
            del outcome["seconds"]
    return entries


def waits(tmp_path):
    """Arguments of a run that stays at its fifth segment of eight."""
    texts = [[f"{hyp} {i}" for hyp in HYPS] for i in range(8)]
    texts[4].append("wait")
    samples = write(tmp_path / "x.jsonl", *({"id": i, "samples": own}
                                            for i, own in enumerate(texts)))
    return "validate", samples, "--metric", "python:faults:waiting"


def test_a_run_that_was_stopped_is_resumed_and_no_segment_is_done_again(tmp_path, hold):
    args, output = waits(tmp_path), tmp_path / "out.jsonl"
    with spawn(*args, "-o", output, cwd=SUPPORT) as process:
        wait_for(hold.with_suffix(".reached").exists)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in error
    assert b"--resume continues" in error
    assert not output.exists()
    hold.unlink()
    result = run(*args, "-o", output, "--resume")
    assert "4 segments finished" in result.err
    assert "Means over 8 segments" in result.out
    assert [entry["id"] for entry in judged(output)] == list(range(8))


@pytest.mark.parametrize("args", [["--top", "5"], ["--strategy", "n-by-s"]])
def test_another_run_is_not_gone_on_with(samples, tmp_path, args):
    output = tmp_path / "out.jsonl"
    assert run("validate", samples, "-o", output).code == 0
    before = output.read_bytes()
    result = run("validate", samples, "-o", output, "--resume", *args)
    assert result.code == 2
    assert "cannot resume" in result.err
    assert output.read_bytes() == before


def test_figures_are_drawn(samples, tmp_path):
    pytest.importorskip("matplotlib")
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    assert run("validate", samples, "--plot", png, "--plot", svg).code == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text()
    assert "<svg" in text
    for shown in ("Top-1 accuracy", "Top-20 accuracy", "n-by-s", "aggregate-to-fine"):
        assert f"<!-- {shown} -->" in text


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_a_figure_is_written_whole_or_not_at_all(samples, tmp_path):
    pytest.importorskip("matplotlib")
    code = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "import matplotlib.font_manager; "  # which may write a cache
            "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
            "from minrisk.cli import main; sys.exit(main())")
    args = ["validate", samples, "--strategy", "aggregate", "--plot", tmp_path / "a.svg"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True)
    assert done.returncode == 2
    assert b"cannot write" in done.stderr
    assert not [*tmp_path.glob("*a.svg*")]


def test_the_same_figure_is_the_same_file(samples, tmp_path):
    pytest.importorskip("matplotlib")
    kinds = ("svg", "pdf", "png")
    plots = [tmp_path / f"{name}.{kind}" for kind in kinds for name in ("one", "two")]
    assert run("validate", samples, *(arg for plot in plots for arg in ("--plot", plot))).code == 0
    for one, two in zip(plots[::2], plots[1::2], strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert b"<dc:date>" not in one.read_bytes()
        assert b"CreationDate" not in one.read_bytes()


@pytest.mark.parametrize(("args", "message"), [
    ("@none.jsonl", "cannot read"),
    ("@empty.jsonl", "empty.jsonl: no segments"),
    ("@bad.jsonl --on-error stop", "error: @bad.jsonl:2: found invalid JSON"),
    ("@x.jsonl --resume", "--output"),
    ("@x.jsonl -o @x.jsonl", "the output is the input"),
    ("@x.jsonl -o @text", "text exists"),
    ("@x.jsonl -o @text --resume", "text exists"),
    ("@x.jsonl -o @none/out", "cannot write"),
    ("@x.jsonl --plot @a.gif", ".png"),
    ("@x.jsonl --strategy none", "'none'"),
    ("@x.jsonl --metric none", "'none'"),
    ("@x.jsonl --metric.oder 2", "'--metric.order'?"),
    ("@x.jsonl --coarse none", "'none'"),
    ("@x.jsonl --tolerance nan", "--tolerance"),
    ("@x.svg --plot @x.svg", "the output is the input"),
    ("@x.jsonl --plot @y.svg -o @y.svg", "y.svg"),
])
def test_what_makes_no_sense_is_told(tmp_path, args, message):
    write(tmp_path / "x.jsonl", {"samples": HYPS})
    write(tmp_path / "x.svg", {"samples": HYPS})
    write(tmp_path / "bad.jsonl", {"samples": HYPS}, "{")
    write(tmp_path / "empty.jsonl")
    write(tmp_path / "text", "some text")
    result = run("validate", *args.replace("@", f"{tmp_path}/").split())
    assert result.code == 2
    assert message.replace("@", f"{tmp_path}/") in result.err.strip().split("\n")[-1]
    assert "Traceback" not in result.err


def test_bad_segments_are_told_and_left_out(tmp_path):
    path = write(tmp_path / "x.jsonl", {"samples": HYPS}, {"id": 1, "error": "no samples"},
                 {"samples": HYPS})
    result = run("validate", path)
    assert result.code == SOME_FAILED
    assert "x.jsonl:2: has no samples" in result.err
    assert "Means over 2 segments" in result.out


def test_a_metric_that_needs_a_source_says_so():
    @dataclass(frozen=True)
    class Sourced(Overlap):
        needs_source: ClassVar[bool] = True

    with pytest.raises(InputError, match="source"):
        Study(Sourced(), [Segment(HYPS)], ["n-by-s"])


@dataclass(frozen=True)
class Clusters:
    """refuses to make more than one group, as clustering does where there are no vectors"""

    name: ClassVar[str] = "clusters"
    metric: object
    groups: int = 1

    def rank(self, segments):
        if self.groups > 1:
            raise InputError("no vectors")
        return minrisk.Standard(self.metric).rank(segments)


def test_a_strategy_that_cannot_do_some_budgets_is_left_out_with_all(monkeypatch):
    with_budget(monkeypatch, Clusters, "clusters", Budget("groups", "references", (1 / 8, 1 / 16)))
    notes = []
    segment = Segment([f"{i} cats" for i in range(32)])
    study = Study(ChrF(), [segment], ["clusters"], note=notes.append)
    assert study.trials == [EXACT]
    assert [*map(str, notes)] == ["without clusters: no vectors"]
