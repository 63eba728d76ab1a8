"""Ray with a real GPU, where there is one: workers that have it, or share it, change no byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import run
from shard_folders import lines

torch = pytest.importorskip("torch", reason="needs the extra minrisk[hf]")
pytest.importorskip("ray", reason="needs the extra minrisk[ray]")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def args(tmp_path_factory) -> tuple[object, ...]:
    """Sources in three files, and a tiny model to translate them."""
    import tiny_models

    folder: Path = tmp_path_factory.mktemp("sources")
    for number, count in enumerate((5, 12, 1)):
        (folder / f"{number}.txt").write_text("the cat sat on a mat\na red dog ran\n" * count)
    model = tiny_models.save(folder / "model", "marian")
    return (*sorted(folder.glob("*.txt")), "--model", model, "-n", "8", "--dtype", "fp32",
            "--batch-size", "3")


@pytest.mark.parametrize("share", [("--gpus-per-worker", "1"),
                                   ("--gpus-per-worker", "0.5", "--workers", "2")])
def test_samples_are_those_of_one_machine(args, share, tmp_path):
    assert run("sample", *args, "-o", f"{tmp_path}/local/", "--gpus-per-worker", "1").code == 0
    found = run("sample", *args, "-o", f"{tmp_path}/ray/", "--engine", "ray", *share)
    assert found.code == 0, found.err
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")


def test_some_draw_with_the_gpu_and_others_choose_without(args, tmp_path):
    assert run("translate", *args, "-o", f"{tmp_path}/local/").code == 0
    found = run("translate", *args, "-o", f"{tmp_path}/ray/", "--engine", "ray",
                "--gpus-per-worker", "1", "--sampling-workers", "1", "--workers", "3")
    assert found.code == 0, found.err
    assert "3 workers for decode" in found.err
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")


def test_more_gpus_than_there_are_are_refused(args, tmp_path):
    found = run("sample", *args, "-o", f"{tmp_path}/ray/", "--engine", "ray", "--gpus-per-worker",
                "99")
    assert "99 GPUs" in found.err
