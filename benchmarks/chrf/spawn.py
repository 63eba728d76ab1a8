"""Runs a command and prints its time, peak memory and exit status as JSON.

usage: spawn.py COMMAND ...

A script of its own because it must be small: a child's peak memory starts at its parent's.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(command: list[str]) -> None:
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]  # standard output
    start = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    print(json.dumps({
        "seconds": time.perf_counter() - start,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "status": os.waitstatus_to_exitcode(status),
    }))


if __name__ == "__main__":
    main(sys.argv[1:])
