"""The manual without Sphinx: its code runs, its pages can be found, its links lead somewhere.

Blocks of `python` and `sh` run, page by page, and print what the block of `text` after them says.
Blocks of `py` and `console` need a model, a server or a cluster: their names and flags are checked.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

import minrisk
import minrisk.plugins
from commands import run
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk.cli import cli
from minrisk.cli.options import entries
from minrisk.io.segments import KNOWN_FIELDS
from project import DOCS, ROOT, fenced_blocks, load_module

PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / "README.md", *PAGES]
LANGUAGES = {"python", "py", "sh", "console", "text", "json", "yaml", "toml", "nginx"}
_INCLUDE = re.compile(r"^`{3,}\{include\} (\S+)$", flags=re.MULTILINE)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def with_language(*languages: str) -> pytest.MarkDecorator:
    """The documents that have such blocks."""
    return pytest.mark.parametrize(
        "page", [page for page in DOCUMENTS if any(block.language in languages
                                                   for block in fenced_blocks(page))],
        ids=lambda page: page.relative_to(ROOT).as_posix())


EVERY_PAGE = pytest.mark.parametrize("page", PAGES,
                                     ids=lambda page: page.relative_to(DOCS).as_posix())


@EVERY_PAGE
def test_every_block_names_its_language(page):
    languages = {block.language for block in fenced_blocks(page)}
    assert {one for one in languages if not one.startswith("{")} <= LANGUAGES


@with_language("python", "sh")
def test_the_code_of_a_page_prints_what_it_says(page, tmp_path, monkeypatch):
    """In an empty folder, so that a page makes the files that it names."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)  # where dataclasses look for it
    for block in fenced_blocks(page):
        if block.language == "python":
            printed = printed_by(block.code, module)
        elif block.language == "sh":
            printed = printed_by_shell(block.code)
        else:
            continue
        assert block.output is None or printed == block.output


def printed_by(code: str, module: ModuleType) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, vars(module))
    return printed.getvalue()


def printed_by_shell(code: str) -> str:
    """Commands of ours that need nothing of a shell but `> FILE` run in this process."""
    ours = re.compile(r"^(minrisk [^|&;*\n]*)\n", flags=re.MULTILINE)
    return "".join((printed_by_command if number % 2 else printed_by_bash)(piece)
                   for number, piece in enumerate(ours.split(code)) if piece)


def printed_by_command(line: str) -> str:
    _, *args = shlex.split(line, comments=True)
    path = args.pop() if args[-2:-1] == [">"] else None
    done = run(*args[:-1] if path else args)
    assert done.code == 0, done.err
    if path is None:
        return done.out
    Path(path).write_text(done.out, encoding="utf-8", newline="")
    return ""


def printed_by_bash(code: str) -> str:
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@with_language("py")
def test_python_that_cannot_run_here_names_what_there_is(page):
    for block in fenced_blocks(page):
        if block.language == "py":
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "minrisk":
                    assert node.attr in {*minrisk.__all__, "hf", "plugins", "testing"}


@with_language("console")
def test_commands_that_cannot_run_here_have_flags_that_exist(page):
    for block in fenced_blocks(page):
        if block.language == "console":
            for args in commands_in(block.code):
                assert unknown_flags(args) == []


def test_a_flag_that_does_not_exist_is_found():
    [args] = commands_in("$ FOO=1 minrisk decode a.jsonl --metrics chrf --metric.order 2 | head\n")
    assert unknown_flags(args) == ["--metrics"]
    [args] = commands_in("$ minrisk sample \\\n    in.txt --model M --epsilon 1 --keep 2 # words\n")
    assert unknown_flags(args) == ["--keep"]
    assert list(commands_in("minrisk: 2 segments\n$ curl http://localhost\n")) == []


