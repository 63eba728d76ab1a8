"""A program as a metric: it reads pairs as JSON lines and writes a score per line.

The program is started on first use, and restarted if it exits.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from queue import Empty, Queue
from typing import IO, Any

from minrisk._core.arrays import Floats
from minrisk._core.fingerprint import digest
from minrisk.metrics.user_code import PairwiseMetric, as_scores
from minrisk.plugins import InputError, option

_STDERR_LINES = 5  # lines of its standard error shown in messages
_SETTLE_SECONDS = 0.2  # seconds after the first answers to wait for surplus lines
_START_SECONDS = 10.0  # seconds to wait for a start that was interrupted
_PIPE_SECONDS = 2.0  # seconds to wait for the pipes of a killed program to close


class Program:
    """A program that answers lines. Lines are sent while answers are read, to avoid a deadlock on
    full pipes.
    """

    def __init__(self, command: str, timeout: float, restarts: int) -> None:
        self._command = command
        self._timeout = timeout
        self._restarts = restarts
        self._process: _Process | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, lines: Sequence[str]) -> list[str]:
        """An answer for each line."""
        with self._lock:
            try:
                return self._ask(lines)
            except BaseException:
                self.close()  # an unread answer must not be taken for that of the next line
                raise

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _ask(self, lines: Sequence[str]) -> list[str]:
        """Restarts the program if it exits, and resends the lines without an answer."""
        answers: list[str] = []
        deaths = 0
        while len(answers) < len(lines):
            before = len(answers)
            if self._answer(lines, answers):
                break
            deaths = deaths + 1 if len(answers) == before else 1
            if deaths > self._restarts:
                raise InputError(f"{self._command} ended {deaths} times without an answer; "
                                 f"{self._end()}")
            self.close()
        return answers

    def _answer(self, lines: Sequence[str], answers: list[str]) -> bool:
        """Sends the lines without an answer; False if the program exits before the last answer."""
        if self._process is None:
            self._process = _Process(self._command)
            self._process.start()  # once `close` knows it
        self._check_surplus()
        self._process.send(lines[len(answers):])
        while len(answers) < len(lines):
            try:
                answer = self._process.answer(self._timeout)
            except Empty:
                end = self._end()
                raise InputError(f"{self._command} gave no answer for {self._timeout:g} seconds; "
                                 f"{end}") from None
            if answer is None:
                return False
            answers.append(answer)
        self._check_surplus(answers)
        return True

    def _check_surplus(self, answers: Sequence[str] = ()) -> None:
        """Fails on a surplus line, because all later scores would belong to other pairs."""
        assert self._process is not None
        surplus = self._process.surplus(settle=bool(answers))
        if surplus is not None:
            first = f"{answers[0]!r:.60} first and " if answers else ""
            raise InputError(f"{self._command} wrote more lines than it was given pairs, "
                             f"{first}{surplus!r:.60} last; expected one line for each pair: print "
                             "anything else to standard error")

    def _end(self) -> str:
        """Stops the program; returns its exit code and the last lines of its standard error."""
        assert self._process is not None
        process = self._process
        self.close()
        written = " / ".join(process.stderr) or "nothing"
        return f"exit code {process.code}, standard error: {written}"


class _Process:
    """A process of the program, with a thread for each of its three pipes.

    It has its own session, so that its child processes can be killed with it.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._popen: subprocess.Popen[str] | None = None
        self._error: Exception | None = None  # why the program could not be started
        self._answers: Queue[str | None] = Queue()  # None marks the end
        self._slowest = 0.0  # maximum seconds between two answers
        self._has_answered = self._has_settled = False
        self.stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._start_ended = threading.Event()
        self._readers: list[threading.Thread] = []
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Starts the program in a thread, because signals interrupt the main thread: a child whose
        `Popen` was interrupted would be unknown, and outlive the run.
        """
        _started(self._start, self._command)
        # not `join`, which returns early when a signal has interrupted an earlier one
        self._start_ended.wait()
        if self._error is not None:
            raise InputError(f"command: {self._command!r} cannot be started: {self._error}")

    def _start(self, command: str) -> None:
        try:
            self._popen = process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
                start_new_session=True)
            self._readers = [_started(self._read_answers, process.stdout),
                             _started(self._read_stderr, process.stderr)]
        except (OSError, ValueError) as error:
            self._error = error
        finally:
            self._start_ended.set()

    @property
    def code(self) -> int | None:
        return self._popen.returncode if self._popen else None

    def send(self, lines: Sequence[str]) -> None:
        self._writer = _started(self._write, lines)

    def answer(self, timeout: float) -> str | None:
        """The next answer, or None at the end; raises queue.Empty after the timeout."""
        start = time.monotonic()
        answer = self._answers.get(timeout=timeout)
        if self._has_answered:  # the first answer may include loading a model
            self._slowest = max(self._slowest, time.monotonic() - start)
        self._has_answered = True
        return answer

    def surplus(self, settle: bool) -> str | None:
        """A surplus line, if there is one.

        If a program prints a greeting, all its answers are off by one. To detect this, we wait once
        after the first answers, for as long as another answer would take.
        """
        is_first, self._has_settled = settle and not self._has_settled, self._has_settled or settle
        wait_seconds = max(_SETTLE_SECONDS, 2 * self._slowest) if is_first else 0.0
        try:
            line = self._answers.get(wait_seconds > 0, wait_seconds)
        except Empty:
            return None
        if line is None:
            self._answers.put(None)  # keep the end marker for later calls
        return line

    def stop(self) -> None:
        self._start_ended.wait(_START_SECONDS)
        if self._popen is None:
            return
        with suppress(ProcessLookupError):  # safe: its id is not reused before `wait`
            if sys.platform == "win32":
                self._popen.kill()
            else:
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        # with a timeout, because a child that left the session may keep the pipes open
        deadline = time.monotonic() + _PIPE_SECONDS
        for thread in filter(None, (self._writer, *self._readers)):
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._writer is None or not self._writer.is_alive():
            with suppress(OSError):  # closing flushes, which fails if the program has exited
                self._input.close()

    @property
    def _input(self) -> IO[str]:
        assert self._popen is not None
        assert self._popen.stdin is not None
        return self._popen.stdin

    def _write(self, lines: Sequence[str]) -> None:
        with suppress(OSError):  # the program has exited, which its reader notices
            for line in lines:
                self._input.write(line + "\n")
            self._input.flush()

    def _read_answers(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._answers.put(line)
        self._answers.put(None)

    def _read_stderr(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self.stderr.append(line.strip())


def _started(target: Callable[[Any], None], argument: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=(argument,), daemon=True)
    thread.start()
    return thread


_FIELDS, _BY_SOURCE = ("hypothesis", "reference", "source"), ("hypothesis", "source")


@dataclass(frozen=True)
class Command(PairwiseMetric):
    """Your own program, which scores pairs as JSON lines: --metric command:PROGRAM.

    It reads {"hypothesis": "...", "reference": "..."} per line, with "source" if the option is set;
    it writes a number or {"score": number} per line, in order, and flushes its output. It is
    started once per process, and restarted if it exits.

    Args:
        command: the program and its arguments, split as by a shell.
        source: send the source too.
        by_source: judge by the source alone, as a reward does: send hypothesis and source, no
            reference. The metric then works with `rerank`, too.
        timeout: seconds to wait for an answer before the run fails.
        restarts: number of consecutive restarts without an answer before the run fails.
        error: negate the scores, because lower is better.

    Raises:
        InputError: if there is no command; when it is used, if the program cannot be started, does
            not answer, or writes anything but one finite number per pair.

    >>> import minrisk, sys
    >>> code = "import sys; [print(len(line), flush=True) for line in sys.stdin]"
    >>> lengths = minrisk.Command(f'{sys.executable} -c "{code}"')
    >>> minrisk.decode(["a cat", "a black cat"], metric=lengths).text
    'a black cat'
    """

    name = "command"
    cost = "n · m lines for the program"

    command: str = option()
    source: bool = option(False)
    by_source: bool = option(False)
    timeout: float = option(60.0, gt=0)
    restarts: int = option(2, ge=0)
    error: bool = option(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip():
            raise InputError(f"command: command must name a program; got {self.command!r}")

    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        names = _BY_SOURCE if self.by_source else _FIELDS
        lines = [json.dumps(dict(zip(names, own, strict=False))) for own in arguments]
        answers = _program(self, os.getpid()).ask(lines)
        scores = [self._score(answer) for answer in answers]
        return as_scores(scores, len(arguments), self.command, self.error)

    def fingerprint(self) -> str:
        """A digest of the program and of the files among its arguments."""
        try:
            program, *arguments = shlex.split(self.command)
        except ValueError:  # reported when the program starts
            return ""
        values = [argument.rpartition("=")[2] for argument in arguments]
        return digest([shutil.which(program) or program, *filter(os.path.isfile, values)])

    def _score(self, answer: str) -> Any:
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            raise InputError(f'{self.command}: expected a number or {{"score": number}} per line, '
                             f"got {answer!r:.80}") from None
        return value.get("score") if isinstance(value, dict) else value


@cache
def _program(metric: Command, process: int) -> Program:
    """The program, one per process, because forks that share a pipe would mix their answers."""
    return Program(metric.command, metric.timeout, metric.restarts)
