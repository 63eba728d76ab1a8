"""Folders of shards on S3: a server of its protocol on this machine."""

from __future__ import annotations

import shutil

import pytest

from commands import run, spawn, write
from project import SUPPORT
from shard_folders import kill_again_and_again, lines, segments, write_shards

s3fs = pytest.importorskip("s3fs", reason="needs s3fs")
moto = pytest.importorskip("moto.server", reason="needs moto[server]")
URL = "s3://bucket/out/"


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        found = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        found.start()
        host, port = found.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        yield found
        found.stop()


@pytest.fixture
def s3(server, tmp_path, monkeypatch):
    """An empty bucket."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = s3fs.S3FileSystem()
    system.mkdir("bucket")
    yield system
    system.rm("bucket", recursive=True)


def stored(s3) -> dict[str, bytes]:
    s3.invalidate_cache()
    found = {name.removeprefix("bucket/out/"): s3.cat_file(name) for name in s3.find("bucket/out")}
    return {name: text for name, text in found.items() if name[0].isdigit()}


def test_from_s3_to_s3_as_from_folder_to_folder(s3, tmp_path):
    inputs = write_shards(tmp_path / "in")
    s3.put(str(inputs), "bucket/in", recursive=True)
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/here/").code == 0
    args = ("decode", "s3://bucket/in/*.jsonl", "-o", URL)
    result = run(*args)
    assert result.code == 0, result.err
    assert stored(s3) == lines(tmp_path / "here")
    assert f"{URL} holds an earlier run" in run(*args).err
    s3.rm("bucket/out/2.jsonl")
    result = run(*args, "--resume", "--work", tmp_path / "another-machine")
    assert "3 of 4 shards and 63 segments finished" in result.err
    assert stored(s3) == lines(tmp_path / "here")


def test_the_driver_may_be_killed_and_its_machine_lost(s3, tmp_path):
    """The second kill takes the working folder too."""
    few = [write(tmp_path / f"{n}.jsonl", *segments(n, n)) for n in (5, 2, 9)]
    args = ("decode", *few, "-o", URL, "--batch-size", "1", "--workers", "1", "--resume",
            "--metric", "python:faults:slow")

    def lose(number: int) -> None:
        if number == 1:
            shutil.rmtree(tmp_path / "cache")

    kill_again_and_again(lambda: spawn(*args, cwd=SUPPORT), tmp_path / "cache", lose)
    assert run(*args).code == 0
    assert run("decode", *few, "--metric", "python:faults:equal", "-o", f"{tmp_path}/here/"
               ).code == 0
    assert stored(s3) == lines(tmp_path / "here")
    assert not list((tmp_path / "cache").rglob("*.partial"))
