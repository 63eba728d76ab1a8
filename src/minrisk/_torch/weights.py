"""Reads weight files without executing anything in them, and loads them into models."""

from __future__ import annotations

import hashlib
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minrisk._core.errors import InputError

_VALUES_PER_TENSOR = 64  # values of each tensor in the fingerprint
_INDEX_BUFFERS = ("position_ids", "token_type_ids")  # constant buffers, not weights
# matches the name of a disallowed class or function in torch's error
_REFUSED_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
# torch's advice to disable the protection, which we do not repeat
_ADVICE = ("Weights only load failed", "Please file an issue", "Check the documentation", "(1)",
           "(2)")


def read_pickle(path: Path, safe_globals: list[Any] | None = None) -> Any:
    """Read a file of torch.save; anything but tensors, plain data and `safe_globals` is an error.
    """
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(safe_globals or []):
            warnings.simplefilter("ignore")  # warnings about unusual pickle protocols
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = (pickle_refusal(error)
                  or f"{_error_text(error)}; copy it again, it may be truncated")
        raise InputError(f"{path}: cannot be read as a checkpoint: {reason}") from None


def pickle_refusal(error: BaseException | None) -> str | None:
    """The reason why torch refused to load a pickle, if that caused the error."""
    while error is not None:
        if found := _REFUSED_GLOBAL.search(str(error)):
            return (f"its pickle would call {found[1]}, which no weights need; nothing was "
                    "executed: do not trust it, or save it as safetensors where it is trusted")
        if isinstance(error, pickle.UnpicklingError):
            return (f"its pickle is none that torch saved: {_error_text(error)}; nothing was "
                    "executed")
        error = error.__cause__ or error.__context__
    return None


def _error_text(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    told = " ".join(line for line in lines if line and not line.startswith(_ADVICE))
    return told[:300] or type(error).__name__


def read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # safetensors has its own exceptions
        raise InputError(f"{path}: cannot be read: {error}; copy it again") from None


def as_weights(found: Any, where: Path) -> dict[str, Tensor]:
    """The content of a weight file, checked to be tensors by name."""
    if not isinstance(found, Mapping) or not all(
            isinstance(name, str) and isinstance(own, Tensor) for name, own in found.items()):
        raise InputError(f"{where}: expected a mapping from names to weights; copy it again")
    return dict(found)


def fingerprint(weights: Mapping[str, Tensor], *settings: str) -> bytes:
    """Hash of a model from some values of each weight, so that it need not be read as a whole."""
    digest = hashlib.sha256("\0".join(settings).encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(weights.items()):
        flat = tensor.flatten()
        some = flat[:: max(1, len(flat) // _VALUES_PER_TENSOR)].float().contiguous()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + some.cpu().numpy().tobytes())
    return digest.digest()


@contextmanager
def meta_build(where: object) -> Iterator[None]:
    """Builds a model without weights, on the device `meta`; errors become an InputError."""
    try:
        with torch.device("meta"):  # skips random initialisation
            yield
    except InputError:
        raise
    except Exception as error:  # an invalid configuration may cause any exception
        raise InputError(f"{where}: its configuration is invalid: {type(error).__name__}: "
                         f"{_error_text(error)}; copy it again") from None


def load_weights(model: Any, weights: Mapping[str, Tensor], where: object, hint: str) -> None:
    """Loads the weights of a model that was built on the device `meta`; all must be present."""
    try:
        missing, _ = model.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:  # sizes do not match
        reason = str(error).splitlines()[-1].strip()
        raise InputError(f"{where}: the checkpoint does not fit: {reason}; {hint}") from None
    absent = [name for name in missing if not name.endswith(_INDEX_BUFFERS)]
    if absent:
        raise InputError(f"{where}: the checkpoint lacks {len(absent)} weights, such as "
                         f"{absent[0]}; {hint}")
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_meta:
                module.register_buffer(name, _index_buffer(name, buffer), persistent=False)


def _index_buffer(name: str, like: Tensor) -> Tensor:
    counting = torch.arange(like.shape[1]) if name == _INDEX_BUFFERS[0] else torch.zeros(1)
    return counting.long().expand(like.shape)
