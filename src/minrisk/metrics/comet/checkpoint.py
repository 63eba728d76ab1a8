"""Published COMET checkpoints, read without executing anything in them.

A model is a hub name (for Unbabel's models also without the owner), a folder with `hparams.yaml`
and `checkpoints/model.ckpt` as on the hub, a `.ckpt` file in such a folder, a folder written by
`minrisk comet convert`, or that of XCOMET-lite, with `model.safetensors` and `config.json`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml
from torch import Tensor

from minrisk._core.errors import InputError
from minrisk._torch.loading import model_folder
from minrisk._torch.weights import as_weights, read_pickle, read_safetensors
from minrisk.metrics.comet.pooling import Pooling

REGRESSION, REFERENCELESS = "regression_metric", "referenceless_regression_metric"
UNIFIED, XCOMET = "unified_metric", "xcomet_metric"
UNIFIED_CLASSES = (UNIFIED, XCOMET)  # models that read all texts as one sequence
_SPARSEMAX_PATCH = "sparsemax_patch"
_DEFAULT_POOL = "default"  # the encoder class chooses
_POOLS = (*get_args(Pooling), _DEFAULT_POOL)
_FIRST_TOKEN_ENCODERS = ("XLM-RoBERTa", "XLM-RoBERTa-XL")  # the default pool is the first token
_LIST_FIELDS = ("hidden_sizes", "input_segments")
_CHECKPOINT = Path("checkpoints") / "model.ckpt"
_CONVERTED, _LITE, _WEIGHTS = "minrisk.json", "config.json", "model.safetensors"
# activations without parameters, by the name that the official code looks up
_ACTIVATIONS = ("Tanh", "Sigmoid", "Identity", "Softplus", "Softsign", "Hardtanh", "Hardsigmoid")
# names without an owner, as in comet-mbr and comet-score
_SHORT_NAMES = frozenset({
    "wmt20-comet-da", "wmt20-comet-qe-da", "wmt22-comet-da", "wmt22-cometkiwi-da", "wmt22-unite-da",
    "wmt23-cometkiwi-da-xl", "wmt23-cometkiwi-da-xxl", "eamt22-cometinho-da", "unite-mup",
    "XCOMET-XL", "XCOMET-XXL",
})
_LITE_PARAMETERS = {  # defaults for XCOMET-lite (Larionov et al. 2024)
    "class_identifier": XCOMET, "encoder_model": "DeBERTa",
    "pretrained_model": "microsoft/mdeberta-v3-base", "layer_norm": False, "word_layer": 8,
}


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters of a checkpoint; the defaults are those of the official code."""

    class_identifier: str
    encoder_model: str = "XLM-RoBERTa"
    pretrained_model: str = "xlm-roberta-large"
    pool: Pooling = "avg"
    layer: str | int = "mix"
    layer_transformation: str = "softmax"
    layer_norm: bool = True
    hidden_sizes: tuple[int, ...] = (3072, 1024)
    activations: str = "Tanh"
    final_activation: str | None = None
    input_segments: tuple[str, ...] = ("mt", "src", "ref")  # for unified models
    word_layer: int = 24  # layer whose states XCOMET tags with error severities

    @classmethod
    def of(cls, parameters: Mapping[str, Any], where: Path) -> Architecture:
        known = {f.name for f in fields(cls)}
        given = {key: value for key, value in parameters.items() if key in known}
        if given.get("class_identifier") is None:
            raise InputError(f"{where}: found no class_identifier, expected COMET hyperparameters")
        _check_class(given["class_identifier"], where)
        for name, value in given.items():
            is_fine, wanted = _VALUE_CHECKS.get(name, _TEXT_CHECK)
            if not is_fine(value):
                raise InputError(f"{where}: found {name} {value!r:.60}, expected {wanted}")
        given |= {key: tuple(given[key]) for key in _LIST_FIELDS if key in given}
        if given["class_identifier"] in UNIFIED_CLASSES:
            layer = parameters.get("sent_layer", given.get("layer", cls.layer))
            given |= {"pool": "cls", "layer": layer}
        if given.get("pool") == _DEFAULT_POOL:
            _check_default_pool(given.get("encoder_model", cls.encoder_model), where)
            given |= {"pool": "cls", "layer": -1}
        # the official code treats this name as softmax since version 2.2.4
        if given.get("layer_transformation") == _SPARSEMAX_PATCH:
            given["layer_transformation"] = "softmax"
        return cls(**given)


def _check_default_pool(encoder: str, where: Path) -> None:
    """Refuse encoders with a pooler; for others, the default is the last layer's first token."""
    if encoder not in _FIRST_TOKEN_ENCODERS:
        raise InputError(f"{where}: found pool 'default' of {encoder}, which has a pooler that is "
                         f"not supported; expected {' or '.join(_FIRST_TOKEN_ENCODERS)}, or one of "
                         f"{', '.join(get_args(Pooling))}")


def _is_activation(value: Any) -> bool:
    return isinstance(value, str) and value.title() in _ACTIVATIONS


def _is_list(kind: type, value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(own, kind) for own in value)


ValueCheck = tuple[Callable[[Any], bool], str]  # (is the value valid, what is expected)
_TEXT_CHECK: ValueCheck = (lambda value: isinstance(value, str), "a text")
_VALUE_CHECKS: dict[str, ValueCheck] = {
    "pool": (lambda value: value in _POOLS, f"one of {', '.join(_POOLS)}"),
    "layer": (lambda value: isinstance(value, (str, int)), "mix, or a number"),
    "layer_norm": (lambda value: isinstance(value, bool), "true or false"),
    "hidden_sizes": (lambda value: _is_list(int, value) and all(size > 0 for size in value),
                     "a list of positive numbers"),
    "activations": (_is_activation, f"one of {', '.join(_ACTIVATIONS)}"),
    "final_activation": (lambda value: value is None or _is_activation(value),
                         f"none, or one of {', '.join(_ACTIVATIONS)}"),
    "input_segments": (partial(_is_list, str), "a list of texts"),
    "word_layer": (lambda value: isinstance(value, int), "a number"),
}


