"""The input of `sample` and `translate`, and how samples are drawn for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from minrisk._core.options import flag
from minrisk._core.sampler import Sampler
from minrisk.cli.run_options import RunOptions
from minrisk.cli.segment_input import InputOptions
from minrisk.io.inputs import InputFile
from minrisk.io.prompts import PromptReader
from minrisk.pipeline.stages import GenerateSamples


@dataclass(frozen=True)
class PromptInput(InputOptions):
    input_format: Literal["auto", "text", "json"] = flag(
        "auto", section="Input", advanced=True,
        help="Format of INPUT; auto is JSON lines if its name or first character says so.")
    on_blank: Literal["copy", "fail"] = flag(
        "copy", section="Input", advanced=True,
        help="Result of a blank source: a blank output, or a failure.")
    num_samples: int = flag(256, "-n", section="Sampling", metavar="N", ge=1,
                            help="Number of samples of each source.")
    seed: int = flag(0, section="Sampling", metavar="S", ge=0,
                     help="Seed of everything that is drawn at random.")

    def reader(self, files: tuple[InputFile, ...], number: int | None) -> PromptReader:
        return PromptReader(files, self.input_format)

    def draw(self, sampler: Sampler, options: RunOptions,
             must_instruct: bool = False) -> GenerateSamples:
        return GenerateSamples(sampler, self.num_samples, self.seed, options.batch_size,
                           options.on_error, self.on_blank == "fail", must_instruct)

    def settings(self) -> dict[str, Any]:
        """The options that can change a result, beyond the samples."""
        return {"input_format": self.input_format, "on_blank": self.on_blank}
