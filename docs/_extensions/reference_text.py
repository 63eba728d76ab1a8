"""The parts of the reference that are written from the code, as Markdown.

A block of a page that begins with ```` ```{components} metrics ```` is replaced before the page is
parsed. `components` lists metrics, strategies or samplers with their options, from the registry
that `minrisk list` reads; `commands` lists the commands and their options, from the tables behind
`--help-all`; `public-names` documents what a module exports, by its docstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from textwrap import dedent
from typing import get_type_hints

import click

import minrisk
from minrisk._core.metric import required_abilities
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk.cli import MEANINGS, cli
from minrisk.cli.command import OptionsCommand
from minrisk.cli.components import COMMON
from minrisk.cli.options import Entry, Field, FieldOption, as_field, entries, sentence
from minrisk.cli.utilities import shown_strategies
from minrisk.run.options import RunOptions
from minrisk.tasks.keywords import RunKeywords

REGISTRIES = {"metrics": METRICS, "strategies": STRATEGIES, "samplers": SAMPLERS}
PREFIX = {"metrics": "--metric.", "strategies": "--", "samplers": "--"}
SECTIONS = ("Input", "Sampling", "Method", "Output", "Running")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row]
                                          for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: object) -> str:
    """A piece of code in a sentence or a cell."""
    return f"`{text}`"


# components


def components(kind: str) -> str:
    """A summary of all names of a kind, then a section for each."""
    found = list(entries(REGISTRIES[kind], list(REGISTRIES[kind].builtin)))
    rows = [[f"[{code(entry.name)}](#{kind}-{entry.name})", entry.summary, cost_of(entry)]
            for entry in found]
    return "\n\n".join([table(["name", "what it is", "cost"], rows),
                        *(component(kind, entry) for entry in found)])


def component(kind: str, entry: Entry) -> str:
    """The section of one metric, strategy or sampler."""
    if entry.problem:
        raise RuntimeError(f"{kind} {entry.name}: {entry.problem}")
    parts = [f"({kind}-{entry.name})=\n## {code(entry.name)}", sentence(entry.summary),
             facts(kind, entry)]
    options = [field for field in entry.fields if field.name not in COMMON]
    if options:
        parts.append(table(["option", "default", "valid values", "what it does"],
                           (option_row(PREFIX[kind], field) for field in options)))
    return "\n\n".join(parts)


def facts(kind: str, entry: Entry) -> str:
    """What is declared of a component, as a list."""
    known = {"In Python": f"{{py:obj}}`minrisk.{entry.cls.__name__}`", "Cost": cost_of(entry),
             "Papers": ", ".join(f"[{paper}](papers.md)" for paper in entry.papers)}
    if kind == "metrics":
        known |= {"Strategies": shown_strategies(entry.cls)}
    if kind == "strategies":
        known |= {f"{code('--' + field)}": f"a metric that {need}"
                  for field, need in required_abilities(entry.cls).items() if need}
    return "\n".join(f"- {name}: {value}" for name, value in known.items() if value)


def cost_of(entry: Entry) -> str:
    """Its cost, with products on one line."""
    return entry.cost.replace(" · ", "\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}")


def option_row(prefix: str, field: Field) -> list[str]:
    return [code(prefix + field.flag[2:]), default_of(field), field.valid.replace("|", ", "),
            escaped(sentence(field.help))]


def default_of(field: Field) -> str:
    if field.required:
        return "*required*"
    if field.default in (None, ()):
        return ""
    return {True: "on", False: "off"}[field.default] if field.type is bool else code(field.default)



# commands


def commands() -> str:
    """A section for each command."""
    root = click.Context(cli, info_name="minrisk")
    return "\n\n".join(command(root, name, "##") for name in cli.list_commands(root))


def command(parent: click.Context, name: str, heading: str) -> str:
    """The section of one command, or of a group and its commands."""
    group = parent.command
    assert isinstance(group, click.Group)
    found = group.get_command(parent, name)
    assert found is not None
    context = click.Context(found, parent=parent, info_name=name)
    path = context.command_path
    parts = [f"({path.replace(' ', '-')})=\n{heading} {code(path)}",
             f"```{{code-block}} text\n{path} {' '.join(found.collect_usage_pieces(context))}\n```",
             prose(found.help or ""), *option_tables(found, context), epilog(found)]
    if isinstance(found, click.Group):
        parts += [command(context, inner, f"{heading}#") for inner in found.list_commands(context)]
    return "\n\n".join(filter(None, parts))


def option_tables(found: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a command by section; those of metrics and so on have pages of their own."""
    options = [param for param in found.params if isinstance(param, click.Option)
               and not param.hidden and param.name not in ("help", "help_all")]
    by_section: dict[str, list[list[str]]] = {name: [] for name in (*SECTIONS, "")}
    for option in options:
        record = option.get_help_record(context)
        if record:
            section = option.spec.section if isinstance(option, FieldOption) else ""
            flags, text = record
            flags, _, choices = flags.partition(" [")
            listed = f" One of {choices[:-1].replace('|', ', ')}." if choices else ""
            by_section[section].append([code(flags), escaped(text + listed)])
    for section, rows in by_section.items():
        if rows:
            yield table([section or "Option", "what it does"], rows)
    if isinstance(found, OptionsCommand) and found.registries:
        links = [f"[{one.kind}]({kind}.md)" for kind, one in REGISTRIES.items()
                 if one in found.registries]
        yield f"Further options are those of the {' and the '.join(links)}."


