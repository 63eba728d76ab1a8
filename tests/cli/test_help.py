"""`--help`: one page for each command, with what is rarely used behind `--help-all`."""

from __future__ import annotations

import re

import click
import pytest

from commands import run
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk.cli import cli
from minrisk.cli.command import OptionsCommand
from minrisk.cli.options import FieldOption, entries

PAGE = 90  # lines of 80 columns
COMMANDS = {name: command for name in cli.list_commands(click.Context(cli))
            if isinstance(command := cli.get_command(click.Context(cli), name), OptionsCommand)}


def shown(text: str) -> set[str]:
    """The options that a help explains: a line of two spaces and a flag for each."""
    lines = [line for line in text.splitlines() if line.startswith("  -")]
    return {word.rstrip(",") for line in lines for word in line.split() if word.startswith("-")}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_a_page(command):
    text = run(command, "--help").out
    lines = len(text.splitlines())
    assert lines <= PAGE, (f"{lines} lines, of at most {PAGE}: shorten a help or a metavar, or "
                           "declare what is rarely used with advanced=True")
    options, _, examples = text.partition("Examples:\n")
    assert examples
    assert max(map(len, options.splitlines())) <= 80


def test_the_summary_of_every_command_fits_on_its_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    summaries = run("--help").out.partition("Commands:\n")[2].splitlines()
    assert len(summaries) >= len(COMMANDS)
    assert [line for line in summaries if line.endswith("...")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_by_help_all_or_is_not_for_typing(command):
    declared = [p for p in COMMANDS[command].params if isinstance(p, FieldOption)]
    explained = shown(run(command, "--help-all").out) or shown(run(command, "--help").out)
    assert {option.flag for option in declared if not option.hidden} <= explained
    rare = {option.flag for option in declared if option.spec.advanced}
    assert rare.isdisjoint(shown(run(command, "--help").out))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_are_sentences_with_a_period(command):
    for option in COMMANDS[command].params:
        if isinstance(option, FieldOption) and not option.hidden:
            assert option.field.help[0].isupper(), option.flag
            assert option.field.help.partition(" [default")[0].endswith("."), option.flag


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_choices_that_a_metavar_hides(command):
    for option in COMMANDS[command].params:
        if isinstance(option, FieldOption) and option.spec.metavar:
            named = set(re.findall(r"[\w-]+", option.field.help))
            assert set(option.field.choices) <= named, option.flag


def test_help_explains_the_options_of_what_is_chosen_and_names_those_of_defaults():
    text = run("decode", "--help").out
    assert "--metric.word-order" not in shown(text)
    assert "'chrf' takes --metric.order --metric.word-order" in text
    assert "--metric.word-order" in shown(run("decode", "--metric", "chrf", "--help").out)
    chosen = shown(run("decode", "--strategy", "aggregate", "--metric", "comet", "--help").out)
    assert {"--groups", "--metric.model"} <= chosen - shown(text)
    assert "--metric.beta" not in chosen
    assert "--epsilon" in shown(run("sample", "--sampler", "hf", "--help").out)
    assert "--epsilon" in shown(run("translate", "--sampler", "hf", "--help").out)
    assert "--model (required)" in run("translate", "--help").out.replace("\n", " ")


def test_a_flag_that_is_on_is_shown_as_what_turns_it_off():
    text = run("decode", "--metric", "comet", "--help").out
    assert "--no-metric.fast" in shown(text)
    assert "Do not use" in text


@pytest.mark.parametrize("registry", [METRICS, STRATEGIES, SAMPLERS], ids=lambda r: r.kind)
def test_the_help_of_a_flag_that_is_on_reads_right_after_do_not(registry):
    for entry in entries(registry):
        for field in entry.fields:
            if field.default is True:
                assert not field.help.startswith(("whether", "leave out", "do not", "no ")), field


def test_values_are_explained_in_their_order():
    text = " ".join(run("decode", "--help").out.split())
    assert "--on-error [stop|skip] What to do when a segment fails: stop, or skip" in text


def test_answer_explains_the_frequent_options_of_samplers_and_speaks_of_prompts():
    text = run("answer", "--help").out
    assert "Number of samples per prompt." in text
    assert {"--endpoint", "--model", "--temperature", "--vote"} <= shown(text)


def test_help_of_a_configuration_explains_what_the_file_chooses(tmp_path):
    (tmp_path / "run.yaml").write_text("strategy: aggregate\n")
    text = run("decode", "--config", tmp_path / "run.yaml", "--help").out
    assert "--groups" in shown(text)


def test_options_are_completed_with_names_choices_and_files():
    def completions(flag: str, start: str) -> list[str]:
        context = click.Context(COMMANDS["decode"])
        [option] = [p for p in COMMANDS["decode"].params if flag in p.opts]
        return [item.value for item in option.shell_complete(context, start)]

    assert completions("--strategy", "agg") == ["aggregate", "aggregate-to-fine"]
    assert completions("--on-error", "s") == ["stop", "skip"]
    assert completions("--source", "src") == ["src"]
