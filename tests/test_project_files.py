"""The files for people who cite minrisk, report a problem or make a release."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from minrisk.version import __version__
from project import ROOT, load_module

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_of_others_is_pinned_by_its_commit(path):
    """A tag can be moved to other code."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    used = [found["uses"] for job in jobs.values() for found in (job, *job.get("steps", ()))
            if "uses" in found]
    assert used
    for action in used:
        assert action.startswith("./") or re.search("@[0-9a-f]{40}$", action), action


def test_a_release_has_no_wheel_without_its_core():
    """What `make dist` tries with a missing compiler."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    fallbacks = [o for o in tools["scikit-build"]["overrides"] if o["if"].get("failed")]
    assert [o["if"]["env"] for o in fallbacks] == [{"MINRISK_REQUIRE_NATIVE": False}]
    wheels = tools["cibuildwheel"]
    for environment in (wheels["environment"], wheels["windows"]["environment"]):
        assert environment["MINRISK_REQUIRE_NATIVE"] == "1"


def test_a_release_has_absolute_links():
    """What a package index shows has no repository around it."""
    tool = load_module(ROOT / "tools" / "absolute_links.py")
    there = ("https://example.org/minrisk", "v1.2.3")
    readme = tool.absolute((ROOT / "README.md").read_text(encoding="utf-8"), *there)
    assert all(link.startswith(("https://", "#")) for link in re.findall(r"\]\(([^)]+)\)", readme))
    for link in ("raw/v1.2.3/docs/images/consensus.svg", "blob/v1.2.3/docs/start.md#when",
                 "tree/v1.2.3/experiments/reference-aggregation"):
        assert f"({there[0]}/{link}" in readme
    project = tool.with_addresses((ROOT / "pyproject.toml").read_text(encoding="utf-8"), *there)
    assert tomllib.loads(project)["project"]["urls"]["Repository"] == there[0]


def test_scripts_that_a_readme_runs_exist():
    pages = [page for folder in ("tests", "benchmarks", "experiments", "examples")
             for page in (ROOT / folder).rglob("*.md")]
    scripts = [(page, script) for page in pages for script in
               re.findall(r"\bpython ([a-z0-9_./-]+\.py)\b", page.read_text(encoding="utf-8"))]
    assert scripts
    assert [(page, script) for page, script in scripts
            if not any((folder / script).exists() for folder in (ROOT, page.parent))] == []


def test_the_core_tests_exist():
    for path in (ROOT / "tests" / "core.txt").read_text(encoding="utf-8").split():
        assert (ROOT / path).exists()


def requirements(*names: str) -> list[Requirement]:
    """Those of the lists of requirements/ with these names."""
    lines = [line.partition(" #")[0] for name in names for line in
             (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and line[0] not in "#-"]


def declared() -> list[Requirement]:
    """Those of minrisk, with the extras that `all` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = load_module(ROOT / "tools" / "lock.py").in_all(project["optional-dependencies"])
    return core() + [found for found in map(Requirement, extras) if found.name != "minrisk"]


def core() -> list[Requirement]:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [Requirement(line) for line in (*tables["project"]["dependencies"],
                                           *tables["build-system"]["requires"])]


LISTS = [path.stem for path in (ROOT / "requirements").glob("*.txt")
         if path.stem != "lock" and not path.stem.startswith("oldest")]


def pins(name: str) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for pin in requirements(name):
        (version,) = pin.specifier
        found.setdefault(canonicalize_name(pin.name), []).append(Version(version.version))
    return found


@pytest.mark.parametrize("requirement", [*declared(), *requirements(*LISTS)], ids=str)
def test_what_is_installed_is_locked(requirement):
    locked = pins("lock").get(canonicalize_name(requirement.name), [])
    assert locked, "run `make lock`"
    assert all(version in requirement.specifier for version in locked), "run `make lock`"


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_a_lower_bound_is_what_the_oldest_packages_have(requirement):
    """So that it is tested by `make test-oldest`; but for torch, which CONTRIBUTING explains."""
    (bound,) = requirement.specifier
    assert bound.operator == ">="
    if requirement.name != "torch":
        lock = "oldest-core" if requirement in core() else "oldest"
        (oldest,) = pins(lock)[canonicalize_name(requirement.name)]
        given = Version(bound.version).release
        assert oldest.release[:len(given)] == given, "raise the bound, or run `make lock`"


def test_locks_name_no_packages_for_cuda():
    assert not [name for name in pins("lock") if name.startswith(("nvidia-", "cuda-"))]
