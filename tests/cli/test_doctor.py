"""`minrisk doctor`: what is installed, and whether the numbers are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from commands import run
from minrisk import _native
from minrisk.cli import doctor
from minrisk.version import __version__


@pytest.fixture(autouse=True)
def no_torch(monkeypatch):
    """Importing it takes seconds."""
    monkeypatch.setattr(doctor, "_gpu", lambda: {"problem": "not looked for", "devices": []})


def test_it_shows_versions_the_core_and_scores_as_expected():
    result = run("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"minrisk {__version__}, Python ")
    assert "numpy " in result.out
    assert result.out.count(", as expected\n") == len(doctor._GOLDEN)
    scores = [line.partition(":")[0] for line in result.out.splitlines() if "as expected" in line]
    assert scores[:3] == ["chrf of German", "chrf of Japanese", "chrf word_order=2 of German"]
    assert len(set(scores)) == len(scores)


def test_json_names_the_kernels_of_this_cpu():
    found = json.loads(run("doctor", "--json").out)
    assert found["native_core"]["available"] == _native.available_simd()
    assert all(golden["is_right"] for golden in found["golden_values"])
    assert {golden["metric"] for golden in found["golden_values"]} == {"chrf", "bleu", "ter"}


def test_a_wrong_score_is_shown_and_the_exit_code_is_3(monkeypatch):
    name, options, texts, expected = doctor._GOLDEN[0]
    wrong = (name, options, texts, expected * (1 + 1e-9))
    monkeypatch.setattr(doctor, "_GOLDEN", (wrong, *doctor._GOLDEN[1:]))
    result = run("doctor")
    assert result.code == doctor.WRONG_NUMBERS == 3
    assert result.out.count("WRONG, expected") == 1


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_variables_are_named_and_their_values_are_not_shown(monkeypatch, flags):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("MINRISK_API_KEYS", "another-secret")
    monkeypatch.setenv("UNRELATED_TOKEN", "third-secret")
    out = run("doctor", *flags).out
    assert "OPENAI_API_KEY" in out
    assert "MINRISK_API_KEYS" in out
    assert "UNRELATED_TOKEN" not in out
    assert "secret" not in out


def test_caches_have_their_sizes(tmp_path, monkeypatch):
    work = tmp_path / "minrisk" / "work" / "run"
    work.mkdir(parents=True)
    (work / "part").write_bytes(b"x" * 1000)
    (work / "link").symlink_to(work / "part")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    found = json.loads(run("doctor", "--json").out)
    assert found["caches"] == {str(tmp_path / "minrisk" / "work"): 1000}


def test_without_caches_it_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    out = run("doctor").out
    assert (f"cache: none; neither {tmp_path / 'minrisk' / 'work'} nor "
            f"{tmp_path / 'huggingface' / 'hub'} is a folder\n") in out


def test_a_missing_package_is_shown_with_the_extras_that_need_it(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: [
        "numpy>=1.26", 'no-such>=3; extra == "openai"', "no-such>=3.1; extra == 'serve'"])
    out = run("doctor").out
    assert "\nnot installed: no-such (minrisk[openai] or minrisk[serve])\n" in out


def test_plain_python_is_named_with_its_reason():
    code = "import sys; sys.modules['torch'] = None; from minrisk.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, text=True,
                          env=os.environ | {"MINRISK_CORE": "plain"}, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "native core: MINRISK_CORE selects plain Python\nkernel: plain" in done.stdout
    assert "WRONG" not in done.stdout
    assert "GPU: torch is not installed\n" in done.stdout
