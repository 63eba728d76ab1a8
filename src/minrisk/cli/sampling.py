"""What `sample` and `translate` have in common: prompts in, samples drawn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from minrisk._core.registry import SAMPLERS
from minrisk._core.sampler import Sampler
from minrisk.cli.method import ENDPOINT, SAMPLER
from minrisk.cli.running import RunOptions
from minrisk.cli.shared import input_files, names_of, option, together
from minrisk.io.inputs import InputFile
from minrisk.io.prompts import PromptReader
from minrisk.pipeline.stages import GenerateSamples

_sampling = partial(option, "Sampling")

sampling_options = together(
    click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=click.Path()),
    _sampling("--sampler", metavar="NAME", shell_complete=names_of(SAMPLERS),
              help="Sampler; its options are set with --FIELD.  "
              f"[default: {SAMPLER}, or {ENDPOINT} where there is an --endpoint]"),
    _sampling("-n", "--num-samples", type=click.IntRange(min=1), default=256, show_default=True,
              metavar="N", help="Number of samples of each source."),
    _sampling("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="S",
              help="Seed of everything that is drawn at random."),
    _sampling("--input-format", type=click.Choice(["auto", "text", "json"]), default="auto",
              show_default=True, help="Format of INPUT; auto takes for JSON lines what is named "
              "so, or begins with a brace."),
    _sampling("--on-blank", type=click.Choice(["copy", "fail"]), default="copy", show_default=True,
              help="What a blank source gives: a blank output, or a failure."),
)


def draw_samples(params: Mapping[str, Any], options: RunOptions, sampler: Sampler,
                 must_instruct: bool = False) -> GenerateSamples:
    return GenerateSamples(sampler, params["num_samples"], params["seed"], options.batch_size,
                       options.on_error, params["on_blank"] == "fail", must_instruct)


def prompt_files(params: Mapping[str, Any]) -> list[InputFile]:
    return input_files(params["inputs"] or params["configured"])


def prompt_reader(params: Mapping[str, Any], files: tuple[InputFile, ...],
                  number: int | None) -> PromptReader:
    return PromptReader(files, params["input_format"])
