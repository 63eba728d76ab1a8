"""The guides name everything there is, and pictures and tables are what their scripts make."""

from __future__ import annotations

import pytest

from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from project import DOCS, ROOT, load_module


@pytest.mark.parametrize(("page", "registry"), [
    ("choose-a-metric", METRICS), ("strategies", STRATEGIES), ("sampling", SAMPLERS)])
def test_a_guide_names_everything_to_choose_from(page, registry):
    text = (DOCS / "guides" / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in registry.builtin if f"| `{name}" not in text] == []


@pytest.mark.parametrize("name", ["consensus", "number_of_samples"])
def test_a_picture_is_what_its_script_draws(name, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    drawn = load_module(DOCS / "figures" / f"{name}.py").draw().svg()
    kept = (DOCS / "images" / f"{name.replace('_', '-')}.svg").read_text(encoding="utf-8")
    assert drawn == kept


def test_the_table_of_speed_is_made_from_the_results_of_benchmarks():
    table = load_module(ROOT / "benchmarks" / "speed.py").table()
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")
