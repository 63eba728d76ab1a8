"""Whatever is wrong with the input: a clear message, exit code 2, no traceback, nothing lost."""

from __future__ import annotations

import gzip
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from commands import read, run, write
from minrisk.cli import SOME_FAILED

GOOD = '{"id": "good", "samples": ["a cat", "a cat", "the dog"]}'


@dataclass(frozen=True)
class Bad:
    """Something wrong, after one good segment unless the command line itself is wrong."""

    name: str
    wants: tuple[str, ...]  # what the message must say
    line: str | None = None  # of JSON, after a good one
    files: tuple[tuple[str, bytes], ...] = ()
    args: tuple[str, ...] = ()
    decoded: int = 1  # segments in the output in spite of it

    def arguments(self, folder: Path) -> list[str]:
        for name, content in self.files:
            (folder / name).write_bytes(content)
        if self.line is None:
            return [arg.replace("@", f"{folder}/") for arg in self.args]
        path = write(folder / "in.jsonl", GOOD, self.line)
        return [str(path), *self.args]


def lines(name: str, *wants: str, line: str, args: tuple[str, ...] = ()) -> Bad:
    return Bad(name, ("in.jsonl:2: ", *wants), line, args=args)


def files(name: str, *wants: str, args: str, decoded: int = 0, **contents: bytes) -> Bad:
    made = tuple((key.replace("_", "."), content) for key, content in contents.items())
    return Bad(name, wants, None, made, tuple(args.split()), decoded)


def options(name: str, *wants: str, args: str) -> Bad:
    return files(name, *wants, args=f"@in.jsonl {args}", in_jsonl=f"{GOOD}\n".encode())


RECORDS = [
    lines("invalid JSON", "found invalid JSON", "expected one JSON object", line='{"samples": ['),
    lines("plain text", "found invalid JSON", "if this is plain text", line="plain text"),
    lines("bottomless JSON", "found invalid JSON", line="[" * 100_000),
    lines("not an object", 'found ["a"], expected a JSON object', line='["a"]'),
    lines("no samples", "found the fields id, sample", "expected samples",
          line='{"id": 1, "sample": 2}'),
    lines("an empty object", "found the fields (none)", "expected samples", line="{}"),
    lines("both names", "found both samples and hypotheses",
          line='{"samples": ["a"], "hypotheses": ["a"]}'),
    lines("samples in one string", "expected a list", line='{"samples": "abc"}'),
    lines("samples in an object", "expected a list", line='{"samples": {"a": 1}}'),
    lines("a sample that is a number", "must be strings", "int: 3", line='{"samples": ["a", 3]}'),
    lines("a sample that is null", "must be strings", line='{"samples": [null]}'),
    lines("zero hypotheses", "zero hypotheses", line='{"samples": []}'),
    lines("zero references", "zero references", line='{"samples": ["a"], "references": []}'),
    lines("references in one string", 'found references "b"',
          line='{"samples": ["a"], "references": "b"}'),
    lines("a source that is a list", 'found source ["s"], expected a string',
          line='{"samples": ["a"], "source": ["s"]}'),
    lines("an id that is a list", "found id [1], expected a string or a finite number",
          line='{"samples": ["a"], "id": [1]}'),
    lines("an id that is no number", "found id NaN, expected a string or a finite number",
          line='{"samples": ["a"], "id": NaN}'),
    lines("an id beyond all numbers", "found id Infinity, expected a string or a finite number",
          line='{"samples": ["a"], "id": 1e999}'),
    lines("weights of the wrong length", "expected 2 weights (one per reference), got 1",
          line='{"samples": ["a", "b"], "weights": [1]}'),
    lines("weights for the samples only", "expected 1 weights (one per reference), got 2",
          line='{"samples": ["a", "b"], "references": ["c"], "weights": [1, 1]}'),
    lines("negative weights", "not negative", line='{"samples": ["a", "b"], "weights": [2, -1]}'),
    lines("weights that are NaN", "finite", line='{"samples": ["a", "b"], "weights": [1, NaN]}'),
    lines("infinite weights", "finite", line='{"samples": ["a", "b"], "weights": [1, Infinity]}'),
    lines("weights that are all zero", "all zero",
          line='{"samples": ["a", "b"], "weights": [0, 0.0]}'),
    lines("weights beyond any float", "numbers",
          line='{"samples": ["a"], "weights": [1%s]}' % ("0" * 400)),
    lines("weights that are words", 'found "1" in weights, expected numbers',
          line='{"samples": ["a"], "weights": ["1"]}'),
    lines("weights that are no list", "found weights 1, expected a list",
          line='{"samples": ["a"], "weights": 1}'),
    lines("logprobs of the wrong length", "expected 2 logprobs (one per hypothesis), got 1",
          line='{"samples": ["a", "b"], "logprobs": [-1]}'),
    lines("logprobs for the samples only", "expected 1 logprobs (one per reference), got 2",
          line='{"samples": ["a", "b"], "references": ["c"], "logprobs": [-1, -2]}'),
    lines("lengths of the wrong length", "expected 2 lengths (one per hypothesis), got 1",
          line='{"samples": ["a", "b"], "logprobs": [-1, -2], "lengths": [1]}'),
    lines("logprobs that are NaN", "logprobs must be numbers",
          line='{"samples": ["a", "b"], "logprobs": [-1, NaN]}'),
    lines("logprobs without a finite one", "one of them finite",
          line='{"samples": ["a"], "logprobs": [-Infinity]}'),
    lines("weights and logprobs", "found both weights and logprobs of the samples",
          line='{"samples": ["a"], "weights": [1], "logprobs": [-1]}'),
    lines("counts of the wrong length", "expected 2 counts (one per sample), got 1",
          line='{"samples": ["a", "b"], "counts": [1]}'),
    lines("counts of references", "expected 2 counts (one per sample), got 1",
          line='{"samples": ["a", "b"], "references": ["c"], "counts": [1]}'),
    lines("a count of zero", "counts must be integers of at least 1; found 0 as number 2",
          line='{"samples": ["a", "b"], "counts": [1, 0]}'),
    lines("counts that are fractions", "found 1.5 as number 1",
          line='{"samples": ["a"], "counts": [1.5]}'),
    lines("counts that are no list", "found counts 2, expected a list",
          line='{"samples": ["a"], "counts": 2}'),
    lines("counts beyond any float", "numbers",
          line='{"samples": ["a"], "counts": [1%s]}' % ("0" * 400)),
    lines("counts beyond any memory", "counts add up to 1,000,000,000,000 samples",
          line='{"samples": ["a"], "counts": [1000000000000]}'),
    lines("counts of nothing", "zero hypotheses", line='{"samples": [], "counts": []}'),
    lines("more groups than references", "groups must be from 1 to 2",
          line='{"samples": ["a", "b"]}', args=("--strategy", "aggregate", "--groups", "3")),
    lines("more to keep than there are", "of 2 hypotheses; choose from 1 to 2",
          line='{"samples": ["a", "b"]}', args=("--strategy", "aggregate-to-fine", "--keep", "3")),
    lines("a subset of more than there are", "of 2 references; choose from 1 to 2",
          line='{"samples": ["a", "b"]}', args=("--strategy", "n-by-s", "--subset", "3")),
]

