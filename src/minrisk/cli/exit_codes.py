"""The exit codes of the command line."""

from __future__ import annotations

MISUSE = 2
SOME_FAILED = WRONG_NUMBERS = 3
INTERRUPTED, CLOSED_PIPE, TERMINATED = 130, 141, 143  # 128 and the number of the signal

MEANINGS = {  # for the manual
    0: "everything was done",
    MISUSE: "wrong options or input, a missing package or a file that cannot be read: the message "
            "says what to do; finished segments are kept",
    SOME_FAILED: "the run is finished, but some segments failed and are in the output as errors; "
                 "from `doctor`, a score differs from the expected one",
    INTERRUPTED: "interrupted by Ctrl-C; `--resume` goes on",
    CLOSED_PIPE: "the reader of standard output went away, as `head` does",
    TERMINATED: "ended by SIGTERM or SIGHUP; `--resume` goes on",
}
