"""Checkpoints that are damaged, absurd or malicious: one line each, and nothing built or run."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")
pytest.importorskip("transformers", reason="needs the extra minrisk[comet]")

import hostile
from comet_models import CHECKPOINTS, DATA
from commands import run, write
from project import TESTS

CKPT, ENCODER = "checkpoints/model.ckpt", "encoder/config.json"
FIRST, GAMMA = "estimator.ff.0.weight", "layerwise_attention.gamma"
METRICS = TESTS / "metrics"
DEEP = 100_000  # brackets in each other, beyond what Python's parsers can follow

Damage = Callable[[Path], None]


def checkpoint(change: Callable[[dict], object]) -> Damage:
    """Changes what torch saved."""
    def damage(folder: Path) -> None:
        path = folder / CKPT
        content = torch.load(path, weights_only=True)
        change(content)
        torch.save(content, path)

    return damage


def weights(change: Callable[[dict], object]) -> Damage:
    return checkpoint(lambda content: change(content["state_dict"]))


def parameters(**given: object) -> Damage:
    return checkpoint(lambda content: content["hyper_parameters"].update(given))


def replaced(name: str, content: bytes) -> Damage:
    """Another content of a file."""
    return lambda folder: (folder / name).write_bytes(content)


def cut(name: str) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:1000])


def gone(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def config(name: str = "config.json", **given: object) -> Damage:
    return lambda folder: hostile.change(folder / name, **given)


def calls(name: str) -> Damage:
    """A pickle of torch that calls a function."""
    return lambda folder: torch.save(
        {"state_dict": {}, "x": hostile.Calls(Path("PWNED"))}, folder / name)


def hparams(content: bytes) -> Damage:
    return replaced("hparams.yaml", content)


def bare_pickle(folder: Path) -> None:
    replaced(CKPT, pickle.dumps(hostile.Calls(Path("PWNED"))))(folder)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "no first layer": (weights(lambda w: w.pop(FIRST)), f"lacks 1 weights, such as {FIRST[13:]}"),
    "no mixture": (weights(lambda w: w.pop(GAMMA)), f"no number {GAMMA}"),
    "a mixture of many numbers": (weights(lambda w: w.update({GAMMA: torch.ones(3)})),
                                  f"no number {GAMMA}"),
    "a mixture that is none": (weights(lambda w: w.update({GAMMA: torch.tensor([torch.nan])})),
                               f"no number {GAMMA}"),
    "a first layer of another shape": (weights(lambda w: w.update({FIRST: torch.ones(7)})),
                                       "does not fit: size mismatch"),
    "an encoder's weight of another shape": (
        weights(lambda w: w.update({"encoder.model.encoder.layer.0.output.dense.bias":
                                    torch.ones(3)})), "does not fit: size mismatch"),
    "weights that are none": (weights(lambda w: w.update({FIRST: "a text"})),
                              "expected a mapping from names to weights"),
    "a list of weights": (checkpoint(lambda c: c.update(state_dict=[1, 2])),
                          "expected a mapping from names to weights"),
    "a list of parameters": (checkpoint(lambda c: c.update(hyper_parameters=[1, 2])),
                             "expected a mapping of hyperparameters"),
    "absurd hidden sizes": (parameters(hidden_sizes=[10**9, 10**9]), "does not fit: size mismatch"),
    "hidden sizes that are none": (parameters(hidden_sizes=["a", -1]), "found hidden_sizes ['a'"),
    "negative hidden sizes": (parameters(hidden_sizes=[-5]), "found hidden_sizes [-5]"),
    "an activation that is a program": (parameters(activations="Module"), "found activations"),
    "an activation that is none": (parameters(final_activation=["Tanh"]), "found final_activation"),
    "a layer that is none": (parameters(layer=10**6), "layer 1000000 of"),
    "a layer of another type": (parameters(layer=[1]), "found layer [1]"),
    "an encoder that is a path": (parameters(encoder_model="../../etc"), "is not known"),
    "another encoder": (parameters(encoder_model="RemBERT"), "configuration of another encoder"),
    "no heads": (config(ENCODER, num_attention_heads=0), "is invalid: ZeroDivisionError"),
    "an unknown activation": (config(ENCODER, hidden_act="no such thing"), "is invalid: KeyError"),
    "too many layers": (config(ENCODER, num_hidden_layers=10**7), "num_hidden_layers 10000000"),
    "an absurd vocabulary": (config(ENCODER, vocab_size=10**12), "vocab_size 1000000000000"),
    "deep YAML": (hparams(b"[" * DEEP), "hparams.yaml: found invalid YAML"),
    "YAML in another encoding": (hparams("class: é".encode("latin-1")), "found invalid YAML"),
    "YAML that is a list": (hparams(b"- a\n- b\n"), "found list, expected a mapping"),
    "YAML that calls": (hparams(b"!!python/object/apply:os.system ['touch PWNED']"),
                        "found invalid YAML"),
    "a pickle that calls": (calls(CKPT), ".system, which no weights need; nothing was executed"),
    "a bare pickle": (bare_pickle, "its pickle is none that torch saved"),
    "a file that was cut off": (cut(CKPT), CKPT),
    "an empty file": (replaced(CKPT, b""), CKPT),
    "no weights": (lambda folder: torch.save({"hyper_parameters": {}}, folder / CKPT), CKPT),
}


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CHECKPOINTS / "xlmr_mix_sparsemax", "model")
    shutil.copytree(DATA / "encoders" / "xlm-roberta", "model/encoder")
    return Path("model")


def refused(metric: str, model: str | Path, wanted: str, *options: object) -> None:
    samples = write(Path("samples.jsonl"), {"source": "a", "samples": ["a cat", "the"]})
    found = run("decode", samples, "--metric", metric, "--metric.model", model, "--metric.device",
                "cpu", *options, "-q")
    assert (found.code, found.out) == (2, "")
    [line] = found.err.splitlines()
    assert wanted in line, line
    assert str(model).partition("/")[0] in line
    assert not Path("PWNED").exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_comet_model_is_refused_in_one_line(damage, model):
    apply, wanted = DAMAGES[damage]
    apply(model)
    refused("comet", model, wanted)


@pytest.mark.parametrize(("content", "wanted"), [
    ("[]", "found list, expected a mapping"), ("null", "found NoneType, expected a mapping"),
    ("[" * DEEP, "cannot be read as a converted model"),
    ('{"class_identifier": "regression_metric", "hidden_sizes": 3}', "found hidden_sizes 3"),
    ('{"class_identifier": {}}', "found a COMET model of class {}")])
def test_a_damaged_converted_model_is_refused_in_one_line(content, wanted, model):
    assert run("comet", "convert", model, "converted").code == 0
    Path("converted/minrisk.json").write_text(content, encoding="utf-8")
    refused("comet", Path("converted"), wanted)


def tagger_of_another_shape(folder: Path) -> None:
    weights(lambda w: w.update({"hidden2tag.weight": torch.ones(7, 32)}))(folder)


def test_a_damaged_tagger_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CHECKPOINTS / "xcomet", "model")
    shutil.copytree(DATA / "encoders" / "xlm-roberta-xl", "model/encoder")
    tagger_of_another_shape(Path("model"))
    refused("xcomet", Path("model"), "does not fit: size mismatch")


# a metric with its options, and its model, of which a copy is damaged
MODELS: dict[str, tuple[tuple[object, ...], str]] = {
    "bleurt": (("bleurt", "model"), "bleurt/model"),
    "bert": (("bertscore", "model", "--metric.layer", 1), "bertscore/bert"),
    "lite": (("xcomet", "model/model", "--metric.encoder", "model/encoder"), "xcomet_lite"),
}
WEIGHTS, LITE, PIECES = "pytorch_model.bin", "model/model.safetensors", "encoder/spm.model"
OTHERS: dict[tuple[str, str], tuple[Damage, str]] = {
    ("bleurt", "no heads"): (config(num_attention_heads=0), "is invalid: ZeroDivisionError"),
    ("bleurt", "an unknown activation"): (config(hidden_act="no such thing"),
                                          "is invalid: KeyError"),
    ("bleurt", "an absurd size"): (config(hidden_size=10**7), "does not fit: size mismatch"),
    ("bleurt", "too many layers"): (config(num_hidden_layers=10**7), "num_hidden_layers 10000000"),
    ("bleurt", "a size that is none"): (config(hidden_size="large"), "configuration is invalid"),
    ("bleurt", "another model"): (config(model_type="bert"), "found no BLEURT"),
    ("bleurt", "a first BLEURT"): (config(embedding_size=None), "BLEURT-20"),
    ("bleurt", "no JSON"): (replaced("config.json", b"{"), "config.json: found invalid JSON"),
    ("bleurt", "weights that are none"): (lambda folder: torch.save([1, 2], folder / WEIGHTS),
                                          "expected a mapping from names to weights"),
    ("bleurt", "a pickle that calls"): (calls(WEIGHTS), ".system, which no weights need"),
    ("bleurt", "a file that was cut off"): (cut(WEIGHTS), "it may be truncated"),
    ("bleurt", "few weights"): (
        lambda folder: torch.save({"classifier.bias": torch.zeros(1)}, folder / WEIGHTS), "lacks"),
    ("bleurt", "other pieces"): (replaced("spm.model", b"no model"), "SentencePiece"),
    ("bleurt", "no pieces"): (gone("spm.model"), "found no spm.model"),
    ("bert", "no heads"): (config(num_attention_heads=0), "its model cannot be read"),
    ("bert", "another vocabulary"): (config(vocab_size=10**5), "do not match its configuration"),
    ("bert", "many layers"): (config(num_hidden_layers=60), "lacks"),
    ("bert", "another kind"): (config(model_type="clip_vision_model"), "lacks"),
    ("bert", "deep JSON"): (replaced("config.json", b"[" * DEEP), "its configuration cannot be re"),
    ("bert", "a list"): (replaced("config.json", b"[]"), "its configuration cannot be read"),
    ("lite", "no configuration"): (gone("model/config.json"), "cannot be read"),
    ("lite", "a file that was cut off"): (cut(LITE), "cannot be read"),
    ("lite", "another model"): (
        lambda folder: shutil.copy(METRICS / "bertscore/bert/model.safetensors", folder / LITE),
        "lacks"),
    ("lite", "no pieces"): (gone(PIECES), "found no spm.model"),
    ("lite", "another's pieces"): (
        lambda folder: shutil.copy(METRICS / "metricx/tokenizer/spiece.model", folder / PIECES),
        "found no piece '[CLS]'"),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by DeBERTa's file
@pytest.mark.parametrize(("kind", "damage"), OTHERS)
def test_another_model_that_is_damaged_is_refused_in_one_line(kind, damage, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    monkeypatch.chdir(tmp_path)
    (metric, model, *options), source = MODELS[kind]
    shutil.copytree(METRICS / source, "model")
    apply, wanted = OTHERS[kind, damage]
    apply(Path("model"))
    refused(metric, model, wanted, *options)