def _check_class(found: object, where: Path) -> None:
    known = (REGRESSION, REFERENCELESS, *UNIFIED_CLASSES)
    if found not in known:
        raise InputError(f"{where}: found a COMET model of class {found!r}, expected one of "
                         f"{', '.join(known)}")


@dataclass(frozen=True)
class Checkpoint:
    """The hyperparameters and weights of a COMET model."""

    architecture: Architecture
    weights: Mapping[str, Tensor]
    folder: Path  # may contain the encoder's configuration and tokenizer, too


def load(model: str) -> Checkpoint:
    folder, path = _locate(model)
    if path.name == _WEIGHTS:
        return _load_safe(folder)
    content = _read(path)
    inside, beside = _parameters(content.get("hyper_parameters") or {}, path), _hparams(folder)
    # as in the official code, the checkpoint overrides hparams.yaml, except for these two fields
    inside["class_identifier"] = beside.get("class_identifier", inside.get("class_identifier"))
    if beside.get("layer_transformation") == _SPARSEMAX_PATCH:
        inside["layer_transformation"] = _SPARSEMAX_PATCH
    architecture = Architecture.of(beside | inside, path)
    return Checkpoint(architecture, as_weights(content["state_dict"], path), folder)


def save(checkpoint: Checkpoint, encoder_files: Iterable[Any], folder: Path) -> None:
    """Writes a checkpoint without pickles: safetensors, JSON, and the encoder's own files.

    The folder must not exist; it is created atomically.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: this folder exists and is not empty; name another one, or "
                         "remove it")
    whole = folder.resolve()
    unfinished = whole.with_name(f".{whole.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir(parents=True)
        _write(checkpoint, encoder_files, unfinished)
        unfinished.rename(whole)
    except Exception as error:  # OSError, or an exception of safetensors
        raise InputError(f"{folder}: cannot be written: {error}; free some space, or name another "
                         "folder") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(checkpoint: Checkpoint, encoder_files: Iterable[Any], folder: Path) -> None:
    from safetensors.torch import save_file

    weights = {name: tensor.contiguous().clone() for name, tensor in checkpoint.weights.items()}
    save_file(weights, folder / _WEIGHTS)
    text = json.dumps(vars(checkpoint.architecture), indent=1)
    (folder / _CONVERTED).write_text(text + "\n", encoding="utf-8")
    # safetensors creates files that only the owner can read; copy the usual mode
    shutil.copymode(folder / _CONVERTED, folder / _WEIGHTS)
    for file in encoder_files:
        file.save_pretrained(folder / "encoder")


def _locate(model: str) -> tuple[Path, Path]:
    """The folder of a model and the file with its weights."""
    path = Path(model)
    if path.is_file():
        folder = path.parent.parent if path.parent.name == _CHECKPOINT.parent.name else path.parent
        return folder, path
    is_short = model in _SHORT_NAMES and not path.exists()
    folder = model_folder(f"Unbabel/{model}" if is_short else model)
    return folder, _weights_in(folder)


def _weights_in(folder: Path) -> Path:
    for candidate in (folder / _WEIGHTS, folder / _CHECKPOINT):
        if candidate.is_file():
            return candidate
    raise InputError(f"{folder}: found neither {_CHECKPOINT} nor {_WEIGHTS}; expected a COMET "
                     "model as on the hub, or as `minrisk comet convert` writes it")


def _read(path: Path) -> dict[str, Any]:
    content = read_pickle(path, _safe_globals())
    if not isinstance(content, dict) or "state_dict" not in content:
        raise InputError(f"{path}: found no state_dict, expected a Lightning checkpoint")
    return content


class _Attributes(dict[str, Any]):
    """Replaces Lightning's dictionary of hyperparameters in pickles."""


def _safe_globals() -> list[Any]:
    names = ("lightning_fabric.utilities.data.AttributeDict",
             "lightning.fabric.utilities.data.AttributeDict",
             "pytorch_lightning.utilities.parsing.AttributeDict")
    return [(_Attributes, name) for name in names]


def _hparams(folder: Path) -> dict[str, Any]:
    file = folder / "hparams.yaml"
    if not file.is_file():
        return {}
    try:
        parameters = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{file}: found invalid YAML: {' '.join(str(error).split())}") from None
    return _parameters(parameters, file)


def _parameters(parameters: Any, where: Path) -> dict[str, Any]:
    if not isinstance(parameters, dict):
        raise InputError(f"{where}: found {type(parameters).__name__}, expected a mapping of "
                         "hyperparameters")
    return dict(parameters)


def _load_safe(folder: Path) -> Checkpoint:
    path = folder / _CONVERTED
    given: dict[str, Any] = {}
    if not path.is_file():
        path, given = folder / _LITE, _LITE_PARAMETERS
    try:
        parameters = json.loads(path.read_text(encoding="utf-8"))
        weights = read_safetensors(folder / _WEIGHTS)
    except (InputError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder}: cannot be read as a converted model or as XCOMET-lite: "
                         f"{error}; copy it again, or run `minrisk comet convert` again") from None
    architecture = Architecture.of(given | _parameters(parameters, path), path)
    return Checkpoint(architecture, weights, folder)