PAIRS = b"a\na\nb\nb\n"  # two segments of two lines
INPUTS = [
    files("JSON lines as plain text", "in.jsonl is JSON lines", "leave out --num-candidates",
          args="@in.jsonl -n 2", in_jsonl=f"{GOOD}\n{GOOD}\n".encode()),
    files("JSON lines that do not divide", "in.jsonl is JSON lines", "leave out --num-candidates",
          args="@in.jsonl -n 5", in_jsonl=b'{"hypotheses": ["a"]}\n'),
    files("missing file", "cannot read", "none.jsonl: No such file", args="@none.jsonl"),
    files("missing source", "cannot read", "none.txt: No such file",
          args="@h.txt -n 2 --source @none.txt", h_txt=PAIRS),
    files("a directory", "cannot read", "it is a directory", args="@."),
    files("truncated gz", "in.gz: truncated gz", args="@in.gz", in_gz=gzip.compress(b"{}")[:-5]),
    files("corrupt gz", "in.gz: unreadable gz", args="@in.gz", in_gz=b"\x1f\x8b not gz at all"),
    files("corrupt xz", "in.xz: unreadable xz", args="@in.xz", in_xz=b"\xfd7zXZ\0" + b"x" * 50),
    files("corrupt zst", "in.zst: unreadable zst", args="@in.zst",
          in_zst=b"\x28\xb5\x2f\xfd" + b"\xff" * 50),
    files("a second file that is corrupt", "in.gz: unreadable", args="@in.jsonl @in.gz", decoded=1,
          in_jsonl=GOOD.encode(), in_gz=b"\x1f\x8b not gz at all"),
    files("invalid UTF-8", "in.jsonl:2: found byte 0xff", "invalid UTF-8", args="@in.jsonl",
          decoded=1, in_jsonl=GOOD.encode() + b'\n{"samples": ["a\xff"]}\n'),
    files("Latin-1 text", "h.txt:3: found byte 0xe9", args="@h.txt -n 2", decoded=1,
          h_txt=b"a\na\n\xe9t\xe9\nb\n"),
    files("lines that do not divide", "h.txt: 5 lines cannot be divided into groups of 2",
          "--num-candidates", args="@h.txt -n 2", decoded=2, h_txt=PAIRS + b"c\n"),
    files("fewer sources", "h.txt has 2 (of 2 lines each)", "s.txt has 1 (of 1 line each)",
          args="@h.txt -n 2 -s @s.txt", decoded=1, h_txt=PAIRS, s_txt=b"x\n"),
    files("more sources", "h.txt has 2 ", "s.txt has 4 ", args="@h.txt -n 2 -s @s.txt", decoded=2,
          h_txt=PAIRS, s_txt=b"x\n" * 4),
    files("fewer references", "h.txt has 2 ", "r.txt has 1 (of 3 lines each)",
          args="@h.txt -n 2 -r @r.txt --num-references 3", decoded=1, h_txt=PAIRS,
          r_txt=b"x\ny\nz\n"),
    files("references that do not divide", "r.txt: 4 lines cannot be divided into groups of 3",
          "--num-references", args="@h.txt -n 2 -r @r.txt --num-references 3", decoded=1,
          h_txt=PAIRS, r_txt=PAIRS),
    files("fewer logprobs", "h.txt has 2 ", "p.txt has 1 ",
          args="@h.txt -n 2 --reference-lprobs @p.txt", decoded=1, h_txt=PAIRS, p_txt=b"0\n0\n"),
    files("logprobs that are words", "p.txt:2: found 'x', expected a number",
          args="@h.txt -n 2 --reference-lprobs @p.txt", h_txt=PAIRS, p_txt=b"0\nx\n0\n0\n"),
    files("logprobs that are NaN in a file", "p.txt:3-4: logprobs must be numbers",
          args="@h.txt -n 2 --reference-lprobs @p.txt", decoded=1, h_txt=PAIRS,
          p_txt=b"0\n0\nnan\n0\n"),
    files("missing configuration", "cannot read", "run.yaml: No such", args="--config @run.yaml"),
    files("invalid YAML", "run.yaml: found invalid YAML", args="--config @run.yaml",
          run_yaml=b"a: [1\n"),
    files("a configuration that is a list", "run.yaml: found list, expected a mapping",
          args="--config @run.yaml", run_yaml=b"- a\n"),
    files("an unknown key", "did you mean '--metric'?",
          args="--config @run.yaml", run_yaml=b"metrc: chrf\n"),
    files("a list for one value", "run.yaml: found a list for 'nbest'", args="--config @run.yaml",
          run_yaml=b"nbest: [1, 2]\n"),
    files("a flag that is no flag", "run.yaml: quiet must be true or false; got 'maybe'",
          args="--config @run.yaml", run_yaml=b"quiet: maybe\n"),
]

