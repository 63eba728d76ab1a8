"""The files for people who cite minrisk, report a problem or make a release."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from minrisk.version import __version__
from project import ROOT

TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))


def test_the_citation_has_this_version_and_the_paper():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(found["version"]) == __version__
    assert found["license"] == "Apache-2.0"
    (paper,) = found["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Vamvas", "Sennrich"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_an_issue_template_has_a_head_with_name_and_purpose(path):
    head = re.match(r"---\n(.*?)---\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert head is not None
    assert {"name", "about"} <= yaml.safe_load(head[1]).keys()


def test_reports_of_bugs_ask_for_the_doctor():
    assert "minrisk doctor" in (ROOT / ".github/ISSUE_TEMPLATE/bug.md").read_text(encoding="utf-8")


def test_the_workflow_runs_targets_of_the_makefile():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    used = {target for command in commands for target in re.findall(r"\bmake ([\w-]+)", command)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"lint", "test", "dist"} <= used <= set(re.findall(r"(?m)^([\w-]+):", makefile))


def test_a_release_has_no_wheel_without_its_core():
    """What `make dist` tries with a missing compiler."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    fallbacks = [o for o in tools["scikit-build"]["overrides"] if o["if"].get("failed")]
    assert [o["if"]["env"] for o in fallbacks] == [{"MINRISK_REQUIRE_NATIVE": False}]
    wheels = tools["cibuildwheel"]
    for environment in (wheels["environment"], wheels["windows"]["environment"]):
        assert environment["MINRISK_REQUIRE_NATIVE"] == "1"


def test_the_core_tests_exist():
    for path in (ROOT / "tests" / "core.txt").read_text(encoding="utf-8").split():
        assert (ROOT / path).exists()
