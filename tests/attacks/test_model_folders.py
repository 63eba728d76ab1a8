"""Code of a model folder is never executed, whatever the folder says and whoever says yes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
pytest.importorskip("transformers", reason="needs the extra minrisk[hf]")
pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")

import hostile
import minrisk
import tiny_models
from comet_models import CHECKPOINTS, DATA
from commands import run, write
from metricx_model import expand
from minrisk._core.errors import MissingExtra
from minrisk._torch.loading import load_config
from minrisk.metrics.embedding import Embedding
from project import TESTS
from tolerance import assert_close
from warm import spawn_warm

YES = b"the cat sat\nYes\ny\n1\n" * 500


def sampler(folder: Path) -> Path:
    return Path(tiny_models.save(folder, "marian"))


def bertscore(folder: Path) -> Path:
    return Path(shutil.copytree(TESTS / "metrics" / "bertscore" / "bert", folder))


def metricx(folder: Path) -> Path:
    expand(folder)
    return folder


def reward(folder: Path) -> Path:
    return Path(tiny_models.save_classifier(folder, "bert"))


def comet(folder: Path) -> Path:
    """The checkpoint, and beside it the encoder's own files, which are what is poisoned."""
    shutil.copytree(CHECKPOINTS / "xlmr_mix_sparsemax", folder)
    return Path(shutil.copytree(DATA / "encoders" / "xlm-roberta", folder / "encoder"))


def decode(metric: str, *options: object) -> Callable[[Path, Path], list[object]]:
    def command(model: Path, here: Path) -> list[object]:
        samples = write(here / "samples.jsonl", {"source": "a cat", "samples": ["a cat", "the"]})
        return ["decode", samples, "--metric", metric, "--metric.model", model,
                "--metric.device", "cpu", *options, "-q"]

    return command


def draw(name: str) -> Callable[[Path, Path], list[object]]:
    def command(model: Path, here: Path) -> list[object]:
        (here / "sources.txt").write_text("the cat\n", encoding="utf-8")
        return [name, here / "sources.txt", "--model", model, "-n", 2, "--device", "cpu", "-q"]

    return command


TARGETS = {
    "sample": (sampler, draw("sample")), "translate": (sampler, draw("translate")),
    "bertscore": (bertscore, decode("bertscore", "--metric.layer", 1)),
    "metricx": (metricx, decode("metricx", "--metric.tokenizer",
                                TESTS / "metrics" / "metricx" / "tokenizer")),
    "reward": (reward, decode("reward")),
    "comet": (comet, decode("comet")),
}
# what loads all the same, without the code that it brings; or may, by the version of transformers
LOADS, MAY_LOAD = {"known kind"}, {"known kind", "tokenizer", "kernel"}
CASES = [(target, poison) for target in TARGETS for poison in hostile.POISONS
         # whose folder has no model, but only an encoder's configuration and tokenizer
         if target != "comet" or poison not in ("pickle", "generation")]


@pytest.fixture
def questions(monkeypatch) -> list[str]:
    """Whoever asks is told yes."""
    asked: list[str] = []

    def consent(prompt: str = "") -> str:
        asked.append(prompt)
        return "yes"

    monkeypatch.setattr("builtins.input", consent)
    return asked


@pytest.mark.parametrize(("target", "poison"), CASES)
def test_no_code_of_a_folder_is_run(target, poison, tmp_path, questions):
    make, command = TARGETS[target]
    model, flag = make(tmp_path / "model"), tmp_path / "PWNED"
    hostile.POISONS[poison](model, flag)
    named = model.parent if target == "comet" else model
    found = run(*command(named, tmp_path), stdin=YES)
    assert not flag.exists()
    assert questions == []
    if poison in LOADS or (poison in MAY_LOAD and found.code == 0):
        assert (found.code, found.err) == (0, "")
        assert len(found.out.splitlines()) == 1
    else:
        assert (found.code, found.out) == (2, "")
        [line] = found.err.splitlines()
        assert line.startswith("minrisk: error: ")
        assert str(model) in line


@pytest.mark.parametrize("target", ["sample", "bertscore"])
def test_lines_that_say_yes_are_left_where_they_are(target, tmp_path):
    """In a process of its own, with a pipe as its standard input."""
    make, command = TARGETS[target]
    model, flag, pipe = make(tmp_path / "model"), tmp_path / "PWNED", tmp_path / "pipe"
    hostile.new_kind(model, flag)
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "r+b", buffering=0) as lines:
        lines.write(YES)
        process = spawn_warm(tmp_path, *command(model, tmp_path), stdin=pipe)
        process.join()
        err = (tmp_path / "err").read_text()
        assert (process.exitcode, (tmp_path / "out").read_text()) == (2, ""), err
        assert err.count("\n") == 1
        assert "is never executed" in err
        assert not flag.exists()
        assert lines.read(len(YES)) == YES


def test_a_source_that_says_yes_is_no_consent(tmp_path):
    model, flag = sampler(tmp_path / "model"), tmp_path / "PWNED"
    hostile.new_kind(model, flag)
    (tmp_path / "sources").write_bytes(YES)
    process = spawn_warm(tmp_path, "translate", "-", "--model", model, "-n", 2, "-q",
                         stdin=tmp_path / "sources")
    process.join()
    out, err = ((tmp_path / stream).read_text() for stream in ("out", "err"))
    assert (process.exitcode, out) == (2, ""), err
    assert not flag.exists()


