"""The files for people who cite minrisk or report a problem."""

from __future__ import annotations

import re

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
