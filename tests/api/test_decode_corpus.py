"""`minrisk.decode_corpus`: the results of the loop and of the command line, and its errors."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import minrisk
from commands import run, write
from generators import corpus
from minrisk._core.process import set_threads, threads
from minrisk.io.objects import ObjectReader
from minrisk.io.records import checksum
from minrisk.io.segments import SampleReader

RANDOM = [("standard", {}), ("n-by-s", {"subset": 3}), ("aggregate", {"groups": 3, "seed": 5}),
          ("adaptive", {"budget": 0.3}), ("low-rank", {"budget": 0.5})]
BAD = {"id": "bad", "samples": []}


def flags(options: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


def loop(segments, **options) -> list[minrisk.Ranking]:
    return [minrisk.decode(s["samples"], counts=s["counts"], source=s["source"], position=index,
                           **options) for index, s in enumerate(segments)]


@pytest.mark.parametrize(("strategy", "options"), RANDOM, ids=[name for name, _ in RANDOM])
@pytest.mark.parametrize("form", ["dicts", "segments", "file"])
def test_rankings_are_those_of_decode_in_a_loop(strategy, options, form, tmp_path):
    segments: Any = corpus()
    expected = loop(segments, strategy=strategy, **options)
    if form == "segments":
        segments = [minrisk.Segment(s["samples"], source=s["source"], counts=s["counts"])
                    for s in segments]
    elif form == "file":
        segments = write(tmp_path / "in.jsonl", *segments)
    found = list(minrisk.decode_corpus(segments, strategy=strategy, **options))
    assert [result.ranking for result in found] == expected
    assert [result.position for result in found] == list(range(6))
    if form != "segments":
        assert [(r.id, r.fields) for r in found] == [(f"s{i}", {"more": [i]}) for i in range(6)]


@pytest.mark.parametrize(("strategy", "options"), RANDOM, ids=[name for name, _ in RANDOM])
def test_a_file_has_the_bytes_of_the_command_line(strategy, options, tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus(), BAD)
    run("decode", path, "-o", tmp_path / "cli.jsonl", "--strategy", strategy, *flags(options),
        "--nbest", "2", "--utilities")
    summary = minrisk.decode_corpus(path, output=tmp_path / "api.jsonl", strategy=strategy, nbest=2,
                                    utilities=True, **options)
    assert (tmp_path / "api.jsonl").read_bytes() == (tmp_path / "cli.jsonl").read_bytes()
    assert (summary.segments, summary.failed, summary.output) == (7, 1, str(tmp_path / "api.jsonl"))
    assert summary.counts["pairs"] > 0
    manifests = [json.loads((tmp_path / f"{name}.jsonl.run.json").read_text())
                 for name in ("cli", "api")]
    assert manifests[0]["settings"] == manifests[1]["settings"]


def test_uncertainty_is_that_of_the_command_line(tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus())
    run("decode", path, "-o", tmp_path / "cli.jsonl", "--uncertainty", "--abstain", "0.5")
    minrisk.decode_corpus(path, output=tmp_path / "api.jsonl", uncertainty=True, abstain=0.5)
    assert (tmp_path / "api.jsonl").read_bytes() == (tmp_path / "cli.jsonl").read_bytes()
    manifests = [json.loads((tmp_path / f"{name}.jsonl.run.json").read_text())
                 for name in ("cli", "api")]
    assert manifests[0]["settings"] == manifests[1]["settings"]
    [first, *_] = minrisk.decode_corpus(path, uncertainty=True)
    assert first.ranking.uncertainty is not None


def test_a_folder_has_the_bytes_of_the_command_line(tmp_path, inline):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", *corpus(3), BAD)
    pattern = str(tmp_path / "[ab].jsonl")
    run("decode", pattern, "-o", f"{tmp_path}/cli/", "--workers", "1", "--format", "text")
    summary = minrisk.decode_corpus(pattern, output=f"{tmp_path}/api/", workers=1, format="text")
    assert (summary.segments, summary.failed) == (8, 2)
    for name in ("a.txt", "b.txt", ".errors.jsonl"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()


def test_objects_are_written_as_the_lines_that_they_would_be(tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus())
    run("decode", path, "-o", tmp_path / "cli.jsonl")
    minrisk.decode_corpus(iter(corpus()), output=tmp_path / "api.jsonl")
    assert (tmp_path / "api.jsonl").read_bytes() == (tmp_path / "cli.jsonl").read_bytes()


@pytest.mark.parametrize("weights", ["uniform", "logprobs", "length-normalised"])
def test_weights_and_oracles_are_those_of_the_command_line(weights, tmp_path):
    segments = [s | {"logprobs": [-float(i) for i in range(12)], "human": s["samples"][3]}
                for s in corpus()]
    path = write(tmp_path / "in.jsonl", *segments)
    expected = run("decode", path, "--weights", weights).records
    found = list(minrisk.decode_corpus(segments, weights=weights))
    assert [r.text for r in found] == [record["text"] for record in expected]
    assert f"weights:{weights}|" in (found[0].ranking.signature or "")
    ceiling = minrisk.decode_corpus(segments, oracle="human")
    assert [r.text for r in ceiling] == [
        record["text"] for record in run("decode", path, "--oracle", "human").records]


def test_a_matrix_and_confidence_are_those_of_the_command_line(tmp_path):
    path = write(tmp_path / "in.jsonl", *corpus(2))
    run("decode", path, "-o", tmp_path / "cli.jsonl", "--matrix", tmp_path / "cli.npz",
        "--confidence")
    minrisk.decode_corpus(path, output=tmp_path / "api.jsonl", matrix=tmp_path / "api.npz",
                          confidence=True)
    assert (tmp_path / "api.jsonl").read_bytes() == (tmp_path / "cli.jsonl").read_bytes()
    ours, theirs = np.load(tmp_path / "api.npz"), np.load(tmp_path / "cli.npz")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    minrisk.export(path, output=tmp_path / "train.jsonl", matrix=tmp_path / "train.npz")
    trained = np.load(tmp_path / "train.npz")
    assert all(np.array_equal(trained[name], theirs[name]) for name in theirs)
    [first, _] = minrisk.decode_corpus(path, confidence=True)
    assert first.ranking.confidence is not None


def test_files_come_in_every_form_that_the_command_line_reads(tmp_path):
    plain = write(tmp_path / "a.jsonl", *corpus(2))
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    texts = [r.text for r in minrisk.decode_corpus(plain)]
    assert [r.text for r in minrisk.decode_corpus(str(packed))] == texts
    assert [r.text for r in minrisk.decode_corpus(f"{tmp_path}/*.jsonl*")] == texts * 2
    assert [r.text for r in minrisk.decode_corpus([str(plain), packed])] == texts * 2


@pytest.mark.parametrize("columns", [
    {}, {"source": "src.txt"}, {"references": "refs.txt", "num_references": 2},
    {"reference_lprobs": "lprobs.txt"}], ids=lambda given: "-".join(given) or "plain")
def test_plain_text_is_read_as_by_the_command_line(columns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    segments = corpus(3)
    for name, lines in (("hyps.txt", [t for s in segments for t in s["samples"]]),
                        ("src.txt", [s["source"] for s in segments]),
                        ("refs.txt", [t for s in segments for t in s["samples"][:2]]),
                        ("lprobs.txt", [f"-{i}.5" for i in range(36)])):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    options = {"num_candidates": 12} | columns
    run("decode", "hyps.txt", *flags(options), "-o", "cli.jsonl")
    files = minrisk.TextFiles("hyps.txt", **options)
    minrisk.decode_corpus(files, output="api.jsonl")
    assert Path("api.jsonl").read_bytes() == Path("cli.jsonl").read_bytes()
    manifests = [json.loads(Path(f"{name}.jsonl.run.json").read_text()) for name in ("cli", "api")]
    assert manifests[0]["settings"] == manifests[1]["settings"]
    texts = [json.loads(line)["text"] for line in Path("api.jsonl").read_text().splitlines()]
    assert [result.text for result in minrisk.decode_corpus(files)] == texts
    assert [result.text for result in minrisk.decode_corpus(files, workers=1)] == texts


@pytest.mark.parametrize(("args", "options", "message"), [
    (("hyps.txt", 0), {}, "num_candidates .* 0"),
    (("nowhere.txt", 2), {}, "nowhere.txt"), ((3, 2), {}, "hypotheses"),
    (("hyps.txt", 2), {"source": 3}, "source .* 3"),
    (("hyps.txt", 2), {"num_references": 3}, "references="),
    (("hyps.txt", 3), {}, "4 lines .* num_candidates="),
])
def test_plain_text_that_makes_no_sense_is_told(args, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hyps.txt").write_text("a\nb\nc\nd\n")
    with pytest.raises(minrisk.InputError, match=message):
        list(minrisk.decode_corpus(minrisk.TextFiles(*args, **options)))


@pytest.mark.parametrize(("options", "message"), [
    ({"oracle": "x"}, "oracle="),
    ({"weights": "logprobs"}, "reference_lprobs="),
])
def test_plain_text_does_not_have_everything(options, message, tmp_path):
    path = tmp_path / "hyps.txt"
    path.write_text("a\nb\n")
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode_corpus(minrisk.TextFiles(path, 2), **options)


def test_arrays_and_tuples_do_for_lists():
    segment = {"samples": ("a b", "a c"), "counts": np.array([1, 3]), "weights": (1, 2)}
    [found, tuples] = minrisk.decode_corpus([segment, ("a b", "a c")])
    assert tuples.ranking == minrisk.decode(["a b", "a c"], position=1)
    assert found.ranking == minrisk.decode(["a b", "a c"], counts=[1, 3], weights=[1, 2])


def test_nothing_is_read_before_it_is_asked_for():
    taken = []

    def segments() -> Iterator[list[str]]:
        for number in range(100):
            taken.append(number)
            yield ["a", "b"]

    found = minrisk.decode_corpus(segments())
    next(found)
    assert len(taken) < 5
    found.close()


def test_a_caller_that_leaves_stops_the_workers():
    found = minrisk.decode_corpus(corpus(), workers=2, batch_size=1)
    next(found)
    assert active_children()
    found.close()
    assert not active_children()


def test_a_failed_segment_keeps_its_place_and_has_its_error():
    found = list(minrisk.decode_corpus([["a"], {"samples": [3]}, 7, ["b"]]))
    assert [r.error is None for r in found] == [True, False, False, True]
    assert [r.position for r in found] == [0, 1, 2, 3]
    assert found[2].error == ("segment 2: a segment must be a Segment, a dict or a list of "
                              "samples; got 7")
    assert (found[1].text, found[1].utility) == (None, None)
    with pytest.raises(minrisk.InputError, match="segment 1"):
        found[1].ranking  # noqa: B018
    assert "error='segment 1" in repr(found[1])


@pytest.mark.parametrize("output", [None, "out.jsonl", "out/"])
def test_an_input_that_is_cut_during_a_run_is_noticed(tmp_path, output):
    path = write(tmp_path / "in.jsonl", *({"samples": [f"a {i}", "b" * 99]} for i in range(3000)))
    size = path.stat().st_size
    line = path.read_bytes().index(b"\n", size // 2) + 1

    def cut(hypothesis, reference):
        os.truncate(path, line)
        return 1.0

    if output == "out/":  # a shard that cannot be read to its end keeps no other from it
        found = minrisk.decode_corpus([path, write(tmp_path / "b.jsonl", {"samples": ["b"]})],
                                      metric=cut, output=f"{tmp_path}/out/")
        assert [f"had {size} bytes" in reason for reason in found.unfinished] == [True]
        return
    with pytest.raises(minrisk.InputError, match=f"{size} bytes"):
        list(minrisk.decode_corpus(path, metric=cut) if output is None else
             minrisk.decode_corpus(path, metric=cut, output=tmp_path / output))


def test_the_first_failure_ends_a_run_that_is_to_stop():
    found = minrisk.decode_corpus([["a"], [], ["b"]], on_error="stop")
    assert next(found).text == "a"
    with pytest.raises(minrisk.InputError, match="segment 1"):
        list(found)


def test_a_corpus_of_nothing_but_failures_is_an_error():
    with pytest.raises(minrisk.InputError, match="segment 0"):
        list(minrisk.decode_corpus([[], []]))


def test_a_corpus_may_be_empty(tmp_path):
    assert list(minrisk.decode_corpus([])) == []
    assert list(minrisk.decode_corpus(iter(()))) == []
    assert minrisk.decode_corpus([], output=tmp_path / "o.jsonl").segments == 0


@pytest.mark.parametrize(("args", "options", "message"), [
    ((5,), {}, "segments .* 5"),
    ((None,), {}, "segments .* None"),
    (({"samples": ["a"]},), {}, "segments .*samples"),
    (("nowhere.jsonl",), {}, "nowhere.jsonl: No such file"),
    ((["nowhere.jsonl"],), {}, "nowhere.jsonl|names of files"),
    ((["x", ["a"]],), {}, r"\['a'\]"),
    (("*.nothing",), {}, r"\*.nothing"),
    (([],), {"workers": "two"}, "workers"),
    (([],), {"engine": "spark"}, "engine .* 'spark'"),
    (([],), {"on_error": "explode"}, "on_error .* 'explode'"),
    (([],), {"wrokers": 2}, "'wrokers'; .* 'workers'"),
    (([],), {"word_order": 2}, r"minrisk.make_metric\('chrf', word_order=2\)"),
    (([],), {"keep": 2}, "'keep'; .* aggregate-to-fine"),
    (([],), {"strategy": "n-by-s", "subste": 2}, "'subste'; .* 'subset'"),
    (([],), {"strategy": "n-by-z"}, "'n-by-z'"),
    (([],), {"metric": "chrv"}, "'chrv'; .* 'chrf'"),
    (([],), {"metric": 3}, "metric .* 3"),
    (([],), {"weights": "even"}, "weights .*'even'"),
    (([],), {"weights_temperature": 2.0}, "weights='auto'"),
    (([],), {"oracle": 3}, "oracle .* 3"),
    (([],), {"oracle": "x", "weights": "logprobs"}, "oracle|weights"),
    (([],), {"resume": True}, "output="),
    (([],), {"output": 5}, "output .* 5"),
    (([],), {"output": "o", "resume": True, "overwrite": True}, "overwrite"),
    (([],), {"output": "o", "format": "xml"}, "format .* 'xml'"),
    (([],), {"output": "o", "format": "text", "utilities": True}, "format='json'"),
    (([],), {"nbest": 2}, "output="),
    (([],), {"address": "auto"}, "engine='ray'"),
    (([["a"]],), {"output": "out/"}, "folder"),
])
def test_wrong_arguments_get_our_errors_at_once(args, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(minrisk.InputError, match=message):
        minrisk.decode_corpus(*args, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_sent_to_workers_is_told():
    found = minrisk.decode_corpus([["a", "b"]], metric=lambda hyp, ref: 1.0, workers=2)
    with pytest.raises(minrisk.InputError, match="metric"):
        list(found)


def test_an_output_that_exists_is_never_lost(tmp_path):
    output = tmp_path / "best.jsonl"
    minrisk.decode_corpus(corpus(1), output=output)
    before = output.read_bytes()
    with pytest.raises(minrisk.InputError, match="overwrite"):
        minrisk.decode_corpus(corpus(2), output=output)
    assert output.read_bytes() == before
    assert minrisk.decode_corpus(corpus(2), output=output, overwrite=True).segments == 2
    with pytest.raises(minrisk.InputError, match="input"):
        minrisk.decode_corpus(output, output=output, overwrite=True)


def test_an_interrupted_run_leaves_nothing_torn_and_can_be_resumed(tmp_path):
    output, segments = tmp_path / "best.jsonl", corpus()

    def interrupted() -> Iterator[dict[str, Any]]:
        yield from segments[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minrisk.decode_corpus(interrupted(), output=output, strategy="n-by-s", subset=3)
    assert not output.exists()
    done = []
    summary = minrisk.decode_corpus(segments, output=output, strategy="n-by-s", subset=3,
                                    resume=True, progress=lambda n, failed: done.append(n))
    assert (summary.segments, done) == (6, [1, 2, 3])
    whole = tmp_path / "whole.jsonl"
    minrisk.decode_corpus(segments, output=whole, strategy="n-by-s", subset=3)
    assert output.read_bytes() == whole.read_bytes()


def test_a_resumed_run_sees_that_objects_are_others(tmp_path):
    output, segments = tmp_path / "best.jsonl", corpus()

    def interrupted() -> Iterator[dict[str, Any]]:
        yield from segments[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minrisk.decode_corpus(interrupted(), output=output)
    with pytest.raises(minrisk.InputError, match="segment 0"):
        minrisk.decode_corpus(segments[::-1], output=output, resume=True)


@pytest.mark.parametrize("name", ["logprobs", "lengths", "counts"])
def test_the_checksum_of_a_segment_depends_on_all_of_it(name):
    first, other = (minrisk.Segment(["a", "b"], **{name: [1, last]}) for last in (1, 2))
    reader = ObjectReader([first, other, first], SampleReader(()))
    one, two, again = (record.checksum for record in reader.records([]))
    assert one == again != two


def test_checksums_tell_where_lines_end():
    assert checksum(b"ab", b"c") != checksum(b"a", b"bc")
    assert checksum(b"a") == crc32(b"a")  # of records of earlier versions


def test_what_is_no_segment_fails_and_hides_no_other():
    first, second = minrisk.decode_corpus(iter([None, ["a", "b"]]))
    assert "must be a Segment" in str(first.error)
    assert second.text == "a"


def test_the_command_line_resumes_what_a_call_began(tmp_path, monkeypatch):
    path = write(tmp_path / "in.jsonl", *corpus())
    output = tmp_path / "best.jsonl"

    def stop(done: int, failed: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minrisk.decode_corpus(path, output=output, progress=stop)
    done = run("decode", path, "-o", output, "--resume")
    assert done.code == 0, done.err
    assert "3 segments finished" in done.err
    assert output.read_bytes() == run("decode", path).out.encode()


def test_nothing_is_shown_unless_it_is_asked_for(capfd):
    list(minrisk.decode_corpus(corpus()))
    assert capfd.readouterr() == ("", "")
    list(minrisk.decode_corpus([*corpus(), []], progress=True))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("minrisk: 7 segments, 1 failed, ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", None)  # as under pythonw
        list(minrisk.decode_corpus(corpus(), progress=True))
    assert capfd.readouterr() == ("", "")
    with pytest.raises(minrisk.InputError, match="progress"):
        list(minrisk.decode_corpus(corpus(), progress=3))  # type: ignore[call-overload]


def test_a_run_leaves_the_number_of_threads_as_it_was():
    before = threads()
    set_threads(1)
    try:
        list(minrisk.decode_corpus(corpus(2)))
        assert threads() == 1
        list(minrisk.decode_corpus(corpus(2), threads=2))
        assert threads() == 1
    finally:
        set_threads(None)
    assert threads() == before