def commands_in(code: str) -> Iterator[list[str]]:
    """The arguments of each `minrisk` in lines of a shell; lines without a prompt are output."""
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            lexer = shlex.shlex(line[2:], posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            yield from _commands_of(list(lexer))


def _commands_of(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in [*words, "|"]:
        if word in ("|", "||", "&&", ";", "&"):
            if "minrisk" in part[:3]:
                yield part[part.index("minrisk") + 1:]
            part = []
        else:
            part.append(word)


def unknown_flags(args: list[str]) -> list[str]:
    """The flags that the command does not have, with the metric and so on that they name."""
    context = click.Context(cli, info_name="minrisk")
    command: click.Command = cli
    while isinstance(command, click.Group) and args and not args[0].startswith("-"):
        found = command.get_command(context, args[0])
        assert found is not None, args
        command, args = found, args[1:]
        context = command.make_context(command.name, list(args), parent=context,
                                       resilient_parsing=True, ignore_unknown_options=True)
    known = {flag for param in command.get_params(context)
             for flag in (*param.opts, *param.secondary_opts)}
    given = [arg.partition("=")[0].replace("_", "-") for arg in args if re.match("--[a-z]", arg)]
    return [flag for flag in given if flag not in known]


@EVERY_PAGE
def test_every_page_is_in_one_toctree(page):
    places = [other for other in PAGES if page in _listed(other)]
    assert len(places) == (0 if page == DOCS / "index.md" else 1)


def _listed(page: Path) -> list[Path]:
    entries = "\n".join(_TOCTREE.findall(page.read_text(encoding="utf-8"))).splitlines()
    names = [re.sub(r".*<(.*)>", r"\1", line) for line in entries if line]
    return [page.parent / f"{name}.md" for name in names if not name.startswith(":")]


def test_toctrees_name_pages_that_exist():
    assert [path for page in PAGES for path in _listed(page) if not path.exists()] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    included = [(page.parent / name).resolve()
                for name in _INCLUDE.findall(page.read_text(encoding="utf-8"))]
    for path in [page, *included]:
        assert [link for link in _links(path) if not _leads_somewhere(path, link)] == []


def _links(path: Path) -> list[str]:
    """The links of a document, outside its code, that are no addresses."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", path.read_text(encoding="utf-8"),
                  flags=re.MULTILINE | re.DOTALL)
    found = _LINK.findall(re.sub(r"`[^`\n]*`", "", text))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def _leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in _anchors(target)


def _anchors(path: Path) -> set[str]:
    """Headings as the forges and MyST name them, and explicit targets."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
             for heading in headings}
    return slugs | set(re.findall(r"^\((\S+)\)=$", text, flags=re.MULTILINE))


@EVERY_PAGE
def test_addresses_in_links_are_well_formed(page):
    text = page.read_text(encoding="utf-8")
    for address in re.findall(r"\]\((https?:[^)\s]*)\)", text):
        assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[\w./%#?=&~+-]*)?", address)


def test_the_messages_that_the_manual_explains_are_those_of_the_code():
    """By some words in a row, since values, and the forms of options, stand between words."""
    known = {run for path in (ROOT / "src").rglob("*.py") for text in texts_in(path)
             for run in runs_of_words(text)}
    shown = [line for block in fenced_blocks(DOCS / "guides" / "troubleshooting.md")
             if block.language == "text" for line in block.code.splitlines()
             if line.startswith(("minrisk: ", "RuntimeWarning")) and "pip install '" not in line]
    assert shown
    assert [line for line in shown if known.isdisjoint(runs_of_words(line))] == []


def texts_in(path: Path) -> Iterator[str]:
    """The strings of a module, with a star for each value in one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*"
                          for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def runs_of_words(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[start:start + 3]) for start in range(len(words) - 2)}


# the reference, which is written from the code

REFERENCE = load_module(DOCS / "_extensions" / "reference_text.py")


def reference(name: str) -> str:
    """A page of the reference as it is before Sphinx parses it."""
    return REFERENCE.written((DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8"))


def test_the_reference_has_every_public_name():
    python, plugins = reference("python"), reference("plugins")
    names = [name for name in minrisk.__all__ if name != "__version__"]
    assert [name for name in names if f":: minrisk.{name}\n" not in python] == []
    theirs = [name for name in minrisk.plugins.__all__ if name not in minrisk.__all__]
    assert [name for name in theirs if f":: minrisk.plugins.{name}\n" not in plugins] == [
        "AnyMetric"]  # an alias, which is in the table of types


def test_the_reference_has_every_command_and_its_options():
    text = reference("commands")
    root = click.Context(cli, info_name="minrisk")
    for name in cli.list_commands(root):
        section = text.partition(f"## `minrisk {name}`\n")[2].partition("\n## ")[0]
        command = cli.get_command(root, name)
        assert command is not None
        shown = [param for param in command.params if isinstance(param, click.Option)
                 and not param.hidden and param.name not in ("help", "help_all")]
        assert section
        flags = [[flag for flag in (*option.opts, *option.secondary_opts) if flag[:2] == "--"]
                 for option in shown]
        assert [names for names in flags if not any(name in section for name in names)] == []


@pytest.mark.parametrize(("page", "registry", "prefix"), [
    ("metrics", METRICS, "--metric."), ("strategies", STRATEGIES, "--"),
    ("samplers", SAMPLERS, "--")])
def test_the_reference_has_every_component_with_its_options(page, registry, prefix):
    text = reference(page)
    for entry in entries(registry, list(registry.builtin)):
        section = text.partition(f"## `{entry.name}`\n")[2].partition("\n## ")[0]
        assert [field.name for field in entry.fields if field.name not in ("metric", "seed")
                and f"| `{prefix}{field.flag[2:]}` |" not in section] == []


def test_a_block_of_a_page_is_replaced_and_the_rest_stays():
    found = REFERENCE.written("before\n\n```{exit-codes}\n```\n\nafter\n")
    assert found.startswith("before\n\n| code | meaning |\n")
    assert found.endswith("\n\nafter\n")


def test_a_line_for_readers_of_a_checkout_is_not_in_the_manual():
    assert REFERENCE.written("```{exit-codes}\n# a note\n```\n") == REFERENCE.written(
        "```{exit-codes}\n```\n")
    blocks = [found[0] for page in (DOCS / "reference").glob("*.md")
              for found in REFERENCE.BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert blocks
    assert [block for block in blocks if "\n# " not in block] == []


@pytest.mark.parametrize("registry", [METRICS, STRATEGIES, SAMPLERS], ids=lambda one: one.kind)
def test_every_component_declares_its_cost_and_papers_that_are_listed(registry):
    listed = (DOCS / "reference" / "papers.md").read_text(encoding="utf-8")
    for entry in entries(registry, list(registry.builtin)):
        assert entry.cost
        assert [paper for paper in entry.papers if f"| {paper} |" not in listed] == []


def test_the_papers_are_in_order():
    text = (DOCS / "reference" / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+? \d{4}[ab]?) \|", text, flags=re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert rows == sorted(rows, key=lambda row: row.split()[0].lower())


def citations(text: str) -> set[str]:
    """Papers by two or more authors, as `Cheng & Vlachos 2023` or `Rei et al. 2022a`."""
    found = re.findall(r"\w[\w-]+\s+(?:et\s+al\.|&\s+\w[\w-]+)\s+\d{4}[a-z]?\b", text)
    return {" ".join(one.split()) for one in found}


def test_every_paper_that_pages_and_examples_cite_is_listed_in_that_form():
    listed = (DOCS / "reference" / "papers.md").read_text(encoding="utf-8")
    for path in (*PAGES, *(ROOT / "examples").glob("*.py")):
        cited = citations(path.read_text(encoding="utf-8"))
        assert [one for one in sorted(cited) if f"| {one} |" not in listed] == []


def test_every_field_of_the_input_is_among_the_file_formats():
    text = (DOCS / "reference" / "file-formats.md").read_text(encoding="utf-8")
    assert [field for field in sorted(KNOWN_FIELDS) if f"`{field}`" not in text] == []


def test_the_manual_lists_the_environment_variables_that_the_code_reads():
    text = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    assert listed == {name for path in (ROOT / "src").rglob("*.py") for name in variables_in(path)}


def variables_in(path: Path) -> set[str]:
    """The names of environment variables in a module, by their form."""
    text = path.read_text(encoding="utf-8")
    found = set(re.findall(r"\b_?MINRISK_[A-Z]+(?:_[A-Z]+)*\b", text))
    if "environ" in text:
        strings = (node.value for node in ast.walk(ast.parse(text))
                   if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found |= {value for value in strings if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", value)}
    return found
