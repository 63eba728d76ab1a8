"""Golden values of COMET, a folder that stands for the hub, and other precisions."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from project import TESTS

DATA = TESTS / "metrics" / "comet"
CHECKPOINTS = DATA / "checkpoints"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))


def enter_hub(folder: Path, monkeypatch) -> None:
    """Work where the encoders' names lead to their files, as names on the hub would."""
    for name, kind in GOLDEN["hub"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(DATA / kind)
    monkeypatch.chdir(folder)


def cast(estimator: Any, dtype: Any) -> Any:
    """The same estimator in another precision."""
    parts = {name: getattr(estimator, name).to(dtype)
             for name in ("per_hyp", "per_ref", "per_pair", "bias")}
    layers = {"middle": [copy.deepcopy(layer).to(dtype) for layer in estimator.middle],
              "last": copy.deepcopy(estimator.last).to(dtype)}
    return replace(estimator, **parts, **layers)