@pytest.mark.parametrize("expression", [
    "cycler.__init__.__globals__.os.system('touch {flag}')",
    "messages.__class__.__mro__[1].__subclasses__()",
    "self.__init__.__globals__"])
def test_a_chat_template_reaches_no_python(expression, tmp_path):
    flag = tmp_path / "PWNED"
    template = "{{ " + expression.format(flag=flag) + " }}"
    model = tiny_models.save(tmp_path / "model", "gpt2", template)
    sources = tmp_path / "sources.txt"
    sources.write_text("the cat\n", encoding="utf-8")
    found = run("sample", sources, "--model", model, "-n", 2, "--max-tokens", 4, "-q")
    assert (found.code, found.out) == (2, "")
    assert "chat template" in found.err
    assert not flag.exists()


@pytest.fixture
def sentences(tmp_path) -> Path:
    """A tiny model of sentence-transformers."""
    package = pytest.importorskip("sentence_transformers",
                                  reason="needs the extra minrisk[sentence-transformers]")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    parts = [Transformer(str(TESTS / "metrics" / "bertscore" / "bert")), Pooling(32)]
    package.SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "model"))
    return tmp_path / "model"


def foreign_module(folder: Path, flag: Path) -> None:
    hostile.code(folder, flag)
    module = '{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}'
    (folder / "modules.json").write_text(f"[{module}]", encoding="utf-8")


def installed_module(folder: Path, flag: Path) -> None:
    """A class that is no model, from a package that is there."""
    module = '{"idx": 0, "name": "0", "path": "", "type": "subprocess.Popen"}'
    (folder / "modules.json").write_text(f"[{module}]", encoding="utf-8")


def consenting_module(folder: Path, flag: Path) -> None:
    hostile.new_kind(folder, flag)
    hostile.change(folder / "sentence_bert_config.json",
                   model_args={"trust_remote_code": True}, trust_remote_code=True,
                   config_args={"trust_remote_code": True})


@pytest.mark.parametrize("poison", [foreign_module, installed_module, consenting_module,
                                    hostile.pickled, hostile.generation])
def test_no_code_of_a_sentence_encoder_is_run(poison, sentences, tmp_path, questions):
    poison(sentences, tmp_path / "PWNED")
    found = run(*decode("embedding")(sentences, tmp_path), stdin=YES)
    assert not (tmp_path / "PWNED").exists()
    assert questions == []
    assert (found.code, found.out) == (2, "")
    [line] = found.err.splitlines()
    assert str(sentences) in line


@pytest.mark.parametrize(("file", "fields"), [
    ("config.json", hostile.KERNEL), ("sentence_bert_config.json", {"config_args": hostile.KERNEL}),
    ("sentence_bert_config.json", {"model_args": hostile.KERNEL})], ids=str)
def test_a_sentence_encoder_runs_without_the_kernel_that_it_names(file, fields, sentences):
    before = Embedding(str(sentences), device="cpu", batch_size=7).features(["a cat"])
    hostile.change(sentences / file, **fields)
    after = Embedding(str(sentences), device="cpu", batch_size=8).features(["a cat"])
    assert_close(after, before, "fp32")


def test_sentence_transformers_that_import_foreign_classes_are_refused(sentences, monkeypatch):
    monkeypatch.setattr("sentence_transformers.__version__", "5.7.0")
    with pytest.raises(MissingExtra, match="pip install"):
        Embedding(str(sentences), device="cpu", batch_size=5).features(["a"])


def test_what_loads_a_model_may_print_what_it_likes(tmp_path):
    """Standard output belongs to results, and standard input to the user's data."""
    code = ("import sys\nfrom minrisk._core.process import own_process\n"
            "from minrisk._torch.quiet import unattended\n"
            "with own_process(), unattended():\n"
            "    print('hello')\n"
            "    try:\n        input('may I? ')\n"
            "    except EOFError:\n        pass\n"
            "print(sys.stdin.readline(), end='')")
    done = subprocess.run([sys.executable, "-c", code], input="Yes\n", capture_output=True,
                          text=True, check=True)
    assert (done.stdout, done.stderr) == ("Yes\n", "")


@pytest.mark.parametrize("chosen", [
    "evil/kernel", {"": "evil/kernel"}, {"text_config": "evil/kernel"}], ids=str)
def test_a_kernel_of_the_hub_is_refused_for_any_part_of_a_model(chosen, tmp_path):
    write(tmp_path / "config.json", {"model_type": "gemma3", "attn_implementation": chosen})
    with pytest.raises(minrisk.InputError, match="evil/kernel"):
        load_config(str(tmp_path))


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is there")
def test_a_quantized_model_names_the_package_that_it_needs(tmp_path):
    model = sampler(tmp_path / "model")
    hostile.change(model / "config.json", quantization_config={
        "quant_method": "bitsandbytes", "load_in_8bit": True})
    (tmp_path / "in.txt").write_text("a cat\n")
    found = run("sample", tmp_path / "in.txt", "--model", model, "-n", 2)
    assert (found.code, found.out) == (2, "")
    assert "package" in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize(("field", "value"), [
    ("num_hidden_layers", 10**7), ("hidden_size", 10**10), ("vocab_size", 10**12)])
def test_a_model_of_an_absurd_size_is_refused_before_it_is_built(field, value, tmp_path):
    model = bertscore(tmp_path / "model")
    hostile.change(model / "config.json", **{field: value})
    found = run(*decode("bertscore", "--metric.layer", 1)(model, tmp_path))
    assert (found.code, found.out) == (2, "")
    assert f"{field} {value}" in found.err
