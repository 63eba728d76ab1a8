"""A tiny MetricX with mT5's whole vocabulary, from the few rows of it that tests use."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from project import TESTS

WORDS = 250112
SCORE = 250089  # the token whose logit is the score
DATA = TESTS / "metrics" / "metricx"


def expand(folder: Path) -> None:
    """Write config.json and model.safetensors as on the hub."""
    weights = load_file(DATA / "weights.safetensors")
    shared = torch.zeros(WORDS, weights["score"].shape[0])
    used = weights.pop("shared.weight")
    shared[: len(used)] = used
    head = torch.zeros_like(shared)
    head[SCORE] = weights.pop("score")
    folder.mkdir(parents=True, exist_ok=True)
    save_file({**weights, "shared.weight": shared, "lm_head.weight": head},
              folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((DATA / "tokenizer" / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
