"""References in shards: whoever reads them, and however they are cut, the answer is the same."""

from __future__ import annotations

import gzip
import json
import os
import signal
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minrisk
from commands import run, wait_for
from generators import cases
from minrisk import References
from minrisk._core.process import progress_listener
from minrisk.io.records import Result
from minrisk.io.segments import ReferenceFile
from minrisk.metrics.edit import Edit
from minrisk.tasks.parts import MAX_WAITING, PartSum
from reference_shards import HYPS, REFS, WEIGHTS, shards
from tolerance import assert_close

METRICS = ["chrf", "bleu", "rouge", "exact-match", "chrf*0.5+bleu"]


@pytest.mark.parametrize("strategy", ["aggregate", "standard"])
@given(metric=st.sampled_from(METRICS), case=cases())
def test_shards_of_any_size_and_weight_give_what_all_references_give(strategy, metric, case):
    parts = [[i for i, label in enumerate(case.labels) if label == group]
             for group in range(max(case.labels) + 1)]
    found = minrisk.decode_parts(
        case.hyps, [References([case.refs[i] for i in p], [case.weights[i] for i in p])
                    for p in parts], metric=metric, strategy=strategy)
    whole = minrisk.decode(case.hyps, case.refs, weights=case.weights, metric=metric,
                           strategy=strategy)
    assert_close(found.utility, whole.utility, scale=100)
    assert found.best == whole.best


@given(case=cases(), cut=st.integers(1, 6))
def test_counts_of_references_are_exact_however_they_are_cut(case, cut):
    """Whole numbers add up without rounding."""
    refs = list(case.refs)
    found = minrisk.decode_parts(case.hyps, [refs[i:i + cut] for i in range(0, len(refs), cut)])
    np.testing.assert_array_equal(found.utility, minrisk.decode_parts(case.hyps, [refs]).utility)


@pytest.mark.parametrize("strategy", ["aggregate", "standard"])
def test_processes_change_no_bit(strategy):
    alone, several = (minrisk.decode_parts(HYPS, shards(1, 4), strategy=strategy, **workers)
                      for workers in ({}, {"workers": 2}))
    np.testing.assert_array_equal(several.utility, alone.utility)
    assert several.pairs == alone.pairs


def test_one_large_shard_is_work_for_all(monkeypatch):
    monkeypatch.setattr("minrisk._core.segment.BLOCK", 2)
    told = []
    with progress_listener(lambda *what: told.append(what)):
        found = minrisk.decode_parts(HYPS, shards(), strategy="standard", workers=2)
    assert [(what, done) for what, done, _ in told] == [("parts", 1), ("parts", 2), ("parts", 3)]
    expected = minrisk.decode(HYPS, REFS, weights=WEIGHTS)
    assert_close(found.utility, expected.utility)


def test_a_count_is_as_many_references():
    counted = minrisk.decode_parts(HYPS, [References(["a cat", "dogs"], counts=[3, 1]), ["cats"]])
    repeated = minrisk.decode_parts(HYPS, [["a cat"] * 3 + ["dogs", "cats"]])
    np.testing.assert_array_equal(counted.utility, repeated.utility)


def test_pairs_are_counted_where_they_are_evaluated():
    assert minrisk.decode_parts(HYPS, shards(3), strategy="standard").pairs == 3 * (3 + 3)
    assert minrisk.decode_parts(HYPS, shards(3)).pairs == 3


def test_memory_does_not_grow_with_the_references():
    def peak(count):
        tracemalloc.start()
        minrisk.decode_parts(HYPS, ([f"the cat sat {i} {j}" for j in range(500)]
                                     for i in range(count)))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    assert peak(60) < 1.5 * peak(6)


def test_parts_are_added_in_order_whoever_finishes_first():
    """Letters add up as statistics do."""
    total = PartSum([])
    for index in (2, 1, 4, 0, 3):
        total.add(0, [Result(0, index, 0, "", value="abcde"[index])])
    assert total.total == "abcde"


def test_not_too_many_parts_wait_for_one_before_them(tmp_path, monkeypatch):
    """The first is held until no more are read, or all of them if nothing bounds that."""
    read, waiting, go, is_full = [], [], tmp_path / "go", PartSum.is_full

    def parts():
        for number in range(3 * MAX_WAITING):
            read.append(number)
            yield _HeldFirst(number, go)
        go.touch()

    def let_go(total, memory):
        if found := is_full(total, memory):
            go.touch()
        return found

    monkeypatch.setattr(PartSum, "is_full", let_go)
    with progress_listener(lambda _, done, __: waiting.append(len(read) - done)):
        minrisk.decode_parts(HYPS, parts(), workers=2)
    assert len(read) == 3 * MAX_WAITING
    assert max(waiting) <= MAX_WAITING + 4  # one that each worker has, and one before each door


