"""`--config run.yaml`: the values of options in a file, as click's `default_map`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from minrisk._core.errors import InputError
from minrisk.cli.mbrs_config import is_of_mbrs, translated
from minrisk.cli.options import FieldOption
from minrisk.io.files import Input


@dataclass(frozen=True)
class Config:
    """The values in a file, by flag without the leading dashes."""

    path: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def default_map(self, options: Iterable[FieldOption]) -> dict[str, Any]:
        """The values by name of the parameter, as strings that click converts."""
        return {str(option.name): self._value(key, option)
                for key, option in _keys(options).items() if key in self.values}

    def unknown(self, options: Iterable[FieldOption]) -> list[str]:
        return [key for key in self.values if key not in _keys(options)]

    def _value(self, key: str, option: FieldOption) -> Any:
        value = self.values[key]
        if option.multiple:
            return [str(item) for item in (value if isinstance(value, list) else [value])]
        if isinstance(value, list):
            raise InputError(f"{self.path}: found a list for {key!r}, wanted one value")
        if option.is_flag and isinstance(value, bool):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)


def read_config(path: str, command: str | None) -> Config:
    """The values in a file; `decode` takes those of mbrs too."""
    loaded = _load(path)
    found = list(_flat(loaded, ""))
    if command == "decode" and is_of_mbrs(loaded):
        found = list(translated(path, dict(found)))
    for key, count in Counter(key for key, _ in found).items():
        if count > 1:
            raise InputError(f"{path}: found {key!r} in {count} spellings, wanted it once")
    return Config(path, {key: value for key, value in found if value is not None})


def _keys(options: Iterable[FieldOption]) -> dict[str, FieldOption]:
    """Every spelling of the options that a file may have."""
    return {name[2:]: option for option in options for name in option.opts
            if name.startswith("--") and name != "--config"}


def _flat(mapping: dict[Any, Any], owner: str) -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        name = _name(str(key).replace("_", "-"), owner)
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, value


def _name(key: str, owner: str) -> str:
    """`metric: {name: chrf, order: 4}` is --metric and --metric.order; others add no dot."""
    if owner and key == "name":
        return owner
    return key if owner in ("", "strategy", "sampler") else f"{owner}.{key}"


def _load(path: str) -> dict[Any, Any]:
    import yaml  # here, because few runs need it

    text = "\n".join(Input(path).texts())
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
    """A YAML loader that refuses aliases and repeated keys."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):  # few of them can expand to very many values
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
