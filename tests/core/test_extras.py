"""A package that is missing: its extra is named, and nothing is made."""

from __future__ import annotations

import sys

import pytest

from commands import run, write


@pytest.mark.parametrize(("module", "extra", "command"), [
    ("ray", "ray", "decode @in.jsonl -o @out/ --engine ray"),
    ("fsspec", "fsspec", "decode memory://in.jsonl -o @out/"),
    ("pyarrow", "parquet", "decode @in.parquet -o @out/"),
    ("matplotlib.figure", "plot", "validate @in.jsonl --plot @a.png -o @out/")])
def test_a_command_names_the_extra_that_it_lacks(module, extra, command, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "minrisk.run.ray", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    write(tmp_path / "in.jsonl", {"samples": ["a", "b"]})
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    result = run(*command.replace("@", f"{tmp_path}/").split())
    assert result.code == 2
    assert f"pip install 'minrisk[{extra}]'" in result.err
    assert not (tmp_path / "out").exists()
