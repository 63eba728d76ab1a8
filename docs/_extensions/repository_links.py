"""Links between the manual and the rest of the repository.

A page links to files by their relative paths, as a reader of the repository follows them. In the
manual, a link to a file that a page includes leads to that page, one to another file downloads it,
and a folder that no page shows is only named.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INCLUDE = re.compile(r"^`{3,}\{include\} (\S+)$", flags=re.MULTILINE)


def included(page: Path) -> list[Path]:
    """The files that a page includes."""
    return [(page.parent / name).resolve()
            for name in INCLUDE.findall(page.read_text(encoding="utf-8"))]


def pages() -> dict[Path, str]:
    """The page that shows a file of the repository, or the README of a folder."""
    shown = {}
    for page in DOCS.rglob("*.md"):
        for path in included(page):
            shown[path] = page.relative_to(DOCS).with_suffix("").as_posix()
            if path.name == "README.md":
                shown[path.parent] = shown[path]
    return shown


def target_path(node: nodes.Element, page: Path) -> Path | None:
    """The file or folder of a link, relative to the page or to a file that it includes."""
    target = node["reftarget"].split("#")[0]
    if node.get("refdomain") == "doc":  # relative to the folder of the manual, without its suffix
        target = os.path.relpath(DOCS / f"{target}.md", page.parent)
    found = ((folder / target).resolve() for folder in
             [page.parent, *(path.parent for path in included(page))])
    return next((path for path in found if path.exists()), None) if target else None


def resolve(app: Sphinx, doctree: nodes.document) -> None:
    """Resolve the links that leave the folder of the manual, and those of included files."""
    docname = app.env.docname
    page, shown = DOCS / f"{docname}.md", pages()
    for node in [*doctree.findall(pending_xref), *doctree.findall(download_reference)]:
        path = target_path(node, page) if node.get("reftype") == "myst" else None
        if path is None or (DOCS in path.parents and not included(page)):
            continue
        anchor = node["reftarget"].partition("#")[2] or node.get("reftargetid")
        replace(node, path, shown, docname, anchor)


def replace(node: nodes.Element, path: Path, shown: dict[Path, str], docname: str,
            anchor: str | None) -> None:
    """Put the link of the manual in the place of a link of the repository."""
    common = {"refdoc": docname, "reftype": "myst", "refexplicit": True}
    inside = DOCS in path.parents and path.suffix == ".md"
    if inside or path in shown:
        name = path.relative_to(DOCS).with_suffix("").as_posix() if inside else shown[path]
        link = pending_xref("", *node.children, refdomain="doc", reftarget=name,
                            reftargetid=anchor or None, **common)
    elif path.is_file():
        link = download_reference("", "", *node.children, refdomain=None,
                                  reftarget=f"/{os.path.relpath(path, DOCS)}", **common)
    else:
        link = nodes.inline("", "", *node.children)
    node.replace_self(link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Before links are resolved, and before downloads are collected."""
    app.connect("doctree-read", resolve, priority=100)
    return {"parallel_read_safe": True}
