"""The input of `sample` and `translate`."""

from __future__ import annotations

from dataclasses import dataclass

from minrisk.cli.components import SamplerOptions
from minrisk.cli.segment_input import InputOptions
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.sampling import PromptOptions, Sampling


@dataclass(frozen=True)
class PromptInput(PromptOptions, InputOptions):
    """Prompts in plain text or JSON lines."""

    def sampling(self, sampler: SamplerOptions) -> Sampling:
        return Sampling(Corpus(self.files()), sampler.make(), self, sampler.values("references"))
