"""Fields of a configuration that say what they are for, to `--help` as to the reader."""

from __future__ import annotations

import dataclasses
from typing import Any


def option(default: Any = dataclasses.MISSING, *, help: str, matters: bool = True) -> Any:
    """A dataclass field with a line of help; it must be given if it has no default.

    One that does not matter cannot change a result, such as a number of threads: signatures leave
    it out.
    """
    return dataclasses.field(default=default, metadata={"help": help, "matters": matters})
