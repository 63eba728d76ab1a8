"""Counts the functions and files of minrisk that a command passes, or a call for a corpus.

usage: python tools/walk.py decode samples.jsonl -o best.jsonl
       python tools/walk.py --call samples.jsonl      (minrisk.decode_corpus)

Counted are those above the core, the metrics and the strategies, in this process and all threads;
a comprehension or a lambda belongs to the function that it stands in.
"""

from __future__ import annotations

import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import minrisk

SOURCE = Path(minrisk.__file__).parent
BELOW = {"_core", "_torch", "metrics", "strategies"}


def main(args: list[str]) -> None:
    passed: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED  # the body of a class or a module is none
        if event == "call" and is_function and code.co_filename.startswith(f"{SOURCE}/"):
            path = code.co_filename.removeprefix(f"{SOURCE}/")
            name = code.co_qualname.partition(".<locals>.<")[0]
            if path.split("/")[0] not in BELOW:
                passed.add((path, name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run(args)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    for path, name in sorted(passed):
        print(f"{path}: {name}", file=sys.stderr)
    print(f"{len(passed)} functions in {len({path for path, _ in passed})} files")


def run(args: list[str]) -> None:
    if args[0] == "--call":
        list(minrisk.decode_corpus(args[1]))
    else:
        from minrisk.cli import main as command_line

        command_line(args)


if __name__ == "__main__":
    main(sys.argv[1:])
