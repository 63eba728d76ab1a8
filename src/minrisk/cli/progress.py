"""Progress of a command, whose messages name flags."""

from __future__ import annotations

import sys

from minrisk.cli.flags import as_flags
from minrisk.run.progress import RunProgress


class Progress(RunProgress):
    """The progress of a command."""

    def error(self, message: str) -> None:
        super().error(as_flags(message))


def has_room_for_bar(output: str | None) -> bool:
    """Whether no results go to the terminal, where they would mix with a live bar."""
    return not (output == "-" and sys.stdout is not None and sys.stdout.isatty())
