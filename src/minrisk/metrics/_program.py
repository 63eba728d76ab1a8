"""A program that answers a line with a line; it is started when needed, and again if it dies."""

from __future__ import annotations

import atexit
import shlex
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from typing import IO

from minrisk.errors import InputError

_TAIL = 5  # lines of its standard error that a message shows


class Program:
    """Lines are sent while answers are read, so that neither side waits for a full pipe."""

    def __init__(self, command: str, timeout: float, restarts: int) -> None:
        self._command = command
        self._timeout = timeout
        self._restarts = restarts
        self._run: _Run | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, lines: Sequence[str]) -> list[str]:
        """An answer for each line."""
        with self._lock:
            try:
                return self._ask(lines)
            except BaseException:
                self.close()  # an answer that nobody read must not become the next one's
                raise

    def close(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _ask(self, lines: Sequence[str]) -> list[str]:
        """What a program that died did not answer is asked again."""
        answers: list[str] = []
        deaths = 0
        while len(answers) < len(lines):
            before = len(answers)
            if self._answer(lines, answers):
                break
            deaths = deaths + 1 if len(answers) == before else 1
            if deaths > self._restarts:
                raise InputError(f"{self._command} ended without an answer, {deaths} times; "
                                 f"{self._end()}")
            self.close()
        return answers

    def _answer(self, lines: Sequence[str], answers: list[str]) -> bool:
        """Whether the program lived to answer the lines that had none."""
        if self._run is None:
            self._run = _Run(self._command)
        self._run.send(lines[len(answers):])
        while len(answers) < len(lines):
            try:
                answer = self._run.answers.get(timeout=self._timeout)
            except Empty:
                end = self._end()
                raise InputError(f"{self._command} gave no answer for {self._timeout:g} seconds; "
                                 f"{end}") from None
            if answer is None:
                return False
            answers.append(answer)
        return True

    def _end(self) -> str:
        """Stops it, and says what it said last."""
        assert self._run is not None
        run = self._run
        self.close()
        said = " / ".join(run.said) or "nothing"
        return f"exit code {run.code}, standard error: {said}"


class _Run:
    """One life of the program, with a thread for each of its three pipes."""

    def __init__(self, command: str) -> None:
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
        except (OSError, ValueError) as error:
            raise InputError(f"command: {command!r} cannot be started: {error}") from None
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._input: IO[str] = process.stdin
        self._pipes = (process.stdout, process.stderr)
        self.answers: Queue[str | None] = Queue()  # None where there will be no more
        self.said: deque[str] = deque(maxlen=_TAIL)
        self._threads = [threading.Thread(target=target, args=(pipe,), daemon=True)
                         for target, pipe in zip((self._read, self._listen), self._pipes,
                                                 strict=True)]
        for thread in self._threads:
            thread.start()

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def send(self, lines: Sequence[str]) -> None:
        thread = threading.Thread(target=self._write, args=(lines,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        with suppress(OSError):  # what could not be written is not missed any more
            self._input.close()
        for pipe in self._pipes:
            pipe.close()

    def _write(self, lines: Sequence[str]) -> None:
        with suppress(OSError):  # it has died, as its reader sees too
            for line in lines:
                self._input.write(line + "\n")
            self._input.flush()

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            self.answers.put(line)
        self.answers.put(None)

    def _listen(self, pipe: IO[str]) -> None:
        for line in pipe:
            self.said.append(line.strip())
