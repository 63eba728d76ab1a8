"""Samples of Hugging Face models: n of them for the price of their distinct prefixes.

This file needs no torch, so that the sampler can be listed where its extra is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from minrisk._core.errors import InputError, needs_extra
from minrisk._core.options import Options, option
from minrisk._core.sampler import Prompt, Sample
from minrisk.samplers.prompt import check_template

if TYPE_CHECKING:
    from minrisk.samplers.hf.generator import Generator

_MOST_SOURCES = 16  # in a batch
# a CPU takes about as long for each of them in larger batches
_SAMPLES_ON_CPU, _BEAMS_ON_CPU = 512, 64


@dataclass(frozen=True)
class Transformers(Options):
    """any model of transformers that translates or writes on; needs minrisk[hf]

    A sample's tokens are those that were drawn, the one that ends it included; one that was cut has
    `max_tokens` of them, and the finish reason "length". Its `logprob` is their probability under
    the model as it is: temperature 1, nothing cut off, banned or forced; its `truncated_logprob` is
    that of drawing it, with all options and rules at work.

    A model for chats is given prompts and messages through its chat template; a prompt that has the
    markers of the template already is given as it is.

    The samples of a prompt depend on the seed, its place and n, and on nothing else, but for what
    rounding does: a batch of another shape can change a probability's last digits, and with them,
    rarely, a draw that falls on the edge between two tokens.
    """

    name: ClassVar[str] = "hf"
    takes_messages: ClassVar[bool] = True

    model: str = option(help="hub name or folder of the model")
    epsilon: float = option(0.0, help="least probability of a token that may be drawn")
    eta: float = option(0.0, help="the same, but lower where the distribution is flat")
    top_k: int = option(0, help="number of likeliest tokens that may be drawn; 0 is all")
    top_p: float = option(1.0, help="mass of the likeliest tokens that may be drawn")
    min_p: float = option(0.0, help="least probability, as a share of the likeliest token's")
    temperature: float = option(1.0, help="divisor of the logits before anything is cut off")
    beams: int = option(0, help="number of beams of a search instead of sampling; 1 is greedy")
    max_tokens: int | None = option(None, help="most tokens of a sample; the generation config's")
    min_tokens: int = option(0, help="least tokens of a sample")
    source_language: str | None = option(None, help="the model's code of it, where it has codes")
    target_language: str | None = option(None, help="the model's code of it, where it has codes")
    prompt: str | None = option(None, help="template of a prompt, with {source} for the source")
    system: str | None = option(None, help="system message before every chat that has none")
    stop: str | None = option(None, help="text that ends a sample, or a JSON list of them")
    overlong: Literal["cut", "error"] = option("cut", help="treatment of too long a source")
    device: str = option("auto", help="device to run on, cuda or cpu; the best there is")
    dtype: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", help="number format; bf16 on CUDA, fp32 elsewhere")
    rows: int | None = option(None, help="most samples drawn at once; as memory allows",
                              matters=False)
    memory: float | None = option(None, help="gigabytes for the KV cache; half of what is free",
                                  matters=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths()
        self._check_beams()
        check_template(self.prompt)
        _ = self.stop_strings
        if self.rows is not None and self.rows < 1:
            raise InputError(f"rows {self.rows}; 1 at least is wanted")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"memory {self.memory}; more than 0 gigabytes are wanted")

    @cached_property
    def stop_strings(self) -> list[str]:
        """The texts that end a sample."""
        if self.stop is None or not self.stop.startswith("["):
            return [self.stop] if self.stop else []
        try:
            found = json.loads(self.stop)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(own, str) and own for own in found):
            raise InputError(f"stop {self.stop!r:.60}; wanted a text, or a JSON list of texts, "
                             r'such as ["\n\n", "Q:"]')
        return found

    def prepare(self) -> None:
        """Loads the model; what is wrong with it concerns every prompt."""
        _ = self._generator

    def with_options(self, **changes: Any) -> Transformers:
        """The same model, loaded once, with other options of sampling."""
        changed = replace(self, **changes)
        vars(changed)["_generator"] = self._generator.with_options(changed)
        return changed

    def prompt_length(self, prompt: Prompt) -> int:
        """The tokens of a prompt that the model reads, those of its chat template included."""
        return self._generator.prompt_length(prompt)

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]:
        """n samples of each prompt, equal ones as one with a count, in the order first drawn.

        Beams come best first, at most as many as there are.
        """
        if n < 1:
            raise InputError(f"n = {n} samples; 1 at least is wanted")
        if self.beams and n > self.beams:
            raise InputError(f"n = {n} of {self.beams} beams; there are no more than those")
        places = range(len(prompts)) if places is None else places
        for text, place in zip(prompts, places, strict=True):
            if isinstance(text, str) and not text.strip():
                raise InputError(f"source {place + 1} is blank; there is nothing to write about")
        return self._generator.generate(prompts, n, seed, places) if prompts else []

    def batch_size(self, n: int) -> int:
        """On a CPU no more sources than keep it busy, so that the first ones are done early."""
        if not self._runs_on_cpu:
            return _MOST_SOURCES
        at_once = _BEAMS_ON_CPU // self.beams if self.beams else _SAMPLES_ON_CPU // n
        return max(1, min(_MOST_SOURCES, at_once))

    @property
    def _runs_on_cpu(self) -> bool:
        """Where torch is not installed, it is said so when a model is loaded."""
        try:
            from minrisk._torch.device import choose_device
        except ImportError:
            return False
        return choose_device(self.device, mps=False).type == "cpu"

    @property
    def is_causal(self) -> bool:
        """Whether the model writes on from a prompt, and has to be told what to do."""
        return self._generator.is_causal

    @cached_property
    def _generator(self) -> Generator:
        with needs_extra("the 'hf' sampler", "hf"):
            from minrisk.samplers.hf.generator import Generator
        return Generator(self)

    def _check_lengths(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError(f"max_tokens {self.max_tokens}; 1 at least is wanted")
        if self.min_tokens < 0:
            raise InputError(f"min_tokens {self.min_tokens}; 0 at least is wanted")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InputError(f"min_tokens {self.min_tokens} is more than max_tokens "
                             f"{self.max_tokens}; swap them, or leave one out")

    def _check_beams(self) -> None:
        if self.beams < 0:
            raise InputError(f"beams {self.beams}; 0 to sample, 1 or more to search")
        off = {"epsilon": 0.0, "eta": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
               "temperature": 1.0}
        given = [name for name, value in off.items() if getattr(self, name) != value]
        if self.beams and given:
            raise InputError(f"beams {self.beams} and {', '.join(given)}: a search draws nothing; "
                             "leave out the one or the other")
        if self.beams and self.stop:
            raise InputError(f"beams {self.beams} and stop: a search does not look at texts; leave "
                             "out the one or the other")
