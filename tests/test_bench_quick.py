"""The quick benchmark writes what its comparison reads; no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from project import ROOT

FOLDER = ROOT / "benchmarks" / "quick"
OLD = {"machine": {"name": "a", "cpu": "x", "minrisk": "0.1.0", "numpy": "2.0"},
       "times": {"import minrisk": {"median": 0.5, "min": 0.4}, "same": {"median": 1, "min": 1},
                 "decode": {"median": 2, "min": 1}, "old one": {"median": 2, "min": 2}}}
NEW = {"machine": {"name": "a", "cpu": "x", "minrisk": "0.2.0", "numpy": "2.0"},
       "times": {"import minrisk": {"median": 0.3, "min": 0.2}, "same": {"median": 2, "min": 1.05},
                 "decode": {"median": 2, "min": 1.5}, "new one": {"median": 3, "min": 3}}}


def compare(tmp_path, old, new, *options: str) -> subprocess.CompletedProcess[str]:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, content in zip(paths, (old, new), strict=True):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return subprocess.run([sys.executable, str(FOLDER / "compare.py"), *map(str, paths), *options],
                          capture_output=True, text=True)


def test_the_comparison_shows_what_is_faster_slower_new_and_gone(tmp_path):
    lines = compare(tmp_path, OLD, NEW).stdout.splitlines()
    assert lines[0] == "minrisk: 0.1.0 -> 0.2.0"
    assert "numpy" not in "".join(lines)
    ends = {line[:14].rstrip(): line.split("ms")[-1].strip(" -") for line in lines[2:]}
    assert ends == {"import minrisk": "2.00x faster", "same": "", "decode": "1.50x slower",
                    "old one": "gone", "new one": "new"}


def test_a_change_within_the_tolerance_is_not_marked(tmp_path):
    found = compare(tmp_path, OLD, NEW, "--tolerance", "0.6").stdout
    assert "faster" in found
    assert "slower" not in found


def test_times_of_another_machine_are_said_not_to_be_comparable(tmp_path):
    warning = "These are different machines"
    assert warning not in compare(tmp_path, OLD, NEW).stdout
    assert warning in compare(tmp_path, OLD, NEW | {"machine": {"name": "b", "cpu": "x"}}).stdout


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"machine": {}, "times": {"a": 1}}',
                                     '{"machine": {}, "times": {"a": {"min": 1}}}'])
def test_a_file_that_is_no_benchmark_is_told_in_one_line(tmp_path, content):
    done = compare(tmp_path, OLD, content)
    assert done.returncode == 1
    assert "new.json" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_the_benchmark_writes_can_be_compared(tmp_path):
    path = tmp_path / "found.json"
    subprocess.run([sys.executable, str(FOLDER / "run.py"), "--output", str(path), "--samples", "8",
                    "--turns", "1", "--repeats", "1", "--segments", "1"], check=True)
    found = json.loads(path.read_text())
    assert {"name", "cpu", "cores", "python", "minrisk", "fastchrf"} <= found["machine"].keys()
    assert {"import minrisk", "chrf exact, 8 samples, minrisk", "bleu exact, 8 samples, minrisk",
            "decode 64 segments of 16 samples"} <= found["times"].keys()
    assert all(timed["min"] <= timed["median"] for timed in found["times"].values())
    assert "x slower" not in compare(tmp_path, found, found).stdout