OPTIONS = [
    options("unknown metric", "unknown metric 'chrff'; did you mean 'chrf'?",
            args="--metric chrff"),
    options("unknown strategy", "unknown strategy 'agregate'; did you mean 'aggregate'?",
            args="--strategy agregate"),
    options("unknown coarse metric", "unknown metric 'x'",
            args="--strategy coarse-to-fine --coarse x"),
    options("unknown option", "unknown option '--kep'; did you mean '--keep'? see --help",
            args="--strategy aggregate-to-fine --kep 3"),
    options("an option like no other", "unknown option '--zyx'; strategy 'aggregate-to-fine' takes "
            "--keep --groups", "metric 'chrf' takes --metric.order", "see --help",
            args="--strategy aggregate-to-fine --zyx 3"),
    options("another strategy's option", "unknown option '--groups'; it belongs to strategy "
            "aggregate, strategy aggregate-to-fine; see --help", args="--groups 3"),
    options("unknown metric option", "did you mean '--metric.order'?", args="--metric.oder 3"),
    options("a number that is a word", "--groups must be an integer of at least 1; got 'x'",
            args="--strategy aggregate --groups x"),
    options("a flag with a word", "--contiguous takes no value; use --contiguous",
            args="--strategy aggregate --contiguous=maybe"),
    options("a needed option that is missing", "strategy 'n-by-s' needs --subset INT",
            args="--strategy n-by-s"),
    options("a metric that cannot be", "--metric.order or --metric.word-order must be at least 1",
            args="--metric.order 0"),
    options("no groups", "--groups must be an integer of at least 1; got 0",
            args="--strategy aggregate --groups 0"),
    options("a number that the metric refuses", "--metric.beta must be a number above 0",
            args="--metric.beta -1"),
    options("more to keep than a segment has", "in.jsonl:1: --keep 9 of 3 hypotheses",
            args="--strategy aggregate-to-fine --keep 9"),
    options("a second metric that cannot be", "--coarse.chrf.beta must be a number above 0",
            args="--strategy coarse-to-fine --coarse bleu+chrf --coarse.chrf.beta 0"),
    options("a choice that there is not", "got 'txt'; did you mean 'text'?", args="--format txt"),
    options("a negative seed", "--seed must be an integer of at least 0", args="--seed -1"),
    options("no threads", "--threads must be an integer from 1 to 1024", args="--threads 0"),
    options("zero candidates", "--num-candidates must be an integer of at least 1", args="-n 0"),
    options("a source for JSON", "--source needs --num-candidates: it is only for plain text",
            args="--source @in.jsonl"),
    options("utilities as text", "--uncertainty need --format json",
            args="--format text --utilities"),
    options("references that are not there", "--num-references needs --references",
            args="-n 1 --num-references 2"),
    options("weights that are not there", "needs --reference-lprobs",
            args="-n 1 --weights logprobs"),
    options("logprobs that are not there", "in.jsonl:1: found no logprobs",
            args="--weights logprobs"),
    options("an oracle with weights of samples", "--weights logprobs is for samples",
            args="--oracle reference --weights logprobs"),
    options("an oracle of plain text", "--oracle names a field of JSON lines",
            "--num-references 1", args="-n 1 --oracle reference"),
    options("standard input twice", "standard input was given more than once",
            args="-n 1 -s - -r -"),
]


