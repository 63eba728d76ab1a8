"""A model and its tokenizer from a folder or the hub; no code of theirs is run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging as _logging

from minrisk.errors import InputError

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load(name: str, device: str, dtype: str) -> tuple[Any, Any]:
    """The model, ready to run, and its tokenizer."""
    where = _device(device)
    config = _read(name, "configuration", AutoConfig.from_pretrained)
    with warnings.catch_warnings():
        # for punctuation; an extra of ours has it, and who left it out knows
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        tokenizer = _read(name, "tokenizer", AutoTokenizer.from_pretrained)
    if not len(tokenizer):
        raise InputError(f"{name}: its tokenizer knows no words; are all of its files there?")
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    read = partial(kind.from_pretrained, dtype=_dtype(dtype, where))
    with _quietly():
        model = _read(name, "model", read)
    return model.to(where).eval(), tokenizer


def _read(name: str, what: str, read: Callable[..., Any]) -> Any:
    """From a folder or the local cache; only what is not there is asked of the hub."""
    try:
        return read(name, local_files_only=True)
    except Exception as error:  # transformers raises many; each means that it cannot be had
        reason = error
    if Path(name).exists() or name.count("/") != 1:
        raise InputError(f"{name}: its {what} cannot be read: {_short(reason)}; wanted a folder "
                         "with a model's configuration, weights and tokenizer, or a name on "
                         "the hub (owner/name)")
    try:
        return read(name)
    except Exception as error:
        raise InputError(f"{name}: its {what} is not in the local cache, and not to be had from "
                         f"the hub: {_short(error)}; for a gated model accept its terms there and "
                         "run `hf auth login`, or give the folder of a copy") from None


@contextmanager
def _quietly() -> Iterator[None]:
    """No bar for the loading of weights; whoever shows progress shows ours."""
    logging: Any = _logging  # it has no types
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"device {name!r} is not known; cuda or cpu is wanted") from None


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name != "auto":
        return _DTYPES[name]
    return torch.bfloat16 if device.type == "cuda" else torch.float32
