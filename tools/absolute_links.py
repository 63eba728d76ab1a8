"""Makes the links of the README absolute, and adds the project's addresses to pyproject.toml.

usage: python tools/absolute_links.py URL TAG      as https://example.org/owner/minrisk v1.2.3

A package index shows the README without the repository, so that its links need an address, which
only a release knows: the workflow runs this before it builds. Links lead to the files of the tag.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)")


def absolute(text: str, url: str, tag: str) -> str:
    """A page of Markdown with pictures as raw files, folders and files as pages of the tag."""
    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "tree" if (ROOT / found[3]).is_dir() else "blob"
        return f"{found[1]}{found[2]}({url}/{kind}/{tag}/{found[3]})"

    return LINK.sub(link, text)


def with_addresses(project: str, url: str, tag: str) -> str:
    """pyproject.toml with more lines in its table [project.urls]."""
    pages = {"Repository": "", "Issues": "/issues", "Documentation": f"/blob/{tag}/docs/index.md",
             "Changelog": f"/blob/{tag}/CHANGELOG.md"}
    lines = "".join(f'{name} = "{url}{page}"\n' for name, page in pages.items())
    return re.sub(r"(?m)^\[project\.urls\].*\n", lambda head: head[0] + lines, project)


def main(url: str, tag: str) -> None:
    for name, change in (("README.md", absolute), ("pyproject.toml", with_addresses)):
        path = ROOT / name
        path.write_text(change(path.read_text(encoding="utf-8"), url, tag), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
