"""The checked-in table of strategies is what `minrisk validate` found, and its counts add up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from project import ROOT, load_module

FOLDER = ROOT / "benchmarks" / "strategies"


@pytest.fixture
def found():
    return json.loads((FOLDER / "validation.json").read_text(encoding="utf-8"))


@pytest.fixture
def pairs(found):
    return {(trial["strategy"], trial["budget"]): trial["pairs"] for trial in found["trials"]}


def test_the_table_is_made_of_the_results(found):
    table = load_module(FOLDER / "eighth.py").table(found)
    assert table in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", ["chrf", "comet"])
def test_the_tables_of_times_are_made_of_the_results(metric):
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    table = load_module(FOLDER / "run.py").table(results[metric])
    assert table in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_pair_counts_add_up(found, pairs):
    each = found["references"] / 8  # of 1,024 references
    distinct = pairs["aggregate", "groups n/1024"]  # every text against one average
    everything = pairs["standard", ""]
    assert each == 128
    assert everything >= distinct**2  # the mean of squares
    assert pairs["aggregate", "groups n/8"] == pytest.approx(each * distinct)
    assert distinct < pairs["aggregate-to-fine", "keep n/8"] <= (1 + each) * distinct
    for name, budget in (("n-by-s", "subset n/8"), ("coarse-to-fine", "keep n/8"),
                         ("adaptive", "budget n²/8")):
        assert everything / 32 < pairs[name, budget] <= each * distinct
    assert everything / 9 < pairs["low-rank", "budget n²/8"] <= everything / 8
    assert all(pairs["prune", f"alpha {alpha}"] < everything / 8 for alpha in (0.8, 0.9, 0.99))


def test_more_pairs_lose_less(found):
    for name in ("n-by-s", "adaptive", "aggregate-to-fine"):
        lost = [trial["lost"] for trial in found["trials"] if trial["strategy"] == name]
        assert lost[0] <= lost[len(lost) // 2] <= lost[-1]


def test_pair_counts_are_those_of_the_samples(found, pairs, ntrex):
    distinct = np.array([len(set(record["samples"])) for record in ntrex[: found["segments"]]])
    assert pairs["standard", ""] == pytest.approx(np.mean(distinct**2))
    assert pairs["aggregate", "groups n/1024"] == pytest.approx(np.mean(distinct))