@pytest.mark.parametrize(("given", "wants"), [
    ({"parts": []}, "one part"),
    ({"parts": [REFS, []]}, "part 2: zero references"),
    ({"parts": [REFS, "a text"]}, "part 2: references"),
    ({"parts": [[1]]}, "part 1: references"),
    ({"parts": [References(REFS, [1.0])]}, "6 weights"),
    ({"parts": [References(["a"], [-1.0], name="x")]}, "x: weights"),
    ({"parts": [References(["a"], [0.0])]}, "positive"),
    ({"parts": [References(["a"], [1.0], name="x"), ["b"]]}, "part 2 has no weights"),
    ({"parts": [["b"], References(["a"], [1.0], name="x")]}, "part 1 has no weights"),
    ({"strategy": "prune"}, "'prune'"),
    ({"strategy": minrisk.Aggregate(minrisk.ChrF(), groups=2)}, "groups=1"),
    ({"metric": Edit()}, "averages"),
    ({"workers": 0}, "workers"),
    ({"address": "auto"}, "engine='ray'"),
    ({"hypotheses": []}, "hypotheses"),
    ({"strategy": minrisk.Standard(minrisk.ChrF()), "metric": "bleu"}, "metric"),
])
def test_what_makes_no_sense_is_told(given, wants):
    with pytest.raises(minrisk.InputError, match=wants):
        minrisk.decode_parts(**{"hypotheses": HYPS, "parts": [REFS]} | given)


def test_an_error_of_a_worker_is_told_as_it_was_raised():
    with pytest.raises(minrisk.InputError, match="part 2"):
        minrisk.decode_parts(HYPS, [REFS, [], REFS], workers=2)


class _Deadly:
    name = "deadly"

    def blocks(self):
        os.kill(os.getpid(), signal.SIGKILL)


class _HeldFirst:
    def __init__(self, number, go):
        self.name, self.go = str(number), go

    def blocks(self):
        wait_for(lambda: self.name != "0" or self.go.exists())
        return References(REFS).blocks()


