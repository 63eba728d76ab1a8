"""Folders of shards at URLs, whose file systems know whole files only."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from commands import run, spawn, write
from minrisk.cli import SOME_FAILED
from minrisk.cli.execute import CommandRun
from minrisk.io.inputs import expand
from project import SUPPORT
from shard_folders import (
    errors,
    lines,
    partials,
    segments,
    wait_for_results,
    write_shards,
)

fsspec = pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
from object_store import Bucket  # noqa: E402 - it needs fsspec

URL = "bucket://out/"
start = partial(spawn, modules="object_store", cwd=SUPPORT)


@pytest.fixture(autouse=True)
def _inline(monkeypatch) -> None:
    """No workers unless a test asks for some, also for folders: URLs are the driver's business."""
    monkeypatch.setattr(CommandRun, "is_command", False)


@pytest.fixture
def inputs(tmp_path) -> Path:
    return write_shards(tmp_path / "in")


@pytest.fixture
def few(tmp_path) -> list[Path]:
    """Shards that even a slow metric is through with in a few seconds."""
    return [write(tmp_path / f"{number}.jsonl", *segments(count, number))
            for number, count in enumerate((5, 0, 2, 9))]


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """The user's cache, in which working folders are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "minrisk" / "work"


@pytest.fixture
def out(tmp_path, work, monkeypatch) -> Path:
    """What is at the URL."""
    monkeypatch.setenv("MINRISK_TEST_BUCKET", str(tmp_path / "bucket"))
    monkeypatch.setattr(Bucket, "failing", {})
    Bucket.uploads.clear()
    return tmp_path / "bucket" / "out"


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    """What a folder of this machine gets from the shards in `inputs`."""
    folder = tmp_path_factory.mktemp("expected")
    inputs = write_shards(folder / "in")
    assert run("decode", f"{inputs}/*", "-o", f"{folder}/out/", "--workers", "1").code == 0
    return lines(folder / "out")


@pytest.mark.parametrize("scale", [(), ("--workers", "2", "--batch-size", "5")])
def test_a_url_gets_the_bytes_of_a_folder(inputs, out, work, expected, scale):
    result = run("decode", f"{inputs}/*", "-o", URL, *scale)
    assert result.code == 0, result.err
    assert lines(out) == expected
    assert {path.name for path in out.iterdir()} == {*expected, ".manifest.json", ".errors.jsonl"}
    assert errors(out) == []
    assert f"unfinished results are in {work}" in result.err
    assert list(work.rglob("*.*")) == []


def test_shards_below_and_compressed_are_found_again(tmp_path, out):
    content = "".join(json.dumps(s) + "\n" for s in segments(9)).encode()
    for name in ("a/x.jsonl.gz", "b/c/x.jsonl.gz"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(gzip.compress(content))
    args = ("decode", f"{tmp_path}/in/**/*.gz", "-o")
    assert run(*args, URL).code == run(*args, f"{tmp_path}/here/").code == 0
    assert set(lines(out)) == {"a/x.jsonl.gz", "b/c/x.jsonl.gz"}
    assert lines(out) == lines(tmp_path / "here")
    result = run(*args, URL, "--resume")
    assert "2 of 2 shards and 18 segments finished" in result.err


def test_memory_is_a_file_system_too(inputs, work, expected):
    system = fsspec.filesystem("memory")
    try:
        assert run("decode", f"{inputs}/*", "-o", "memory://out/").code == 0
        assert "4 of 4 shards" in run("decode", f"{inputs}/*", "-o", "memory://out/",
                                      "--resume").err
        assert {name: system.cat_file(f"/out/{name}") for name in expected} == expected
    finally:
        system.store.clear()


def test_a_url_of_this_machine_is_its_folder(inputs, work, tmp_path, expected):
    result = run("decode", f"{inputs}/*", "-o", f"file://{tmp_path}/out/")
    assert result.code == 0
    assert lines(tmp_path / "out") == expected
    assert not work.exists()


def test_the_working_folder_may_be_named(inputs, tmp_path, out, work, expected):
    result = run("decode", f"{inputs}/*", "-o", URL, "--work", tmp_path / "mine")
    assert result.code == 0
    assert f"unfinished results are in {tmp_path}/mine/" in result.err
    assert not work.exists()


@pytest.mark.parametrize("output", ["out/", "out.jsonl"])
def test_a_working_folder_is_for_urls(inputs, tmp_path, output):
    result = run("decode", f"{inputs}/0.jsonl", "-o", f"{tmp_path}/{output}",
                 "--work", tmp_path / "mine")
    assert result.code == 2
    assert "--work" in result.err


@pytest.mark.parametrize("name", ["3.jsonl", ".errors.jsonl", ".manifest.json"])
def test_an_upload_that_fails_is_told_and_gone_on_from(inputs, out, work, name, tmp_path):
    """With what test_crashes.py says of the files, and a message."""
    write(inputs / "5.jsonl", {"id": "x", "samples": ["bad"]}, *segments(3, 5))
    args = ("decode", f"{inputs}/*", "--metric", "python:faults:equal", "-o")
    assert run(*args, f"{tmp_path}/here/").code == SOME_FAILED
    Bucket.failing[name] = OSError("connection reset by peer")
    result = run(*args, URL)
    assert result.code == 2
    assert f"cannot write {URL}{name}: " in result.err
    assert "Traceback" not in result.err
    seen = (out / name).read_bytes() if (out / name).exists() else b""
    assert seen in (b"", (tmp_path / "here" / name).read_bytes())
    assert run(*args, URL, "--resume").code == SOME_FAILED
    assert lines(out) == lines(tmp_path / "here")
    assert errors(out) == errors(tmp_path / "here")


def test_errors_are_kept_with_their_shards(tmp_path, out, work):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "ab":
        write(folder / f"{name}.jsonl", {"id": name, "samples": ["bad"]}, *segments(3))
    args = ("decode", f"{folder}/*", "-o", URL, "--metric", "python:faults:equal")
    assert run(*args).code == SOME_FAILED
    assert [failure["id"] for failure in errors(out)] == ["a", "b"]
    (out / "a.jsonl").unlink()
    shutil.rmtree(work)
    assert run(*args, "--resume").code == SOME_FAILED
    assert [failure["id"] for failure in errors(out)] == ["a", "b"]


def test_errors_are_seen_even_if_no_shard_is_finished_after_them(tmp_path, out):
    content = gzip.compress("".join(json.dumps(s) + "\n" for s in segments(300)).encode())
    (tmp_path / "in.jsonl.gz").write_bytes(content[: len(content) // 2])
    assert run("decode", tmp_path / "in.jsonl.gz", "-o", URL).code == SOME_FAILED
    [failure] = errors(out)
    assert "truncated gz" in failure["reason"]
    assert lines(out) == {}


def test_a_folder_that_was_removed_is_begun_anew(tmp_path, out, work):
    """What failed in it is tried again, although blocks of it may be left on this machine."""
    path = write(tmp_path / "in.jsonl", {"id": "x", "samples": ["bad"]}, *segments(3))
    args = ("decode", path, "-o", URL, "--metric", "python:faults:equal", "--batch-size", "1")
    Bucket.failing["in.jsonl"] = OSError("connection reset by peer")
    assert run(*args).code == 2
    assert partials(work)
    shutil.rmtree(out)
    result = run(*args, "--resume")
    assert result.code == SOME_FAILED
    assert "0 of 1 shards and 0 segments finished" in result.err
    assert [failure["id"] for failure in errors(out)] == ["x"]


@pytest.mark.parametrize("name", ["../../victim", "/victim", "0123456789abcdef"])
def test_a_manifest_at_a_url_names_no_folder_of_this_machine(few, out, work, tmp_path, name):
    """Whoever may write to the bucket may not write here."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "0.jsonl.partial").write_text("precious")
    args = ("decode", *few, "-o", URL, "--workers", "1")
    assert run(*args).code == 0
    manifest = json.loads((out / ".manifest.json").read_text())
    del manifest["finished"]["0.jsonl"]
    run_name = str(victim) if name.startswith("/") else name
    (out / ".manifest.json").write_text(json.dumps(manifest | {"run": run_name}))
    result = run(*args, "--resume")
    assert result.code == 2
    assert ".manifest.json" in result.err
    assert [path.name for path in victim.iterdir()] == ["0.jsonl.partial"]


