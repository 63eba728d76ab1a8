"""Models' files, from the hub or from disk, read without executing anything that is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from minrisk.errors import InputError


def folder_of(model: str) -> Path:
    """A folder as it is, or that of a model on the hub."""
    path = Path(model)
    if path.is_dir():
        return path
    if model.count("/") != 1 or path.is_absolute():
        raise InputError(f"{model}: no such file or folder, and no name of a model on the hub "
                         "(owner/name)")
    return _from_hub(model)


def _from_hub(model: str) -> Path:
    """The model's folder in the local cache, downloaded only if it is not there."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, local_files_only=True))
    except Exception:  # not in the cache: the hub may still have it
        pass
    try:
        return Path(snapshot_download(model))
    except Exception as error:  # absent, gated, offline: the hub's own words say which
        raise InputError(f"{model}: not in the local cache, and not to be had from the hub: "
                         f"{_short(error)}; for a gated model accept its terms there and run "
                         "`hf auth login`, or give the folder of a copy") from None


def file_of(model: str, name: str) -> Path:
    """One file of a folder, or of a model on the hub."""
    if (Path(model) / name).is_file():
        return Path(model) / name
    if Path(model).exists():
        raise InputError(f"{model}: found no {name}; give a folder that has it")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model, name, local_files_only=True))
    except Exception:  # not in the cache: the hub may still have it
        pass
    try:
        return Path(hf_hub_download(model, name))
    except Exception as error:
        raise InputError(f"{name} of {model!r} is not in the local cache, and not to be had from "
                         f"the hub: {_short(error)}; give a folder that has it") from None


def pretrained(kind: Any, name: str, what: str, hint: str = "give the folder of a copy",
               **settings: Any) -> Any:
    """By a class of transformers, which reads no pickled code: from here first, the hub last."""
    try:
        return _quietly(kind, name, local_files_only=True, **settings)
    except Exception as error:  # transformers raises many; each means that it is not there
        reason = error
    if Path(name).exists():
        raise InputError(f"{name}: {what} cannot be read: {_short(reason)}")
    try:
        return _quietly(kind, name, **settings)
    except Exception as error:
        raise InputError(f"{what} {name!r} is not in the local cache, and not to be had from the "
                         f"hub: {_short(error)}; {hint}") from None


def whole_model(kind: Any, name: str) -> Any:
    """A model none of whose weights are missing, which transformers would make up."""
    model, found = pretrained(kind, name, "the model", output_loading_info=True)
    absent = sorted(key for key in found["missing_keys"] if "pooler" not in key)
    if absent:
        raise InputError(f"{name}: lacks {len(absent)} weights of {type(model).__name__}, "
                         f"{absent[0]} for one; is it a model of another kind?")
    return model.eval()


def _quietly(kind: Any, name: str, **settings: Any) -> Any:
    """Without the notes and bars of transformers, which would break ours."""
    from transformers.utils import logging as found

    logging: Any = found  # which has no types
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return kind.from_pretrained(name, **settings)
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def read_pickled(path: Path, harmless: list[Any] | None = None) -> Any:
    """What torch saved, with nothing but tensors, plain data and what is known to be harmless."""
    try:
        with torch.serialization.safe_globals(harmless or []):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(f"{path}: cannot be read as a checkpoint: {_short(error)}; "
                         "copy it again, it may be truncated") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
