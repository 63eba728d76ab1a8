"""What an output keeps of its run: manifests, journals, locks, and what is not its own."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from commands import Result, read, run, spawn, wait_for, write
from minrisk.cli import SOME_FAILED
from minrisk.io.store import LocalStore
from openai_server import answer, status
from project import SUPPORT
from shard_folders import errors, lines, partials, segments, wait_for_results, write_shards

EQUAL = ("--metric", "python:faults:equal")


@pytest.fixture(params=["out/", "out.jsonl"])
def output(request, tmp_path) -> str:
    """A folder, or a file."""
    return f"{tmp_path}/{request.param}"


@pytest.fixture(params=["out/", "out.jsonl", "bucket://out/"])
def anywhere(request, inline, tmp_path, monkeypatch) -> str:
    """A folder, a file, or a folder at a URL."""
    if "://" not in request.param:
        return f"{tmp_path}/{request.param}"
    pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
    import object_store  # noqa: F401 - the file system of its URLs

    monkeypatch.setenv("MINRISK_TEST_BUCKET", f"{tmp_path}/bucket")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    return request.param


def made(output: str, name: str = "in.jsonl") -> Path:
    """The file that came of this input, or of all."""
    path = Path(output.replace("bucket://", f"{os.environ.get('MINRISK_TEST_BUCKET')}/"))
    return path / name if output.endswith("/") else path


def manifest(output: str) -> Path:
    return Path(f"{output}.manifest.json" if output.endswith("/") else f"{output}.run.json")


class Killed(BaseException):
    """As if the process were gone."""


def unfinished(monkeypatch: pytest.MonkeyPatch, *args: object) -> None:
    """A run that is killed before a shard has its name."""
    with monkeypatch.context() as patch:
        put = LocalStore.put

        def die(self, temporary, name):
            if name.endswith(".json"):  # the manifest
                put(self, temporary, name)
            else:
                raise Killed

        patch.setattr(LocalStore, "put", die)
        with pytest.raises(Killed):
            run(*args)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file()}


# the contract of outputs, wherever they are


def test_an_output_that_is_there_is_replaced_only_if_asked_for(tmp_path, anywhere):
    path = write(tmp_path / "in.jsonl", *segments(4, 1))
    assert run("decode", path, "-o", anywhere).code == 0
    write(path, *segments(4, 2))
    before = tree(tmp_path)
    result = run("decode", path, "-o", anywhere)
    assert result.code == 2
    assert "--overwrite" in result.err
    assert tree(tmp_path) == before
    assert run("decode", path, "-o", anywhere, "--overwrite").code == 0
    assert made(anywhere).read_text() == run("decode", path).out


@pytest.mark.parametrize("flags", [[], ["--resume"]])
def test_a_file_of_unknown_origin_is_left_alone(tmp_path, anywhere, flags):
    path, found = write(tmp_path / "in.jsonl", *segments(2)), made(anywhere)
    found.parent.mkdir(parents=True, exist_ok=True)
    found.write_text("precious")
    result = run("decode", path, "-o", anywhere, *flags)
    assert result.code == 2
    assert f"{found.name} exists" in result.err
    assert found.read_text() == "precious"


def test_what_is_finished_is_not_made_again_and_what_was_removed_is(tmp_path, anywhere):
    inputs = write_shards(tmp_path / "in", 2, 0, 3)
    args = ("decode", *sorted(inputs.iterdir()), "-o", anywhere, "--resume")
    assert run(*args).code == 0
    files = [made(anywhere, path.name) for path in sorted(inputs.iterdir())]
    whole, times = [[get(path) for path in files] for get in (Path.read_bytes, changed)]
    result = run(*args)
    assert result.code == 0
    assert "5 segments finished" in result.err
    assert [changed(path) for path in files] == times
    files[-1].unlink()
    assert run(*args).code == 0
    assert [path.read_bytes() for path in files] == whole
    assert changed(files[-1]) != times[-1]
    if anywhere.endswith("/"):
        assert [changed(path) for path in files[:-1]] == times[:-1]


def changed(path: Path) -> int:
    return path.stat().st_mtime_ns


def test_going_on_in_another_way_or_with_other_inputs_is_refused(tmp_path, anywhere):
    inputs = write_shards(tmp_path / "in", 3, 2)
    args = ("decode", f"{inputs}/*", "-o", anywhere, "--resume")
    assert run(*args).code == 0
    path, output = inputs / "1.jsonl", made(anywhere, "1.jsonl")
    before, content = output.read_bytes(), path.read_bytes()
    assert "nbest was None, is 2" in run(*args, "--nbest", "2").err
    path.write_bytes(content.replace(b"cat", b"cow"))
    other = run(*args)
    path.unlink()
    missing = run(*args)
    for result in (other, missing):
        assert result.code == 2
        assert f"input {path} was {len(content)} bytes, " in result.err
    assert "is None" in missing.err
    assert output.read_bytes() == before


# pipes


def bash(command: str, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    minrisk = f"{sys.executable} -m minrisk"
    return subprocess.run(["bash", "-c", command.replace("MINRISK", minrisk)], cwd=tmp_path,
                          capture_output=True, timeout=60)


def test_a_pipe_as_input_goes_into_a_file_but_into_no_folder(tmp_path):
    """Whose inputs are read twice: to know them again, and for what is in them."""
    write(tmp_path / "in.jsonl", *segments(100))
    expected = run("decode", tmp_path / "in.jsonl").out
    refused = bash("MINRISK decode <(cat in.jsonl) -o out/", tmp_path)
    assert refused.returncode == 2
    assert b"folder" in refused.stderr
    assert not (tmp_path / "out").exists()
    os.mkfifo(tmp_path / "pipe")
    assert bash("MINRISK decode pipe -o out/", tmp_path).returncode == 2  # and does not wait
    done = bash("MINRISK decode <(cat in.jsonl) -o out.jsonl", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.jsonl").read_text() == expected
    assert bash("MINRISK decode <(cat in.jsonl)", tmp_path).stdout.decode() == expected


# names


def test_outputs_may_be_called_like_anything_and_other_files_are_left_alone(tmp_path, inline):
    names = ["z.jsonl", "fresh-z.jsonl", "tidy-z.jsonl", "z.jsonl.partial.jsonl", ".z.jsonl"]
    (tmp_path / "in").mkdir()
    for number, name in enumerate(names):
        write(tmp_path / "in" / name, *segments(3, number))
    out = tmp_path / "out"
    out.mkdir()
    own = ["fresh-a.jsonl", "tidy-a.jsonl", "manifest.json.fresh", "z.jsonl.partial", "x.tmp"]
    for name in own:
        (out / name).write_text("precious")
    inputs = [tmp_path / "in" / name for name in names]
    assert run("decode", *inputs, "-o", f"{out}/").code == 0
    assert {name: (out / name).read_text() for name in names} == {
        path.name: run("decode", path).out for path in inputs}
    assert {(out / name).read_text() for name in own} == {"precious"}
    assert run("decode", *inputs, "-o", f"{out}/", "--resume").code == 0
    assert {(out / name).read_text() for name in own} == {"precious"}


@pytest.mark.parametrize(("output", "link"), [
    ("out/", "out/.minrisk"), ("out/x.jsonl", "out/.x.jsonl.minrisk")])
def test_a_link_in_the_place_of_the_working_folder_is_refused(tmp_path, output, link, inline):
    """What it leads to would be removed."""
    samples, precious = write(tmp_path / "in.jsonl", *segments(3)), tmp_path / "precious"
    (tmp_path / "out").mkdir()
    precious.mkdir()
    (precious / "notes.txt").write_text("precious")
    (tmp_path / link).symlink_to(precious, target_is_directory=True)
    for more in ((), ("--overwrite",)):
        found = run("decode", samples, "-o", f"{tmp_path}/{output}", *more)
        assert found.code == 2
        assert "is a link" in found.err
    assert (precious / "notes.txt").read_text() == "precious"


def test_only_own_files_are_removed_from_the_working_folder(tmp_path, inline):
    samples, work = write(tmp_path / "in.jsonl", *segments(3)), tmp_path / "out" / ".minrisk"
    work.mkdir(parents=True)
    (work / "notes.txt").write_text("precious")
    (work / f"{'0' * 32}.tmp").write_text("of an earlier run")
    assert run("decode", samples, "-o", f"{tmp_path}/out/").code == 0
    assert [path.name for path in work.iterdir() if path.name != "lock"] == ["notes.txt"]


def test_the_working_folder_is_no_output(tmp_path, inline):
    for name in (".minrisk", "a"):
        (tmp_path / "in" / name).mkdir(parents=True)
        write(tmp_path / "in" / name / "x.jsonl", *segments(1))
    inputs = [tmp_path / "in" / name / "x.jsonl" for name in (".minrisk", "a")]
    result = run("decode", *inputs, "-o", f"{tmp_path}/out/")
    assert result.code == 2
    assert ".minrisk" in result.err


# what ends a run, and what is tried again


@pytest.fixture
def sample(server, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"source {i}\n" for i in range(30)))

    def command(*args: object, endpoint: str = server.endpoint) -> Result:
        return run("sample", path, "--endpoint", endpoint, "--model", "m", "-n", "2", "--retries",
                   "0", "--batch-size", "4", *args)

    return command


def test_what_concerns_every_segment_ends_the_run_and_records_nothing(
        sample, server, tmp_path, inline, output):
    server.always = status(401, "not with me")
    before = tree(tmp_path)
    for trouble in (sample("-o", output), sample(
            "-o", output, endpoint="http://127.0.0.1:9/v1")):
        assert trouble.code == 2
        assert "error: " in trouble.err
        assert tree(tmp_path) == before
    server.always = None
    assert sample("-o", output).code == 0


def test_a_model_that_is_missing_ends_the_run(tmp_path, inline):
    path = write(tmp_path / "in.jsonl", {"source": "s", "samples": ["a", "b"]})
    result = run("decode", path, "--metric", "mqm", "--metric.model", f"{tmp_path}/none", "-o",
                 f"{tmp_path}/out/", "--workers", "1")
    assert result.code == 2
    assert f"{tmp_path}/none" in result.err
    assert not (tmp_path / "out").exists()


def test_failed_segments_are_made_again_and_no_others(sample, server, tmp_path, inline, output):
    whole = sample().out
    bad = "source 7", "source 21"

    def moody(handler):
        content = handler.body["messages"][-1]["content"]
        (status(400, "not with me") if content in bad else answer)(handler)

    server.always = moody
    result = sample("-o", output)
    assert result.code == SOME_FAILED
    assert f"the first failure: {tmp_path}/in.txt:8: " in result.err
    failed = read(made(output, "in.jsonl").read_text())[7]
    assert (failed["id"], failed["source"]) == (7, "source 7")
    assert f"{tmp_path}/in.txt:8: http" in failed["error"]
    server.always = None
    server.bodies.clear()
    result = sample("-o", output, "--resume")
    assert result.code == 0, result.err
    assert "28 segments finished, 2 failed" in result.err
    assert sorted(body["messages"][-1]["content"] for body in server.bodies) == sorted(bad)
    assert made(output).read_text() == whole
    assert not list(tmp_path.rglob("*.partial"))


def test_failures_that_are_tried_again_count_once(tmp_path, inline):
    path = write(tmp_path / "in.jsonl", *segments(3), {"samples": ["bad"]}, {"samples": ["bad"]})
    args = ("decode", path, "-o", f"{tmp_path}/out/", *EQUAL, "--max-errors", "2")
    assert run(*args).code == SOME_FAILED
    assert run(*args, "--resume").code == SOME_FAILED
    assert len(errors(tmp_path / "out")) == 2


def test_shards_that_all_break_off_end_the_run_with_the_first_reason(tmp_path, inline):
    for name in "ab":
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(b"x" * 1000)[:15])
    result = run("decode", f"{tmp_path}/*.gz", "-o", f"{tmp_path}/out/", "--workers", "1")
    assert result.code == 2
    assert "error: " in result.err
    assert "a.jsonl.gz: truncated gz" in result.err
    assert not (tmp_path / "out").exists()


# of other runs, and of other people


def test_a_run_of_an_earlier_version_is_resumed(tmp_path, monkeypatch, inline):
    """Whose manifest had a name that other tools read as data."""
    inputs, out = write_shards(tmp_path / "in", 9, 9), tmp_path / "out"
    unfinished(monkeypatch, "decode", f"{inputs}/*", "-o", f"{out}/")
    for name in ("manifest.json", "errors.jsonl"):
        (out / f".{name}").rename(out / name)
    refused = run("decode", f"{inputs}/*", "-o", f"{out}/")
    assert "earlier run" in refused.err
    assert run("decode", f"{inputs}/*", "-o", f"{out}/", "--resume").code == 0
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/new/").code == 0
    assert lines(out) == lines(tmp_path / "new")
    assert {path.name for path in out.iterdir()} == {
        path.name for path in (tmp_path / "new").iterdir()}


def test_a_manifest_of_something_else_is_left_alone(tmp_path, inline):
    inputs, out = write_shards(tmp_path / "in", 9), tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text('{"files": []}')
    assert run("decode", f"{inputs}/*", "-o", f"{out}/").code == 0
    assert (out / "manifest.json").read_text() == '{"files": []}'


def test_what_another_run_left_without_its_manifest_is_not_taken_up(tmp_path, monkeypatch, inline):
    inputs, out = write_shards(tmp_path / "in", 9, 9), tmp_path / "out"
    unfinished(monkeypatch, "decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "chrf")
    assert partials(out)
    (out / ".manifest.json").unlink()
    (out / ".errors.jsonl").unlink()
    assert run("decode", f"{inputs}/*", "-o", f"{out}/", "--metric", "bleu").code == 0
    assert run("decode", f"{inputs}/*", "-o", f"{tmp_path}/new/", "--metric", "bleu").code == 0
    assert lines(out) == lines(tmp_path / "new")
    assert not (out / ".minrisk").exists()


@pytest.mark.parametrize("content", ["", "123\n", "{}\n", '{"file": 1}\n', "precious\n"])
def test_the_errors_of_somebody_else_are_left_alone(tmp_path, inline, content):
    inputs, out = write_shards(tmp_path / "in", 2), tmp_path / "out"
    out.mkdir()
    (out / ".errors.jsonl").write_text(content)
    result = run("decode", f"{inputs}/*", "-o", f"{out}/")
    assert result.code == 2
    assert ".errors.jsonl exists" in result.err
    assert tree(out) == {".errors.jsonl": content.encode()}


def test_odd_lines_in_the_list_of_errors_do_no_harm(tmp_path, inline):
    path = write(tmp_path / "in.jsonl", *segments(2), {"samples": ["bad"]})
    args = ("decode", path, "-o", f"{tmp_path}/out/", *EQUAL)
    assert run(*args).code == SOME_FAILED
    known = errors(tmp_path / "out")
    (tmp_path / "out" / ".errors.jsonl").write_text('123\n{}\n[[\n"x')
    assert run(*args, "--resume").code == SOME_FAILED
    assert errors(tmp_path / "out") == known


def test_an_output_that_was_removed_is_made_again(tmp_path, inline, output):
    path = write(tmp_path / "in.jsonl", *segments(4, 1))
    assert run("decode", path, "-o", output).code == 0
    made(output).unlink()
    write(path, *segments(4, 2))
    assert run("decode", path, "-o", output, "--nbest", 2).code == 0
    assert made(output).read_text() == run("decode", path, "--nbest", 2).out


def test_results_of_an_unfinished_run_are_not_thrown_away(tmp_path, monkeypatch, inline, output):
    """There is no output in either case, and each time a journal holds the other segments."""
    path = write(tmp_path / "in.jsonl", *segments(3), {"samples": ["bad"]})
    args = ("decode", path, "-o", output, *EQUAL)
    unfinished(monkeypatch, *args)
    assert "earlier run" in run(*args).err
    assert run(*args, "--resume").code == SOME_FAILED
    made(output).unlink()
    before = tree(tmp_path)
    assert "earlier run" in run(*args).err
    assert tree(tmp_path) == before


def test_an_output_of_which_a_shard_is_left_is_not_made_again(tmp_path, inline):
    inputs, out = write_shards(tmp_path / "in", 2, 2), f"{tmp_path}/out/"
    assert run("decode", f"{inputs}/*", "-o", out).code == 0
    made(out, "0.jsonl").unlink()
    assert "earlier run" in run("decode", inputs / "0.jsonl", "-o", out).err


@pytest.mark.parametrize("finished", [[5], 5, {"\0": {}}, None])
def test_an_output_whose_manifest_is_damaged_is_not_made_again(tmp_path, inline, output, finished):
    path = write(tmp_path / "in.jsonl", *segments(1))
    assert run("decode", path, "-o", output).code == 0
    made(output).unlink()
    manifest(output).write_text(json.dumps({"finished": finished}))
    assert "earlier run" in run("decode", path, "-o", output).err


@pytest.fixture
def journals(monkeypatch) -> list[IO[bytes]]:
    """The journals of shards that were opened to be written, of which one is open at a time."""
    opened: list[IO[bytes]] = []

    def counted(path, mode="r", *args, **options):
        stream = builtin(path, mode, *args, **options)
        if str(path).endswith(".partial") and "a" in mode:
            assert all(other.closed for other in opened)
            opened.append(stream)
        return stream

    builtin = open
    monkeypatch.setattr("builtins.open", counted)
    return opened


def test_a_journal_is_opened_once_for_all_segments(tmp_path, inline, output, journals):
    path = write(tmp_path / "in.jsonl", *segments(20))
    assert run("decode", path, "-o", output).code == 0
    assert [journal.closed for journal in journals] == [True]


def test_no_two_journals_are_open_though_all_of_them_stay(tmp_path, inline, journals):
    (tmp_path / "in").mkdir()
    for name in "abc":
        write(tmp_path / "in" / f"{name}.jsonl", *segments(2), {"samples": ["bad"]}, *segments(2))
    assert run("decode", f"{tmp_path}/in/*", "-o", f"{tmp_path}/out/", *EQUAL).code == SOME_FAILED
    assert [journal.closed for journal in journals] == [True] * 3
    assert len(partials(tmp_path / "out")) == 3


# what was tampered with


@pytest.mark.parametrize("change", [
    {"run": 5}, {"run": None}, {"run": "../../victim"}, {"run": "/victim"}, {"run": "A" * 32},
    {"settings": []}, {"settings": 1}, {"settings": None}, {"finished": []}, {"finished": None},
    {"finished": {"0.jsonl": 1}}, {"finished": {"0.jsonl": {"segments": "x"}}},
    {"finished": {"0.jsonl": {"failed": [1]}}}, {"finished": {"0.jsonl": {"size": None}}},
    "[]", "null", "3", '"x"', "", "{", "\xff", "[" * 100_000, '{"a":' * 100_000,
    '{"settings": ' + "[" * 900 + "]" * 900 + "}",
    {"settings": {"nbest": json.loads("[" * 900 + "]" * 900)}}], ids=lambda c: str(c)[:40])
def test_a_manifest_that_was_tampered_with_is_told_in_one_line(tmp_path, inline, output, change):
    inputs = write_shards(tmp_path / "in", 2, 2)
    args = ("decode", *sorted(inputs.iterdir()), "-o", output, "-q")
    assert run(*args).code == 0
    path = manifest(output)
    if isinstance(change, str):
        path.write_text(change, encoding="latin-1")
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    before = tree(tmp_path)
    result = run(*args, "--resume")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "is no manifest of this version" in result.err or "cannot resume" in result.err
    assert tree(tmp_path) == before


# options that change results


@pytest.mark.parametrize(("before", "after", "message"), [
    (["--confidence", "--seed", "1"], ["--confidence", "--seed", "2"], "confidence.seed was 1, is"),
    (["--confidence"], [], "confidence was True, is False"),
    ([], ["--matrix", "@scores/"], "matrix was None, is "),
    ([], ["--metric.order", "4"], "metric.order was 6, is 4"),
    ([], ["--strategy", "aggregate"], "strategy was standard, is aggregate"),
    ([], ["--weights", "uniform"], "weights was auto, is uniform"),
    (["-n", "2"], ["-n", "4"], "num_candidates was 2, is 4")])
def test_options_that_change_results_are_known(tmp_path, inline, before, after, message):
    inputs = tmp_path / "in"
    inputs.mkdir()
    for name in "ab":
        line = "plain text" if "-n" in before else '{"samples": ["a", "b"]}'
        (inputs / name).write_text(f"{line}\n" * 8)
    args = ("decode", f"{inputs}/*", "-o", f"{tmp_path}/out/")
    assert run(*args, *before).code == 0
    result = run(*args, "--resume", *(arg.replace("@", f"{tmp_path}/") for arg in after))
    assert result.code == 2
    assert message in result.err


def test_the_format_of_the_input_is_known(sample, tmp_path, inline, output):
    assert sample("-o", output, "--input-format", "text").code == 0
    result = sample("-o", output, "--resume")
    assert result.code == 2
    assert "input_format was text, is auto" in result.err


def test_a_source_that_changed_is_told(tmp_path, inline, output):
    (tmp_path / "hyps.txt").write_text("a\nb\nc\nd\n")
    source = tmp_path / "source.txt"
    source.write_text("x\ny\n")
    args = ("decode", tmp_path / "hyps.txt", "-n", "2", "-s", source, "-o", output)
    assert run(*args).code == 0
    source.write_text("x\nz\n")
    result = run(*args, "--resume")
    assert result.code == 2
    assert f"input {source} was 4 bytes" in result.err


# plain text and matrices in folders


def test_plain_text_goes_into_a_folder_as_into_files(tmp_path, inline):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, words in {"a": ["cat", "cats", "dog"], "b": ["dogs", "dog", "a dog"]}.items():
        (folder / f"{name}.hyp").write_text("".join(f"{word}\n" for word in words) * 2)
        (folder / f"{name}.src").write_text(f"{name}\n" * 2)
    args = ("-n", "3", "--utilities")
    result = run("decode", f"{folder}/*.hyp", "-s", f"{folder}/*.src", *args, "-o",
                 f"{tmp_path}/out/")
    assert result.code == 0, result.err
    assert lines(tmp_path / "out") == {
        f"{name}.hyp.jsonl": run("decode", folder / f"{name}.hyp", "-s", folder / f"{name}.src",
                                 *args).out.encode() for name in "ab"}
    few = run("decode", f"{folder}/*.hyp", "-s", folder / "a.src", *args, "-o", f"{tmp_path}/few/")
    assert few.code == 2
    assert "--source names 1" in few.err


def matrices(path: Path) -> dict[str, list[list[float]]]:
    with np.load(path) as found:
        return {name: found[name].tolist() for name in found.files}


def test_matrices_have_all_segments_also_after_failures_were_made_again(
        tmp_path, monkeypatch, inline, output):
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(tmp_path / "flag"))
    path = write(tmp_path / "in.jsonl", *segments(2), {"samples": ["panic", "b"]}, *segments(2))
    scores = f"{tmp_path}/{'scores/' if output.endswith('/') else 'scores.npz'}"
    args = ("decode", path, "-o", output, "--metric", "python:faults:leaving", "--matrix", scores)
    found = made(scores, "in.jsonl.npz")
    (tmp_path / "flag").touch()
    assert run(*args).code == SOME_FAILED
    assert sorted(matrices(found)) == ["0", "1", "3", "4"]
    (tmp_path / "flag").unlink()
    assert run(*args, "--resume").code == 0
    assert run("decode", path, "--metric", "python:faults:leaving", "--matrix",
               tmp_path / "whole.npz").code == 0
    assert matrices(found) == matrices(tmp_path / "whole.npz")
    assert not list(tmp_path.rglob("*.npy"))


# reports


@pytest.mark.parametrize("report", ["out/0.jsonl", "out/.manifest.json", "out/.errors.jsonl",
                                    "out/../out/0.jsonl"])
def test_a_report_is_no_part_of_the_output(tmp_path, inline, report):
    inputs = write_shards(tmp_path / "in", 2)
    (tmp_path / "out").mkdir()
    result = run("decode", f"{inputs}/*", "-o", f"{tmp_path}/out/", "--report", tmp_path / report)
    assert result.code == 2
    assert "part of the output" in result.err
    assert tree(tmp_path / "out") == {}


@pytest.mark.parametrize("report", ["out.jsonl", "out.jsonl.run.json"])
def test_nor_of_a_single_one(tmp_path, inline, report):
    path = write(tmp_path / "in.jsonl", *segments(2))
    result = run("decode", path, "-o", tmp_path / "out.jsonl", "--report", tmp_path / report)
    assert result.code == 2
    assert "part of the output" in result.err


@pytest.mark.parametrize(("report", "reason"), [
    ("missing/report.json", "No such file or directory"), ("in", "Is a directory")])
def test_a_report_that_cannot_be_written_is_told_before_any_work(tmp_path, inline, report, reason):
    inputs = write_shards(tmp_path / "in", 2)
    result = run("decode", f"{inputs}/*", "-o", f"{tmp_path}/out/", "--report", tmp_path / report)
    assert result.code == 2
    assert f"{report}: {reason}" in result.err
    assert not (tmp_path / "out").exists()


def test_a_report_goes_to_standard_output_and_to_no_file_called_dash(tmp_path, inline, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "in.jsonl", *segments(2))
    result = run("decode", path, "-o", "out.jsonl", "--report", "-")
    assert json.loads(result.out)["output"]["segments"] == 2
    assert not (tmp_path / "-").exists()


def test_a_run_that_is_refused_leaves_no_report(tmp_path, inline):
    path = write(tmp_path / "in.jsonl", *segments(2))
    (tmp_path / "out.jsonl").write_text("precious")
    assert run("decode", path, "-o", tmp_path / "out.jsonl", "--report", tmp_path / "r").code == 2
    assert not (tmp_path / "r").exists()


# limits and locks


def test_shards_that_break_off_do_not_stay_open(tmp_path):
    inputs = tmp_path / "in"
    inputs.mkdir()
    content = gzip.compress("".join(json.dumps(s) + "\n" for s in segments(3)).encode())
    for number in range(120):
        (inputs / f"{number}.jsonl.gz").write_bytes(content[:-12])
    write(inputs / "good.jsonl", *segments(2))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    args = ("decode", *sorted(inputs.iterdir()), "-o", f"{tmp_path}/out/", "--workers", "1", "-q")
    with spawn(*args, preexec_fn=limit) as process:
        _, error = process.communicate(timeout=100)
    assert process.returncode == SOME_FAILED, error
    assert list(lines(tmp_path / "out")) == ["good.jsonl"]
    assert len(errors(tmp_path / "out")) == 120


@pytest.mark.parametrize("output", ["out/", "out.jsonl"])
def test_two_runs_do_not_share_an_output(tmp_path, output):
    big = write(tmp_path / "big.jsonl", *segments(40))
    args = ("decode", big, "-o", f"{tmp_path}/{output}", "--workers", "1", "--metric",
            "python:faults:slow")
    with spawn(*args, cwd=SUPPORT) as process:
        wait_for_results(process, tmp_path)
        results = [run(*args, *flags) for flags in (["--resume"], ["--overwrite"], [])]
        process.kill()
    for result in results:
        assert result.code == 2
        assert "another run is writing" in result.err
    wait_for(lambda: run(*args[:-1], "python:faults:equal").code == 2)  # the lock is free again


def test_a_list_of_errors_that_is_named_is_ignored_with_a_note(tmp_path, inline):
    inputs, out = write_shards(tmp_path / "in", 2), tmp_path / "out"
    assert run("decode", f"{inputs}/*", "-o", f"{out}/").code == 0
    (out / "0.jsonl").write_bytes((inputs / "0.jsonl").read_bytes())
    named = run("decode", out / "0.jsonl", out / ".errors.jsonl")
    assert f"ignored {out}/.errors.jsonl" in named.err
    matched = run("decode", f"{out}/*.jsonl")
    assert matched.out == named.out == run("decode", inputs / "0.jsonl").out
    assert "ignored" not in matched.err
    alone = run("decode", out / ".errors.jsonl")
    assert "ignored" not in alone.err
    assert read(alone.out) == []