@pytest.mark.parametrize(("word", "failed"), [("good", []), ("bad", ["x", "y"])])
def test_two_runs_do_not_share_a_url(tmp_path, out, work, word, failed):
    """On one machine the second does not begin; of two, the one that comes second stops."""
    one = write(tmp_path / "1.jsonl", {"id": "x", "samples": [word]}, *segments(8))
    two = write(tmp_path / "2.jsonl", {"id": "y", "samples": [word]}, *segments(2))
    args = ("decode", one, two, "-o", URL, "--metric", "python:faults:slow", "--workers", "1",
            "--batch-size", "1")
    with start(*args) as process:
        wait_for_results(process, work)
        process.send_signal(signal.SIGSTOP)
        here = run(*args, "--resume")
        there = run(*args, "--resume", "--work", tmp_path / "another-machine")
        whole = {path.name: path.read_bytes() for path in out.iterdir()}
        process.send_signal(signal.SIGCONT)
        _, error = process.communicate(timeout=60)
    assert here.code == process.returncode == 2
    assert f"another run is writing to {URL}" in here.err
    assert f"another run is writing to {URL}" in error.decode()
    assert there.code == (SOME_FAILED if failed else 0)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
    assert [failure["id"] for failure in errors(out)] == failed


def test_secrets_of_urls_stay_with_the_user(tmp_path, out, work, expected, inputs):
    shutil.copytree(inputs, tmp_path / "bucket" / "in")
    write(tmp_path / "bucket" / "in" / "4.jsonl", "rubbish")
    given = [f"bucket://me:pass1@in/{number}.jsonl?token=pass2" for number in (0, 2, 4)]
    secret, report = "bucket://you:pass3@out/", tmp_path / "run.json"
    result = run("decode", *given, "-o", secret, "--report", report)
    assert result.code == SOME_FAILED
    assert {name: lines(out)[name] for name in ("0.jsonl", "2.jsonl")} == {
        name: expected[name] for name in ("0.jsonl", "2.jsonl")}
    assert f"unfinished results are in {work}" in result.err
    [failure] = errors(out)
    assert failure["file"] == "bucket://in/4.jsonl?***"
    renewed = [url.replace("pass2", "pass4") for url in given]
    assert run("decode", *renewed, "-o", URL, "--resume").code == SOME_FAILED
    Bucket.failing[".manifest.json"] = OSError(f"{secret}?key=pass5 is not for pass3")
    texts = [result.err, report.read_text(), (out / ".manifest.json").read_text(), str(errors(out)),
             run("decode", *given, "-o", secret.replace("out", "new")).err,
             run("decode", *given, "-o", secret).err,
             run("decode", *given, "-o", secret.replace("out", "in")).err,
             run("decode", given[0].replace("0", "9"), "-o", URL).err,
             run("decode", given[0], given[0], "-o", URL).err]
    texts += [str(path) for path in tmp_path.rglob("*")]
    assert f"cannot write bucket://new/.manifest.json: {URL}?*** is not for ***" in texts[4]
    assert "bucket://in/0.jsonl exists, and no manifest says that minrisk made it" in texts[6]
    assert [text for text in texts if "pass" in text] == []