def test_a_worker_that_is_killed_is_told():
    with pytest.raises(minrisk.MinriskError, match="SIGKILL"):
        minrisk.decode_parts(HYPS, [_Deadly()], workers=2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Hypotheses, and the same references as text, as JSON lines and with weights."""
    monkeypatch.chdir(tmp_path)
    lines = {
        "hyps.txt": HYPS,
        "segment.jsonl": [json.dumps({"id": "s", "source": "die Katze", "samples": HYPS})],
        "a.txt": REFS[:2], "b.txt": REFS[2:], "blank.txt": ["", ""],
        "ab.jsonl": [json.dumps({"references": REFS[:2]}), "", json.dumps({"samples": REFS[2:]})],
        "weighted.jsonl": [json.dumps({"samples": REFS, "weights": WEIGHTS})],
        "counted.jsonl": [json.dumps({"samples": ["a cat", "dogs"], "counts": [3, 1]})],
        "two.jsonl": [json.dumps({"samples": HYPS})] * 2,
        "number.jsonl": [json.dumps({"samples": REFS}), json.dumps({"samples": [1]})],
        "other.jsonl": [json.dumps({"texts": REFS})],
        "mixed.jsonl": [json.dumps({"samples": REFS}),
                        json.dumps({"samples": REFS, "weights": WEIGHTS})],
    }
    for name, content in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "blank.jsonl").write_bytes(b"\n\n")
    (tmp_path / "torn.txt.gz").write_bytes(gzip.compress(b"a cat\n" * 100)[:-9])
    (tmp_path / "latin.txt").write_bytes(b"a cat\nna\xefve\n")
    return tmp_path


def ranked(*args):
    done = run("rank", *args, "-q")
    assert done.code == 0, done.err
    [record] = done.records
    return record


def test_a_warning_of_workers_is_shown_once():
    metric = minrisk.ExactMatch(pattern="#(.*)")
    with pytest.warns(UserWarning, match="none") as shown:
        minrisk.decode_parts(HYPS, [REFS[:2], REFS[:2], REFS[:2]], metric=metric, workers=2)
    of_references = [found for found in shown if "none of 2 texts" in str(found.message)]
    assert len(of_references) == 1


@pytest.mark.parametrize("strategy", ["aggregate", "standard"])
def test_the_command_ranks_as_decode_does(folder, strategy):
    found = ranked("hyps.txt", "a.txt", "b.txt", "--strategy", strategy, "--utilities", "--nbest",
                   2, "--metric.order", 4)
    expected = minrisk.decode(HYPS, REFS, strategy=strategy, metric=minrisk.ChrF(order=4))
    assert found["text"] == HYPS[expected.best]
    assert [choice["index"] for choice in found["nbest"]] == expected.order[:2].tolist()
    assert_close(found["utilities"], expected.utility)


def test_workers_end_without_a_word(folder, capfd):
    """Their features live until they end, which the native core took for leaks."""
    assert run("rank", "hyps.txt", "a.txt", "b.txt", "--workers", 1).code == 0
    assert capfd.readouterr() == ("", "")


def test_an_output_of_the_command_is_replaced_only_if_told(folder):
    path = folder / "best.jsonl.gz"
    assert run("rank", "hyps.txt", "a.txt", "-o", path).code == 0
    before = path.read_bytes()
    again = run("rank", "hyps.txt", "a.txt", "-o", path, "--nbest", "2")
    assert again.code == 2
    assert "best.jsonl.gz exists" in again.err
    assert path.read_bytes() == before
    assert run("rank", "hyps.txt", "a.txt", "-o", path, "--nbest", 2, "--overwrite").code == 0
    assert "nbest" in json.loads(gzip.decompress(path.read_bytes()))


def test_the_format_of_a_shard_does_not_matter(folder):
    text = ranked("hyps.txt", "a.txt", "b.txt", "--utilities")
    assert ranked("hyps.txt", "ab.jsonl", "--utilities") == text
    assert ranked("segment.jsonl", "ab.jsonl", "--utilities", "--workers", 2) == text | {"id": "s"}


def test_weights_and_counts_of_a_shard_count(folder):
    weighted = ranked("hyps.txt", "weighted.jsonl", "--utilities")
    expected = minrisk.decode(HYPS, REFS, weights=WEIGHTS, strategy="aggregate")
    assert_close(weighted["utilities"], expected.utility)
    counted = ranked("hyps.txt", "counted.jsonl", "a.txt", "--utilities")
    expected = minrisk.decode(HYPS, ["a cat"] * 3 + ["dogs", *REFS[:2]], strategy="aggregate")
    assert_close(counted["utilities"], expected.utility)


def test_hypotheses_and_references_may_come_from_standard_input(folder):
    expected = ranked("segment.jsonl", "a.txt")
    for args, name in ((("-", "a.txt"), "segment.jsonl"), (("segment.jsonl", "-"), "a.txt")):
        done = run("rank", *args, "-q", stdin=(folder / name).read_bytes())
        assert done.records == [expected]


def test_a_blank_line_of_text_is_a_reference(folder):
    assert [list(block.texts) for block in ReferenceFile("blank.txt").blocks()] == [["", ""]]


def test_a_file_is_read_a_block_at_a_time(folder, monkeypatch):
    monkeypatch.setattr("minrisk.io.segments.BLOCK", 3)
    assert [list(b.texts) for b in ReferenceFile("b.txt").blocks()] == [REFS[2:5], REFS[5:]]


def test_the_summary_and_the_signature_are_on_standard_error(folder):
    done = run("rank", "hyps.txt", "a.txt", "b.txt")
    assert "strategy:aggregate|metric:chrf" in done.err
    assert "6 references, 3 pairs" in done.err


@pytest.mark.parametrize(("args", "wants"), [
    ("hyps.txt", "'REFERENCES...'"),
    ("hyps.txt a.txt empty.txt", "empty.txt has no references"),
    ("hyps.txt a.txt blank.jsonl", "blank.jsonl has no references"),
    ("hyps.txt a.txt missing.txt", "cannot read missing.txt"),
    ("hyps.txt a.txt torn.txt.gz", "torn.txt.gz: truncated gz"),
    ("hyps.txt a.txt latin.txt", "latin.txt:2: found byte 0xef"),
    ("hyps.txt weighted.jsonl a.txt", "a.txt has no weights"),
    ("hyps.txt mixed.jsonl", "mixed.jsonl:1 has no weights"),
    ("hyps.txt number.jsonl", "number.jsonl:2: references"),
    ("hyps.txt other.jsonl", "other.jsonl:1: found the fields texts"),
    ("empty.txt a.txt", "empty.txt: zero hypotheses"),
    ("two.jsonl a.txt", "two.jsonl has 2 segments"),
    ("number.jsonl a.txt", "number.jsonl has 2 segments"),
    ("hyps.txt a.txt --strategy prune", "--strategy"),
    ("hyps.txt a.txt --metric edit", "'edit'"),
    ("hyps.txt a.txt --workers 0", "--workers"),
    ("hyps.txt a.txt --address auto", "--engine ray"),
    ("hyps.txt a.txt --gpus-per-worker 99", "NVIDIA GPUs"),
    ("hyps.txt a.txt -o hyps.txt", "output is the input"),
    ("hyps.txt - -", "standard input"),
    ("hyps.txt - --workers 2", "standard input"),
])
def test_mistakes_on_the_command_line_are_told_in_one_line(folder, args, wants):
    done = run("rank", *args.split(), "-q")
    assert done.code == 2
    assert wants in done.err
    assert done.err.count("\n") == 1


def test_the_help_names_the_metrics_and_no_strategies_of_other_kinds():
    done = run("rank", "--help")
    assert "--metric.word-order" in done.out
    assert "--engine" in done.out
