"""A package of somebody else's adds a metric and a strategy by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from project import blocks


@pytest.fixture
def plugin(tmp_path):
    """An installed distribution with the classes of the manual's page, and a broken name."""
    classes = [code for code in blocks("docs/extend.md", "python") if "@dataclass" in code]
    (tmp_path / "theirs.py").write_text("\n".join(classes))
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[minrisk.metrics]\nlength = theirs:Length\nbroken = nowhere:Nothing\n"
        "absent = theirs:Nothing\nplain = json:dumps\n"
        "[minrisk.strategies]\nnewest = theirs:Newest\n"
        "[minrisk.samplers]\nshuffle = theirs:Shuffle\nbroken = nowhere:Nothing\n")

    def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return subprocess.run([sys.executable, "-m", "minrisk", *arguments], input=text,
                              env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)

    return run


def test_a_plug_in_decodes_with_its_own_options(plugin):
    segment = json.dumps({"samples": ["a", "bbbb", "bbbbb", "bbbbbb"]})
    done = plugin("decode", "--metric", "length", "--metric.scale", "2", "--strategy", "newest",
                  "--last", "3", "-", text=segment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "bbbbb"
    assert "strategy:newest|metric:length|metric.scale:2.0|last:3" in done.stderr


def test_a_sampler_of_somebody_else_samples_and_translates(plugin):
    drawn = plugin("sample", "--sampler", "shuffle", "--joint", "-", "-n", "9", text="a b c")
    assert drawn.returncode == 0, drawn.stderr
    record = json.loads(drawn.stdout)
    assert sum(record["counts"]) == 9
    assert all(sorted(sample) == sorted("a-b-c") for sample in record["samples"])
    best = plugin("translate", "--sampler", "shuffle", "--joint", "-", "-n", "9", text="a b c")
    assert best.stdout.strip() in record["samples"]
    assert "sampler:shuffle|joint:-|n:9|" in best.stderr


def test_plug_ins_are_listed_beside_the_built_in_names(plugin):
    metrics = plugin("list", "metrics").stdout
    assert "chrf:" in metrics
    assert "--metric.scale float (1.0)" in metrics
    assert "newest:" in plugin("list", "strategies").stdout
    samplers = plugin("list", "samplers").stdout
    assert "--joint text" in samplers
    assert "broken: not available" in samplers


def test_a_broken_plug_in_is_said_to_be_broken(plugin):
    assert "broken: not available" in plugin("list", "metrics").stdout
    done = plugin("decode", "--metric", "broken", "-", text="{}")
    assert done.returncode == 2
    assert "'nowhere:Nothing'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "message"), [
    ("absent", "'theirs:Nothing'"), ("plain", "dataclass")])
def test_a_name_that_leads_to_no_metric_is_told(plugin, name, message):
    done = plugin("decode", "--metric", name, "-", text="{}")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
