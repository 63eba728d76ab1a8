"""Options in messages: the library names them as in Python, the command line shows flags.

    resume=True -> --resume        max_errors=3 -> --max-errors 3        address= -> --address
"""

from __future__ import annotations

import re

OPTIONS = frozenset({"output", "resume", "overwrite", "max_errors", "num_candidates", "oracle",
                     "input_format", "weights", "conversational", "prompt", "work", "engine",
                     "address"})
_OPTION = re.compile(rf"""\b({'|'.join(sorted(OPTIONS))})=(True\b|'\w+'|"[^"]*"|\d+)?""")
_MISSING = re.compile(r"\b(metric|strategy|sampler) ('[^']*') needs the option (\w+)=")


def as_flags(message: str) -> str:
    """The message with flags where the library names options."""
    return _MISSING.sub(_missing_flag, _OPTION.sub(_flag, message))


def _flag(found: re.Match[str]) -> str:
    flag = f"--{found[1].replace('_', '-')}"
    value = (found[2] or "").strip("'")
    return flag if value in ("", "True") else f"{flag} {value}"


def _missing_flag(found: re.Match[str]) -> str:
    kind, name, option = found.groups()
    owner = "metric." if kind == "metric" else ""
    return f"{kind} {name} needs the option --{owner}{option.replace('_', '-')}"