def check(result, wants):
    assert result.code == 2, result.err
    last = result.err.rstrip("\n").split("\n")[-1]
    assert last.startswith("minrisk: error: ")
    for want in wants:
        assert want in last
    assert "Traceback" not in result.err


@pytest.mark.parametrize("bad", RECORDS + INPUTS + OPTIONS, ids=lambda bad: bad.name)
def test_bad_input_is_told_and_what_came_before_is_out(bad, tmp_path):
    result = run("decode", *bad.arguments(tmp_path), "--on-error", "stop")
    check(result, bad.wants)
    assert len(result.records) == bad.decoded
    assert all(set(record) == {"id", "text", "index", "utility"} for record in result.records)


@pytest.mark.parametrize("bad", RECORDS, ids=lambda bad: bad.name)
def test_what_came_before_bad_input_is_kept_for_a_run_that_resumes(bad, tmp_path):
    output, args = tmp_path / "out.jsonl", bad.arguments(tmp_path)
    check(run("decode", *args, "-o", output, "--on-error", "stop"), bad.wants)
    assert not output.exists()
    resumed = run("decode", *args, "-o", output, "--resume")
    assert resumed.code == SOME_FAILED
    assert "1 segments finished" in resumed.err
    assert [("error" in record) for record in read(output.read_text())] == [False, True]


@pytest.mark.parametrize("bad", RECORDS, ids=lambda bad: bad.name)
def test_skipping_records_the_reason_and_goes_on(bad, tmp_path):
    path, *args = bad.arguments(tmp_path)
    write(Path(path), GOOD, bad.line, GOOD)
    result = run("decode", path, *args, "--on-error", "skip")
    first, failed, last = result.records
    assert result.code == SOME_FAILED
    assert (first["text"], last["text"]) == ("a cat", "a cat")
    assert set(failed) == {"id", "error"}
    for want in bad.wants:
        assert want in failed["error"]
    assert "3 segments, 1 failed" in result.err


def test_skipping_invalid_utf8_goes_on(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'\xff\n{"id": "x", "samples": ["a"]}\n')
    failed, good = run("decode", path, "--on-error", "skip").records
    assert "in.jsonl:1: found byte 0xff" in failed["error"]
    assert (failed["id"], good["id"]) == (0, "x")


def test_a_failed_segment_is_an_empty_line_of_text(tmp_path):
    path = write(tmp_path / "in.jsonl", GOOD, "{}", GOOD)
    assert run("decode", path, "--on-error", "skip", "--format", "text").out == "a cat\n\na cat\n"


