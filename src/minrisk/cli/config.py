"""`--config run.yaml`: the same fields as the flags, so that there is one way to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from minrisk._core.errors import InputError
from minrisk.io.files import Input


def config_arguments(path: str) -> list[str]:
    """The file as arguments, to be put before those of the command line, which then win."""
    arguments = list(_arguments(_load(path), "", path))
    names = Counter(name for name in (argument.partition("=")[0] for argument in arguments)
                    if name != "--input")
    for name, count in names.items():
        if count > 1:
            raise InputError(f"{path}: found {name[2:]!r} in {count} spellings, wanted it once")
    return arguments


def check_keys(path: str, arguments: Iterable[str], known: Iterable[str],
               hint: Callable[[str, Iterable[str]], str]) -> None:
    options = {option for option in known if option.startswith("--")} - {"--config", "--help"}
    for argument in arguments:
        option = argument.partition("=")[0]
        if option not in options:
            raise InputError(f"{path}: key {option[2:]!r}: {hint(option, options)}see --help")


def _load(path: str) -> dict[Any, Any]:
    import yaml  # here, because few runs need it

    source = Input(path)
    text = "\n".join(source.text(line) for line in source)
    try:
        found = yaml.load(text, _strict_loader())
    except InputError as error:
        raise InputError(f"{path}:{error}") from None
    except Exception as error:  # for PyYAML raises all kinds: `!!bool maybe` is a KeyError
        raise InputError(f"{path}: found invalid YAML, wanted `option: value` lines: "
                         + " ".join(str(error).split())) from None
    if found is None:  # an empty file
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{path}: found {type(found).__name__}, wanted a mapping: "
                         "`option: value` lines")
    return found


@cache
def _strict_loader() -> Any:
    """A loader of plain values: what is written once, and nothing that means something else."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):  # a few of them can stand for endless values
                event: Any = self.peek_event()  # type: ignore[no-untyped-call]
                raise InputError(f"{event.start_mark.line + 1}: found the alias *{event.anchor}, "
                                 "wanted plain values: write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen:
                    raise InputError(f"{key.start_mark.line + 1}: found the key {key.value!r} "
                                     "twice, wanted it once")
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    return StrictLoader


def _arguments(mapping: dict[Any, Any], owner: str, path: str) -> Iterator[str]:
    for key, value in mapping.items():
        yield from _flags(_name(str(key).replace("_", "-"), owner), value, path)


def _name(key: str, owner: str) -> str:
    """`metric: {name: chrf, order: 4}` is --metric and --metric.order; others add no dot."""
    if owner and key == "name":
        return owner
    return key if owner in ("", "strategy", "sampler") else f"{owner}.{key}"


def _flags(name: str, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _arguments(value, name, path)
    elif isinstance(value, list):
        if name != "input":
            raise InputError(f"{path}: found a list for {name!r}, wanted one value")
        yield from (f"--{name}={item}" for item in value)
    elif isinstance(value, bool):
        yield f"--{name}={str(value).lower()}"
    elif value is not None:
        yield f"--{name}={value}"
