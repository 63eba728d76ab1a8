"""Options in messages: Python's names become flags."""

from __future__ import annotations

import pytest

from minrisk.cli import cli
from minrisk.cli.flags import as_flags


@pytest.fixture
def command():
    """The options of a command line with two metrics are known."""
    cli.commands["decode"].make_context("decode", [
        "--strategy", "coarse-to-fine", "--coarse", "bleu", "--metric", "chrf"])


@pytest.mark.parametrize(("message", "shown"), [
    ("keep=9 of 3 hypotheses", "--keep 9 of 3 hypotheses"),
    ("beta=0.5, wanted more", "--metric.beta 0.5, wanted more"),
    ("smooth_value=-1", "--coarse.smooth-value -1"),
    ("resume=True goes on; max_errors= ends", "--resume goes on; --max-errors ends"),
    ("order=3", "order=3"),  # of two metrics, and nobody knows which
    ("x.keep=9 and no_option=3 and --keep=9", "x.keep=9 and no_option=3 and --keep=9"),
])
def test_options_of_the_running_command_are_shown_as_flags(command, message, shown):
    assert as_flags(message) == shown