def test_patterns_keep_their_host_and_its_password(inputs, out, tmp_path, expected):
    shutil.copytree(inputs, tmp_path / "bucket" / "in")
    pattern = "hosted://me:secret@host/in/*.jsonl"
    assert expand([pattern]) == [pattern.replace("*", str(number)) for number in range(4)]
    assert run("decode", pattern, "-o", "hosted://me:secret@host/out/").code == 0
    assert lines(out) == expected


def test_http_can_only_be_read(inputs, work):
    pytest.importorskip("aiohttp", reason="fsspec needs it for http")
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/out/"
        result = run("decode", f"{inputs}/*", "-o", url)
        absent = run("decode", f"{url}absent.jsonl")
        server.shutdown()
    away = run("decode", f"{url}absent.jsonl")
    assert result.code == absent.code == away.code == 2
    assert f"{url}absent.jsonl: the server answered 404" in absent.err
    assert "Connect" in away.err.partition("absent.jsonl: ")[2]
    assert f"cannot write {url}.minrisk-writer" in result.err


def test_what_nobody_may_write_is_told_before_any_work(inputs, out):
    Bucket.failing[".manifest.json"] = PermissionError(13, "Access Denied")
    result = run("decode", f"{inputs}/*", "-o", URL)
    assert result.code == 2
    assert f"{URL}.manifest.json: Access Denied" in result.err
    assert not out.exists()


def test_a_report_may_go_to_a_url(inputs, out):
    assert run("decode", f"{inputs}/*", "-o", URL, "--report", "bucket://run.json").code == 0
    assert json.loads((out.parent / "run.json").read_text())["output"]["is_finished"]
    result = run("decode", f"{inputs}/*", "-o", URL, "--resume", "--report", "nonsense://x")
    assert result.code == 2
    assert "cannot write nonsense://x: " in result.err


@pytest.mark.parametrize("command", ["sample", "translate"])
def test_samples_and_translations_go_to_urls_too(server, tmp_path, out, command):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(4)))
    args = [command, f"{folder}/*", "--endpoint", server.endpoint, "--model", "m", "-n", "6",
            "--prompt", "{source}", "--seed", "3", "-o"]
    assert run(*args, f"{tmp_path}/here/").code == 0
    result = run(*args, URL)
    assert result.code == 0, result.err
    assert lines(out) == lines(tmp_path / "here")
    assert "2 of 2 shards" in run(*args, URL, "--resume").err