@pytest.mark.parametrize("option", ["--strategy", "--metric", "--config", "--seed"])
def test_an_option_without_its_value_is_told(tmp_path, option):
    path = write(tmp_path / "in.jsonl", GOOD)
    check(run("decode", path, option), (f"'{option}' requires an argument",))


@pytest.mark.parametrize(("flag", "target", "why"), [
    ("--output", "none/out.jsonl", "No such file"),
    ("--output", "none/out.jsonl.gz", "No such file"),
    ("--matrix", "none/out.npz", "No such file"),
    ("--matrix", ".", "Is a directory"),
])
def test_an_output_that_cannot_be_written_is_told(tmp_path, target, why, flag):
    path = write(tmp_path / "in.jsonl", GOOD)
    check(run("decode", path, flag, tmp_path / target), ("cannot write", why))


def test_the_output_is_opened_before_anything_is_read(tmp_path):
    path = write(tmp_path / "in.jsonl", "not JSON")
    check(run("decode", path, "-o", tmp_path / "none" / "out"), ("cannot write",))


@pytest.mark.parametrize("flag", ["--output", "--matrix"])
def test_an_output_that_is_an_input_is_refused(tmp_path, flag):
    path = write(tmp_path / "in.jsonl", GOOD)
    (tmp_path / "link").symlink_to(path)
    check(run("decode", path, flag, tmp_path / "link"), ("the output is the input",))
    assert path.read_text() == GOOD + "\n"


def test_options_that_make_no_sense_leave_the_output_alone(tmp_path):
    output = write(tmp_path / "out.jsonl", "precious")
    check(run("decode", tmp_path / "none", "-o", output), ("No such file",))
    check(run("decode", "--strategy", "none", "-o", output), ("unknown strategy",))
    good = write(tmp_path / "in.jsonl", GOOD)
    check(run("decode", good, "-o", output),
          ("out.jsonl exists, and no manifest says that minrisk made it; "
           "--overwrite replaces it, or name another output",))
    check(run("decode", good, "-o", output, "--resume"), ("no manifest says that minrisk made it",))
    assert output.read_text() == "precious\n"
    assert run("decode", good, "-o", output, "--overwrite").code == 0
    assert read(output.read_text())[0]["text"] == "a cat"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path):
    path = write(tmp_path / "in.jsonl", GOOD)
    path.chmod(stat.S_IWUSR)
    check(run("decode", path), ("cannot read", "ermission denied"))


def test_a_full_disk_with_a_compressed_output_is_told_once(tmp_path):
    samples = write(tmp_path / "x.jsonl", *[{"samples": [str(i) * 500]} for i in range(2000)])
    target = tmp_path / "full.gz"
    target.symlink_to("/dev/full")
    result = run("decode", samples, "-o", target)
    assert result.code == 2
    assert "No space left" in result.err


@pytest.mark.parametrize(("count", "wanted"), [
    (1, "if this is plain text, give --num-candidates\n"),
    (8, "if this is plain text, give --num-candidates; all 8 segments failed\n"),
    (40, "if this is plain text, give --num-candidates; the first 16 segments all failed\n")])
def test_failures_of_all_segments_are_counted_once(tmp_path, count, wanted):
    path = write(tmp_path / "hyps.txt", *["a cat"] * count)
    result = run("decode", path, "-o", tmp_path / "out.jsonl")
    assert result.code == 2
    assert result.err.endswith(wanted)


@pytest.mark.parametrize(("args", "recorded"), [
    ("-o @out.jsonl", "errors are in @out.jsonl"),
    ("-o @out/", "errors are in @out/.errors.jsonl"),
    ("", "errors are in the output"),
    ("--format text", "the first: @in.jsonl:2: found invalid JSON"),
])
def test_failures_are_told_also_if_quiet(tmp_path, args, recorded):
    path = write(tmp_path / "in.jsonl", GOOD, "plain text", GOOD)
    result = run("decode", path, "-q", *args.replace("@", f"{tmp_path}/").split())
    assert result.code == SOME_FAILED
    told = f"minrisk: 1 of 3 segments failed; {recorded}".replace("@", f"{tmp_path}/")
    assert result.err.startswith(told)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("workers", [(), ("--workers", 1)])
def test_errors_in_the_output_speak_flags(tmp_path, workers):
    path = write(tmp_path / "in.jsonl", GOOD, "plain text")
    _, failed = run("decode", path, *workers).records
    assert failed["error"].endswith("if this is plain text, give --num-candidates")
