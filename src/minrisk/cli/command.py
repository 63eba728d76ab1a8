"""A command: a function of frozen dataclasses, whose fields are its options.

Fields of the chosen metric, strategy and sampler are options, too: `--groups 16` sets the field
`groups` of the strategy, `--metric.order 4` the field `order` of the metric. So parsing takes two
passes: the first finds the names of these components in the configuration file and the arguments;
then click parses the arguments with the options of the components added.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from minrisk._core.adapters import clear_metric_cache
from minrisk._core.errors import InputError, MinriskError, nearest
from minrisk._core.process import set_threads
from minrisk._core.registry import METRICS
from minrisk.cli.components import (
    REFERENCES,
    Component,
    ComponentOptions,
    Names,
    frequent_options,
    names_in,
)
from minrisk.cli.options import CONFIG, FieldOption, entries, parameters, sentence, set_flags
from minrisk.cli.other_tools import foreign_hint

if TYPE_CHECKING:
    from minrisk.cli.config import Config

_COMPONENTS = "minrisk.cli.components"  # key in a context's `meta`
_ALL = "minrisk.cli.help_all"  # key: whether --help-all was given
_SECTIONS = ("Input", "Sampling", "Method", "Output", "Running")  # of the help, in order
_SETTINGS = {"token_normalize_func": methodcaller("replace", "_", "-"), "max_content_width": 100}


def command(
    *, examples: str = "", without: Sequence[str] = (), frequent: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], OptionsCommand]:
    """Make a command from a function; its options are the fields of the dataclasses it takes.

    A field of several dataclasses is one option that fills all of them. Fields in `without` have no
    option and keep their defaults. `frequent` has helps of options of samplers, which --help shows
    even if no sampler is chosen.
    """
    return partial(OptionsCommand, examples, without, frequent or {})


class OptionsCommand(click.Command):
    """A command whose callback takes dataclasses, filled from its options."""

    def __init__(self, examples: str, without: Sequence[str], frequent: Mapping[str, str],
                 function: Callable[..., Any]) -> None:
        self.frequent = frequent
        hints = get_type_hints(function)
        self.groups = groups = [hint for name, hint in hints.items() if name != "return"]
        params: dict[str | None, click.Parameter] = {}
        for param in (param for group in groups for param in parameters(group)):
            if param.name not in without:
                params.setdefault(param.name, param)
        super().__init__(function.__name__, dict(_SETTINGS), function, list(params.values()),
                         help=function.__doc__, epilog=f"\b\nExamples:\n{examples}")
        if any(isinstance(param, FieldOption) and param.spec.advanced for param in self.params):
            self.params.append(_HELP_ALL)
        self.registries = [registry for group in groups if issubclass(group, ComponentOptions)
                           for registry in group.registries]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            self._find_components(ctx, names_in(args))
        except MinriskError:
            if not ctx.resilient_parsing:  # set while a shell completes an unfinished line
                raise
        try:
            rest = super().parse_args(ctx, list(args))  # a copy: click consumes the list
        except click.NoSuchOption as error:
            raise self._unknown_options(ctx, error.option_name, args) from None
        except click.BadOptionUsage as error:
            raise self._bad_usage(ctx, error) from None
        set_flags(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        assert self.callback is not None
        clear_metric_cache()  # an earlier run in this process may have read other files
        if ctx.params.get("quiet"):
            warnings.simplefilter("ignore")
        set_threads(ctx.params.get("threads"))
        return ctx.invoke(self.callback, *(_filled(group, ctx) for group in self.groups))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        further = [option for component in _components(ctx) for option in component.options]
        return [*super().get_params(ctx), *further]

    def _find_components(self, ctx: click.Context, given: Names) -> None:
        """Find the components that the configuration file and the arguments name."""
        path = given.last("--config")
        config = None
        if path:
            from minrisk.cli.config import read_config  # few runs need it

            config = read_config(path, self.name)
        names = Names(config.names() | given) if config else given
        ctx.meta[_COMPONENTS] = [component for group in self.groups
                                 if issubclass(group, ComponentOptions)
                                 for component in group.named(names)]
        if config:
            self._use_config(ctx, config)

    def _use_config(self, ctx: click.Context, config: Config) -> None:
        """Take the values of a configuration file as defaults; InputError for unknown keys."""
        options = self._field_options(ctx)
        if keys := config.unknown(options):
            flags = [option.flag for option in options]
            errors = (f"unknown key {key!r}; {self._hint(ctx, f'--{key}', flags)}" for key in keys)
            raise InputError(f"{config.path}: {''.join(errors)}see --help")
        ctx.meta[CONFIG] = config.path
        ctx.default_map = config.default_map(options)

    def _field_options(self, ctx: click.Context) -> list[FieldOption]:
        return [param for param in self.get_params(ctx) if isinstance(param, FieldOption)]

    def _bad_usage(self, ctx: click.Context, error: click.BadOptionUsage) -> click.UsageError:
        flags = {option.flag for option in self._field_options(ctx) if option.is_flag}
        if error.option_name not in flags:
            return error
        return click.UsageError(f"{error.option_name} takes no value; use {error.option_name} for "
                                f"true, --no-{error.option_name[2:]} for false")

    def _unknown_options(self, ctx: click.Context, first: str,
                         args: Sequence[str]) -> InputError:
        """One error for all unknown options: a command line of another tool has several."""
        known = [opt for param in self.get_params(ctx)
                 for opt in (*param.opts, *param.secondary_opts) if opt[:2] == "--"]
        given = (arg.partition("=")[0].replace("_", "-") for arg in args if arg[:2] == "--")
        first = first.replace("_", "-") if first.startswith("--") else first
        names = dict.fromkeys([first, *(name for name in given if name not in (*known, "--"))])
        takes = "".join(f"{component.takes}; " for component in _components(ctx))
        return InputError("".join(f"unknown option {name!r}; {self._hint(ctx, name, known)}"
                                  for name in names)
                          + ("" if any(self._hint(ctx, name, known) for name in names) else takes)
                          + "see --help")

    def _hint(self, ctx: click.Context, name: str, known: Iterable[str]) -> str:
        """A hint: which component has the option, its name in minrisk, or the closest name."""
        for component in _components(ctx):
            if reason := (component.lacks or {}).get(name[2:].replace("-", "_")):
                return f"{reason}; "
        owners = [f"{registry.kind} {entry.name}" for registry in self.registries
                  if registry is not METRICS for entry in entries(registry)
                  if name in (field.flag for field in entry.fields)]
        if owners:
            return f"it belongs to {', '.join(owners)}; "
        if hint := foreign_hint(name, self.name):
            return f"{hint}; "
        flags = set(known)
        if name.startswith(REFERENCES) and "--reference-samples" in flags and not any(
                flag.startswith(REFERENCES) for flag in flags):
            return "it needs --reference-samples M; "
        # without the leading dashes, which would make all options similar
        close = nearest(name.lstrip("-"), (flag.lstrip("-") for flag in flags))
        return f"did you mean '--{close}'? " if close else ""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options by section; --help-all adds the advanced ones."""
        sections, others = self._sections(ctx)
        for title, options in sections.items():
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=24)
        formatter.write_paragraph()
        for component in others:
            formatter.write_text(sentence(component.takes))
        if self.registries:
            plurals = (registry.group.removeprefix("minrisk.") for registry in self.registries)
            kinds = (f"--{registry.kind} NAME --help" for registry in self.registries)
            formatter.write_text(
                f"All names: {', '.join(f'minrisk list {plural}' for plural in plurals)}. "
                f"Options of one: {', '.join(kinds)}.")

    def _sections(self, ctx: click.Context
                  ) -> tuple[dict[str, list[click.Option]], list[Component]]:
        """The options of each section, and the components whose options are only listed by name.

        Those are the default components, if the command has several kinds of components.
        """
        is_all = ctx.meta.get(_ALL, False)
        sections: dict[str, list[click.Option]] = {name: [] for name in _SECTIONS}
        others = [component for component in _components(ctx)
                  if component.is_default and len(self.registries) > 1 and not is_all]
        for param in self.params:
            if isinstance(param, FieldOption) and (is_all or not param.spec.advanced):
                sections[param.spec.section].append(param)
        sections["Running"] += [param for param in self.get_params(ctx)
                                if isinstance(param, click.Option)
                                and not isinstance(param, FieldOption)]  # --help and --help-all
        for component in _components(ctx):
            if component not in others:
                sections.setdefault(component.title, []).extend(component.options)
            elif component.kind == "sampler":
                sections["Sampling"][1:1] = frequent_options(component, self.frequent)
        return sections, others


def _components(ctx: click.Context) -> list[Component]:
    found: list[Component] = ctx.meta.get(_COMPONENTS, [])
    return found


def _filled(group: type, ctx: click.Context) -> Any:
    """A dataclass with the values of its options."""
    known = {f.name for f in dataclasses.fields(group)}
    values = {name: value for name, value in ctx.params.items() if name in known}
    if issubclass(group, ComponentOptions):
        values["fields"] = fields = defaultdict[str, dict[str, Any]](dict)
        for component in _components(ctx):
            for option in component.options:
                if (value := ctx.params[option.name]) is not None:
                    fields[option.owner][option.key] = value
                elif option.field.required:
                    raise component.lacking(option)
    return group(**values)


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                         callback=_show_all, help="Show all options, including rarely used ones.")
