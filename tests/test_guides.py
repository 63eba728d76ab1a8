"""The guides name everything there is, and pictures and tables are what their scripts make."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest

from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from project import DOCS, ROOT, load_module


@pytest.mark.parametrize(("page", "registry"), [
    ("choose-a-metric", METRICS), ("strategies", STRATEGIES), ("sampling", SAMPLERS)])
def test_a_guide_names_everything_to_choose_from(page, registry):
    text = (DOCS / "guides" / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in registry.builtin if f"| `{name}" not in text] == []


@pytest.mark.parametrize(("page", "module", "names", "pattern"), [
    ("reference/file-formats", "minrisk.io.formats", "FORMATS", r"\b{}\b"),
    ("guides/decode", "minrisk.io.formats", "ChoiceFormat", r"\b{}\b"),
    ("guides/training", "minrisk.io.formats", "TrainingFormat", r"\b{}\b"),
    ("guides/scale", "minrisk.run.options", "ENGINES", r"--engine {}\b"),
    ("guides/serve", "minrisk.server.http", "_REQUEST_HEADERS", "`{}`")])
def test_a_page_names_every_format_engine_and_header(page, module, names, pattern):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").lower()
    found = getattr(pytest.importorskip(module), names)
    known = {*(get_args(found) or found)} - {"authorization", "content-type"}
    assert [name for name in known if not re.search(pattern.format(name), text)] == []


@pytest.mark.parametrize("name", ["calibration", "confidence", "consensus", "number_of_samples",
                                  "speed"])
def test_a_picture_is_what_its_script_draws(name, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    drawn = load_module(DOCS / "figures" / f"{name}.py").draw().svg()
    kept = (DOCS / "images" / f"{name.replace('_', '-')}.svg").read_text(encoding="utf-8")
    assert drawn == kept


def test_the_table_of_early_stopping_is_what_its_script_makes():
    table = load_module(ROOT / "benchmarks" / "serve" / "early_stopping.py").table()
    assert table in (DOCS / "guides" / "cost.md").read_text(encoding="utf-8")


@pytest.fixture
def pages():
    return load_module(ROOT / "benchmarks" / "pages.py")


@pytest.mark.parametrize("folder", ["benchmarks", "experiments"])
def test_tables_stand_between_markers_of_one_form(pages, folder):
    texts = {page: page.read_text(encoding="utf-8") for page in (ROOT / folder).rglob("*.md")}
    assert [page for page, text in texts.items()
            if text.count("<!--") != 2 * len(pages.PLACE.findall(text))] == []


def test_a_table_without_a_place_is_not_dropped(pages, tmp_path):
    place = "<!-- table: {} -->\n{}\n<!-- end -->\n"
    before, after = (place.format("x", x) + "b\n" + place.format("y", 2) for x in (1, r"\1 \g<0>"))
    page = tmp_path / "page.md"
    page.write_text(before, encoding="utf-8")
    pages.fill(page, {"x": r"\1 \g<0>"})
    assert page.read_text(encoding="utf-8") == after
    with pytest.raises(ValueError, match="z"):
        pages.fill(page, {"x": "", "z": ""})
    assert page.read_text(encoding="utf-8") == after


def test_the_latency_of_serve_in_the_guide_is_the_measured_one():
    results = json.loads((ROOT / "benchmarks" / "serve" / "results.json").read_text("utf-8"))
    overhead = results["one client"]["overhead"]["median_ms"]
    text = (DOCS / "guides" / "cost.md").read_text(encoding="utf-8")
    assert f"about {overhead:.0f} ms per request" in text


def test_the_numbers_of_the_readme_are_made_from_results():
    speed = load_module(ROOT / "benchmarks" / "speed.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [part for part in (speed.headlines(), speed.table()) if part not in readme] == []


def test_the_speed_of_chrf_is_that_of_the_native_core_as_it_is():
    results = json.loads((ROOT / "benchmarks" / "chrf" / "results.json").read_text("utf-8"))
    now = load_module(ROOT / "benchmarks" / "machine.py").native_core()
    assert results["machine"]["core"] == now, "the core has changed: run `make bench`"


@pytest.mark.parametrize("page", ["docs/guides/scale.md", "benchmarks/scale/README.md"])
def test_the_tables_of_scale_are_made_from_the_results_of_benchmarks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert load_module(ROOT / "benchmarks" / "scale" / "table.py").with_tables(text) == text


def test_scale_and_the_readme_report_the_same_costs():
    scale = load_module(ROOT / "benchmarks" / "scale" / "table.py")
    speed = load_module(ROOT / "benchmarks" / "speed.py")
    cost = scale.costs(scale.read(scale.RESULTS))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for seconds in (cost["comet"], cost["sample"]):
        assert f"**{speed.milliseconds(seconds)} ms**" in readme


@pytest.mark.parametrize(("name", "script", "file"), [
    ("number-of-samples", "run", "results"), ("significance", "run", "results"),
    ("uncertainty", "run", "results"), ("uncertainty", "answers", "answers")])
def test_the_tables_of_experiments_are_made_from_their_results(name, script, file):
    folder = ROOT / "experiments" / name
    results = json.loads((folder / f"{file}.json").read_text(encoding="utf-8"))
    table = load_module(folder / f"{script}.py").table(results)
    assert table in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["benchmarks/inspect", "experiments/calibration",
                                  "experiments/compose", "experiments/confidence"])
def test_all_tables_of_a_page_are_made_from_its_results(name):
    folder = ROOT / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    tables = load_module(folder / "run.py").tables(results)
    assert [name for name, table in tables.items() if table not in text] == []
