"""The input of `sample`, `translate` and `answer`."""

from __future__ import annotations

from dataclasses import dataclass

from minrisk._core.options import flag
from minrisk.cli.components import SamplerOptions
from minrisk.cli.segment_input import InputOptions
from minrisk.tasks.sample import PromptOptions, Sampling
from minrisk.tasks.translate import ANSWER_SAMPLES


@dataclass(frozen=True)
class PromptInput(PromptOptions, InputOptions):
    """Prompts in plain text or JSON lines."""

    def sampling(self, sampler: SamplerOptions) -> Sampling:
        return Sampling(self.corpus(), sampler.make(), self, sampler.values("references"))


@dataclass(frozen=True)
class AnswerInput(PromptInput):
    """The same for `answer`, which draws fewer samples."""

    num_samples: int = flag(ANSWER_SAMPLES, "-n", section="Sampling", metavar="N", ge=1,
                            help="Number of samples of each prompt.")