def prose(text: str) -> str:
    """The description of a command; what click would not wrap is an example."""
    paragraphs = dedent(text if text.startswith("\n") else "    " + text).strip().split("\n\n")
    return "\n\n".join(
        f"```{{code-block}} console\n{examples(part)}\n```" if part.lstrip().startswith("\b")
        else escaped(" ".join(part.split())) for part in paragraphs)


def epilog(found: click.Command) -> str:
    text = (found.epilog or "").partition("Examples:\n")[2]
    return f"```{{code-block}} console\n{examples(text)}\n```" if text.strip() else ""


def examples(text: str) -> str:
    """Lines of a shell, each after its prompt."""
    lines = [line.strip() for line in text.replace("\b", "").strip().splitlines()]
    return "\n".join(f"$ {line}" for line in lines if line)


def escaped(text: str) -> str:
    """A sentence of a help text: its flags and JSON are code, the rest is literal."""
    parts = re.split(r"(`[^`]*`|(?<![\w-])--[a-z][\w.-]*\w|\{[^{}]*\})", text)
    return "".join(code(part.strip("`")) if number % 2 else re.sub(r"([{}_<>*\[\]])", r"\\\1", part)
                   for number, part in enumerate(parts))


# Python


def public_names(module: str, kind: str, *first: str) -> str:
    """The documentation of the names of a kind that a module exports; these come first."""
    found = [name for name in import_module(module).__all__ if kind_of(module, name) == kind
             and (module == "minrisk" or name not in minrisk.__all__)]
    found.sort(key=lambda name: first.index(name) if name in first else len(first))
    return "\n\n".join(f"```{{eval-rst}}\n{autodoc(module, name, kind)}\n```" for name in found)


def kind_of(module: str, name: str) -> str:
    """Where a public name stands: functions, errors, metrics, strategies, samplers or types."""
    found = getattr(import_module(module), name)
    home = getattr(found, "__module__", "").removeprefix("minrisk.").split(".")[0]
    if home in REGISTRIES:
        return home
    if inspect.isclass(found):
        return "errors" if issubclass(found, Exception) else "types"
    return "functions" if inspect.isroutine(found) else "other"


def autodoc(module: str, name: str, kind: str) -> str:
    """The directive for one name."""
    if kind == "functions":
        return f".. autofunction:: {module}.{name}"
    members = "" if kind in REGISTRIES else "\n   :members:"
    return f".. autoclass:: {module}.{name}{members}"


# other tables


def run_options() -> str:
    """The options of a run that Python calls take as keywords."""
    fields = [as_field(f, get_type_hints(RunOptions)[f.name])
              for f in dataclasses.fields(RunOptions) if f.name in RunKeywords.__annotations__]
    return table(["option", "default", "valid values", "what it does"],
                 ([code(field.name), *option_row("", field)[1:]] for field in fields))


def exit_codes() -> str:
    """What the exit codes mean."""
    return table(["code", "meaning"], ([code(one), text] for one, text in MEANINGS.items()))


WRITERS = {"components": components, "commands": commands, "public-names": public_names,
           "run-options": run_options, "exit-codes": exit_codes}
BLOCK = re.compile(rf"^```\{{({'|'.join(WRITERS)})\}}(.*)\n((?:.*\n)*?)```$", flags=re.MULTILINE)


def written(text: str) -> str:
    """A page in which each block is replaced by what is written from the code.

    Lines that begin with # are for readers of the page in a checkout.
    """
    def block(found: re.Match[str]) -> str:
        names = [name for line in found[3].splitlines() if not line.startswith("#")
                 for name in line.split()]
        return WRITERS[found[1]](*found[2].split(), *names)

    return BLOCK.sub(block, text)
