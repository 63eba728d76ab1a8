"""Profiles and data that several test files share."""

from __future__ import annotations

import json
import lzma
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import openai_server
from minrisk.openai import client
from minrisk.run.workers import Inline
from project import ROOT, SHARED

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anybody imports what reads it

settings.register_profile(
    "default", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

# Files that share what is expensive to start: a Ray cluster, a process that has imported torch.
TOGETHER = {"test_ray": "ray", "test_engines": "ray", "test_reference_parts_ray": "ray",
            "test_comet": "warm", "test_comet_kernels": "warm", "test_hf_kernels": "warm",
            "test_local": "warm", "test_model_folders": "warm"}
# More than eight seconds each. They come first: were one last, the other processes would wait.
LONGEST = ("ray", "warm", "test_serve_content", "test_page", "test_manual", "test_hf_drawing",
           "test_crashes", "test_every_metric", "test_strategy_matrix", "test_processes",
           "test_reference_parts", "test_native", "test_cli")


def pytest_collection_modifyitems(items):
    """All processes that share the tests have the same names, without addresses, in one order."""
    names = [item.nodeid for item in items if re.search(" at 0x[0-9a-f]", item.nodeid)]
    if names:
        raise pytest.UsageError(f"give ids to the parameters of {names[0]}")
    items.sort(key=lambda item: LONGEST.index(group) if (group := _group(item.nodeid)) in LONGEST
               else len(LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file runs in one process, for its tests share models, servers and imports.

    `xdist_group` would do, were it not ignored by pytest-xdist 3.8 with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Grouped(config, log)


def _group(nodeid: str) -> str:
    name = Path(nodeid.partition("::")[0]).stem
    return TOGETHER.get(name, name)


_SKIPPED_FILES: dict[str, str] = {}  # and why; tests of theirs are never collected


def pytest_collectreport(report):
    if report.skipped:
        _SKIPPED_FILES[report.nodeid] = report.longrepr[2]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist, which does not tell
        session.config.workeroutput["skipped_files"] = _SKIPPED_FILES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _SKIPPED_FILES.update(getattr(node, "workeroutput", {}).get("skipped_files", {}))


def pytest_terminal_summary(terminalreporter):
    """What would make the skipped tests run, and how many examples the fuzz tests have seen, where
    somebody gave them time.
    """
    tests = [report.longrepr[2] for report in terminalreporter.getreports("skipped")
             if isinstance(report, pytest.TestReport) and not hasattr(report, "wasxfail")]
    for what, reasons in (("tests", tests), ("files", _SKIPPED_FILES.values())):
        for reason, count in Counter(reasons).most_common():
            why = reason.removeprefix("Skipped: ")
            terminalreporter.write_line(f"skipped {what}: {count:>4}  {why}")
    for report in terminalreporter.getreports("passed") if "FUZZ_SECONDS" in os.environ else ():
        for name, value in report.user_properties:
            if report.when == "call" and name == "examples":
                terminalreporter.write_line(f"{value:>9,} examples  {report.nodeid}")


@pytest.fixture
def server(monkeypatch):
    """An OpenAI-like server on this machine that fails as it is told to."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with openai_server.serving() as found:
        yield found


@pytest.fixture
def inline(monkeypatch) -> None:
    """Without processes, whose start takes a hundred times as long as all the rest."""
    monkeypatch.setattr("minrisk.run.processes.Processes", Inline)


@pytest.fixture
def hold(tmp_path, monkeypatch) -> Path:
    """While it is there, the metric python:faults:waiting does not get past the word `wait`."""
    flag = tmp_path / "hold"
    flag.touch()
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(flag))
    return flag


@pytest.fixture(scope="session")
def bundled() -> list[dict[str, object]]:
    """The 30 real segments of the demo, with 1024 samples each."""
    path = ROOT / "src" / "minrisk" / "data" / "demo.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def fastchrf_samples() -> list[str]:
    """1024 distinct real samples of one source."""
    path = SHARED / "fastchrf-samples.txt"
    if not path.exists():
        pytest.skip(f"needs {path.name} beside the project")
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def ntrex() -> list[dict[str, object]]:
    """200 real segments with 1024 samples each."""
    path = SHARED / "samples" / "ntrex-en-fr.jsonl.xz"
    if not path.exists():
        pytest.skip(f"needs {path.name} beside the project")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
