"""The command line on systems that lack modules and signals of Linux, which are hidden here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from commands import write
from minrisk.cli.execute import peak_bytes
from minrisk.io.store import try_lock

HIDDEN = ("fcntl", "resource", "termios", "tty", "pwd", "grp", "syslog")
SIGNALS = ("SIGHUP", "SIGALRM", "SIGUSR1", "setitimer", "ITIMER_REAL")
FUNCTIONS = ("pread", "killpg", "fork", "O_CLOEXEC", "sched_getaffinity", "getuid")
# a hook, because a module that is only taken out of sys.modules is found again
BARE = textwrap.dedent("""
    import sys, os, signal, subprocess
    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name in {hidden}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    sys.meta_path.insert(0, Hidden())
    for name in {hidden}:
        sys.modules.pop(name, None)
    for module, names in ((signal, {signals}), (os, {functions})):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
""").format(hidden=HIDDEN, signals=SIGNALS, functions=FUNCTIONS)
MAIN = BARE + "from minrisk.cli import main; sys.exit(main())"


def bare(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run code where the modules, signals and functions are hidden."""
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture
def samples(tmp_path) -> Path:
    return write(tmp_path / "samples.jsonl", {"samples": ["a b", "a b c", "a"]},
                 {"samples": ["x", "x y", "x"]})


def test_the_command_line_starts():
    done = bare(MAIN, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("minrisk, version ")


@pytest.mark.parametrize("output", ["best.jsonl", "out/"])
def test_decoding_into_files_works_and_the_report_has_no_peak_of_memory(samples, tmp_path, output):
    report = tmp_path / "report.json"
    done = bare(MAIN, "decode", samples, "-o", f"{tmp_path}/{output}", "--report", report)
    assert done.returncode == 0, done.stderr
    file = tmp_path / output
    found = file if file.is_file() else file / "samples.jsonl"
    assert len(found.read_text(encoding="utf-8").splitlines()) == 2
    assert json.loads(report.read_text())["driver_peak_bytes"] is None


def test_every_command_can_be_imported():
    code = BARE + textwrap.dedent("""
        import click
        from minrisk.cli import cli
        context = click.Context(cli)
        for name in cli.list_commands(context):
            cli.get_command(context, name)
    """)
    done = bare(code)
    assert done.returncode == 0, done.stderr


def test_a_timeout_of_segments_is_refused_without_interval_timers(samples, tmp_path):
    done = bare(MAIN, "decode", samples, "-o", tmp_path / "best.jsonl", "--segment-timeout", "5")
    assert done.returncode == 2
    assert "--segment-timeout" in done.stderr


def test_the_server_listens_for_the_signals_that_exist():
    pytest.importorskip("aiohttp")
    done = bare(BARE + "from minrisk.server.http import _SIGNALS as found\n"
                "print([s.name for s in found])")
    assert done.stdout == "['SIGTERM', 'SIGINT']\n", done.stderr


def test_a_recorder_removes_an_incomplete_line(tmp_path):
    path = tmp_path / "record.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b":')
    code = BARE + textwrap.dedent("""
        from minrisk.server.monitoring import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.append('{"c": 2}\\n').result()
        recorder.close()
    """)
    done = bare(code, path)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == b'{"a": 1}\n{"c": 2}\n'


def test_a_lock_is_held_by_one_and_ends_with_the_file(tmp_path):
    pytest.importorskip("fcntl")
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert try_lock(first)
    assert not try_lock(second)
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_the_peak_of_memory_is_in_bytes():
    peak = peak_bytes()
    if peak is None:
        pytest.skip("this system does not say")
    assert 10 * 2**20 < peak < 2**45  # Python and NumPy have more than 10 MiB


def test_the_memory_for_samples_has_a_default_where_free_memory_is_unknown(monkeypatch):
    torch = pytest.importorskip("torch")
    engine = pytest.importorskip("minrisk.samplers.hf.engine")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "sysconf_names", raising=False)
    monkeypatch.setattr(engine, "_MEMINFO", "/nowhere")
    assert engine._free_memory(torch.device("cpu")) == engine._DEFAULT_CACHE_BYTES


def test_the_memory_for_samples_is_what_is_available_with_cached_files(monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    engine = pytest.importorskip("minrisk.samplers.hf.engine")
    (tmp_path / "meminfo").write_text("MemFree: 1000 kB\nMemAvailable:    8000 kB\n")
    monkeypatch.setattr(engine, "_MEMINFO", str(tmp_path / "meminfo"))
    found = engine._free_memory(torch.device("cpu"))
    assert found == 8000 * 1024 * engine._CACHE_SHARE
