"""Checkpoints that are damaged, absurd or malicious: one line each, and nothing built or run."""

from __future__ import annotations

import json
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

FIRST, GAMMA = "estimator.ff.0.weight", "layerwise_attention.gamma"
DEEP = 100_000  # brackets in each other, beyond what Python's parsers can follow

Damage = Callable[[Path], None]


def checkpoint(change: Callable[[dict], object]) -> Damage:
    """Changes what torch saved."""
    def damage(folder: Path) -> None:
        path = folder / "checkpoints" / "model.ckpt"
        content = torch.load(path, weights_only=True)
        change(content)
        torch.save(content, path)

    return damage


def weights(change: Callable[[dict], object]) -> Damage:
    return checkpoint(lambda content: change(content["state_dict"]))


def parameters(**given: object) -> Damage:
    return checkpoint(lambda content: content["hyper_parameters"].update(given))


def encoder(**given: object) -> Damage:
    return lambda folder: hostile.change(folder / "encoder" / "config.json", **given)


def hparams(content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "hparams.yaml").write_bytes(content)

    return damage


def bare_pickle(folder: Path) -> None:
    content = pickle.dumps(hostile.Calls(Path("PWNED")))
    (folder / "checkpoints" / "model.ckpt").write_bytes(content)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "no first layer": (weights(lambda w: w.pop(FIRST)), f"lacks 1 weights, {FIRST[13:]}"),
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
                              "something else than weights"),
    "a list of weights": (checkpoint(lambda c: c.update(state_dict=[1, 2])),
                          "something else than weights"),
    "a list of parameters": (checkpoint(lambda c: c.update(hyper_parameters=[1, 2])),
                             "wanted a mapping of hyperparameters"),
    "absurd hidden sizes": (parameters(hidden_sizes=[10**9, 10**9]), "does not fit: size mismatch"),
    "hidden sizes that are none": (parameters(hidden_sizes=["a", -1]), "found hidden_sizes ['a'"),
    "negative hidden sizes": (parameters(hidden_sizes=[-5]), "found hidden_sizes [-5]"),
    "an activation that is a program": (parameters(activations="Module"), "found activations"),
    "an activation that is none": (parameters(final_activation=["Tanh"]), "found final_activation"),
    "a layer that is none": (parameters(layer=10**6), "layer 1000000 of"),
    "a layer of another type": (parameters(layer=[1]), "found layer [1]"),
    "an encoder that is a path": (parameters(encoder_model="../../etc"), "is not known"),
    "another encoder": (parameters(encoder_model="RemBERT"), "configuration of another encoder"),
    "no heads": (encoder(num_attention_heads=0), "makes no model: ZeroDivisionError"),
    "an unknown activation": (encoder(hidden_act="no such thing"), "makes no model: KeyError"),
    "too many layers": (encoder(num_hidden_layers=10**7), "num_hidden_layers 10000000; wanted"),
    "an absurd vocabulary": (encoder(vocab_size=10**12), "vocab_size 1000000000000; wanted"),
    "deep YAML": (hparams(b"[" * DEEP), "hparams.yaml: found invalid YAML"),
    "YAML in another encoding": (hparams("class: é".encode("latin-1")), "found invalid YAML"),
    "YAML that is a list": (hparams(b"- a\n- b\n"), "found list, wanted a mapping"),
    "YAML that calls": (hparams(b"!!python/object/apply:os.system ['touch PWNED']"),
                        "found invalid YAML"),
    "a pickle that calls": (
        lambda folder: torch.save({"state_dict": {}, "x": hostile.Calls(Path("PWNED"))},
                                  folder / "checkpoints" / "model.ckpt"),
        ".system, which no weights need; nothing was executed"),
    "a bare pickle": (bare_pickle, "its pickle is none that torch saved"),
}


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(CHECKPOINTS / "xlmr_mix_sparsemax", "model")
    shutil.copytree(DATA / "encoders" / "xlm-roberta", "model/encoder")
    return Path("model")


def refused(metric: str, model: Path, wanted: str, *options: object) -> None:
    samples = write(Path("samples.jsonl"), {"source": "a", "samples": ["a cat", "the"]})
    found = run("decode", samples, "--metric", metric, "--metric.model", model, "--metric.device",
                "cpu", *options, "-q")
    assert (found.code, found.out) == (2, "")
    [line] = found.err.splitlines()
    assert wanted in line, line
    assert str(model) in line
    assert not Path("PWNED").exists()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_comet_model_is_refused_in_one_line(damage, model):
    apply, wanted = DAMAGES[damage]
    apply(model)
    refused("comet", model, wanted)


@pytest.mark.parametrize(("content", "wanted"), [
    ("[]", "found list, wanted a mapping"), ("null", "found NoneType, wanted a mapping"),
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


@pytest.mark.parametrize(("fields", "wanted"), [
    ({"num_attention_heads": 0}, "makes no model: ZeroDivisionError"),
    ({"hidden_act": "no such thing"}, "makes no model: KeyError"),
    ({"hidden_size": 10**7}, "does not fit: size mismatch"),
    ({"num_hidden_layers": 10**7}, "num_hidden_layers 10000000; wanted"),
    ({"hidden_size": "large"}, "makes no model"),
])
def test_a_damaged_bleurt_model_is_refused_in_one_line(fields, wanted, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TESTS / "metrics" / "bleurt" / "model", "model")
    hostile.change(Path("model/config.json"), **fields)
    refused("bleurt", Path("model"), wanted)


def test_bleurt_weights_that_are_none_are_refused_in_one_line(tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece", reason="needs the extra minrisk[neural]")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TESTS / "metrics" / "bleurt" / "model", "model")
    torch.save([1, 2], "model/pytorch_model.bin")
    refused("bleurt", Path("model"), "something else than weights")


@pytest.mark.parametrize(("fields", "wanted"), [
    ({"num_attention_heads": 0}, "its model cannot be read"),
    ({"vocab_size": 10**5}, "its weights do not have the sizes that its configuration says"),
    ({"num_hidden_layers": 60}, "lacks"),
    ({"model_type": "clip_vision_model"}, "lacks")])
def test_a_damaged_model_of_transformers_is_refused_in_one_line(fields, wanted, tmp_path,
                                                                monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TESTS / "metrics" / "bertscore" / "bert", "model")
    hostile.change(Path("model/config.json"), **fields)
    refused("bertscore", Path("model"), wanted, "--metric.layer", 1)


def test_a_deep_configuration_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TESTS / "metrics" / "bertscore" / "bert", "model")
    Path("model/config.json").write_text("[" * DEEP, encoding="utf-8")
    refused("bertscore", Path("model"), "its configuration cannot be read", "--metric.layer", 1)
    Path("model/config.json").write_text(json.dumps([]), encoding="utf-8")
    refused("bertscore", Path("model"), "its configuration cannot be read", "--metric.layer", 1)
