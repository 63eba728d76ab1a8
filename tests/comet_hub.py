"""Golden values of COMET, and a folder that stands for the hub."""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).parent / "comet"
CHECKPOINTS = DATA / "checkpoints"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))


def enter_hub(folder: Path, monkeypatch) -> None:
    """Work where the encoders' names lead to their files, as names on the hub would."""
    for name, kind in GOLDEN["hub"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(DATA / kind)
    monkeypatch.chdir(folder)
