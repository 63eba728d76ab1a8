"""Folders of models that try to have their own code run, made from good ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

AUTO = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM", "AutoModelForCausalLM",
        "AutoTokenizer", "AutoProcessor")
KERNEL = {"attn_implementation": "evil/kernel"}  # code of the hub


class Calls:
    """A pickle that leaves a file behind where it is executed."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self._flag}",)


def change(path: Path, **fields: object) -> None:
    """A JSON file with other fields; it need not be there."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(found | fields), encoding="utf-8")


def code(folder: Path, flag: Path, name: str = "evil.py") -> None:
    """A module that leaves a file behind where it is imported."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import pathlib\npathlib.Path({str(flag)!r}).touch()\n"
                    "from transformers import *\n"
                    "class Evil(PretrainedConfig): model_type = 'new-kind'\n"
                    "def generate(*given, **named): pass\n", encoding="utf-8")


def new_kind(folder: Path, flag: Path) -> None:
    """Only its own code could load it."""
    code(folder, flag)
    change(folder / "config.json", model_type="new-kind",
           auto_map=dict.fromkeys(AUTO, "evil.Evil"))


def new_kind_that_consents(folder: Path, flag: Path) -> None:
    """And says itself that its code may be trusted."""
    new_kind(folder, flag)
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        change(folder / name, trust_remote_code=True)


def known_kind(folder: Path, flag: Path) -> None:
    """It can do without its own code."""
    code(folder, flag)
    change(folder / "config.json", auto_map=dict.fromkeys(AUTO, "evil.Evil"),
           trust_remote_code=True)


def tokenizer(folder: Path, flag: Path) -> None:
    """Both forms of the map; a class that nobody knows."""
    code(folder, flag)
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
           tokenizer_class="Evil", trust_remote_code=True)


def generation(folder: Path, flag: Path) -> None:
    """A generation loop of its own."""
    code(folder, flag, "custom_generate/generate.py")
    change(folder / "generation_config.json", custom_generate=str(folder), trust_remote_code=True)


def kernel(folder: Path, flag: Path) -> None:
    """Compiled code from elsewhere."""
    change(folder / "config.json", **KERNEL)


def pickled(folder: Path, flag: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Calls(flag)}, folder / "pytorch_model.bin")


POISONS: dict[str, Callable[[Path, Path], None]] = {
    "new kind": new_kind, "new kind that consents": new_kind_that_consents,
    "known kind": known_kind, "tokenizer": tokenizer, "generation": generation, "kernel": kernel,
    "pickle": pickled,
}
