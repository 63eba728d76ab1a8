"""Samples of Hugging Face models: n of them for the price of their distinct prefixes.

This file needs no torch, so that the sampler can be listed where its extra is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from minrisk.errors import InputError, needs_extra
from minrisk.options import Options, option
from minrisk.sampling.sample import Sample

if TYPE_CHECKING:
    from minrisk.sampling.hf.writer import Writer


@dataclass(frozen=True)
class Transformers(Options):
    """any model of transformers that translates or writes on; needs minrisk[hf]

    A sample's tokens are those that were drawn, the one that ends it included. Its `logprob` is
    their probability under the model as it is: temperature 1, nothing cut off, banned or forced;
    its `truncated_logprob` is that of drawing it, with all options and rules at work.

    The samples of a prompt depend on the seed, its place and n, and on nothing else, but for what
    rounding does: a batch of another shape can change a probability's last digits, and with them,
    rarely, a draw that falls on the edge between two tokens.
    """

    name: ClassVar[str] = "hf"

    model: str = option(help="a hub name or a folder")
    epsilon: float = option(0.0, help="cut off tokens less likely than this")
    eta: float = option(0.0, help="cut off by this or less, the less so the flatter")
    top_k: int = option(0, help="keep this many tokens; 0 keeps all")
    top_p: float = option(1.0, help="keep the likeliest tokens that have this much mass together")
    min_p: float = option(0.0, help="cut off tokens less likely than this share of the likeliest")
    temperature: float = option(1.0, help="divides the logits before anything is cut off")
    beams: int = option(0, help="no sampling: 1 searches greedily, more keep as many beams")
    max_tokens: int | None = option(None, help="of a sample; the generation config's limit")
    min_tokens: int = option(0, help="of a sample")
    source_language: str | None = option(None, help="the model's code of it, where it has codes")
    target_language: str | None = option(None, help="the model's code of it, where it has codes")
    prompt: str | None = option(None, help="what to ask, with {source} for the source")
    overlong: Literal["cut", "error"] = option("cut", help="what to do with too long a source")
    device: str = option("auto", help="cuda or cpu; the best there is")
    dtype: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", help="of the numbers; bf16 on CUDA, fp32 elsewhere")
    rows: int | None = option(None, help="samples drawn at once at most; as memory allows",
                              matters=False)
    memory: float | None = option(None, help="gigabytes for caches; half of what is free",
                                  matters=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths()
        self._check_beams()
        if self.prompt is not None and "{source}" not in self.prompt:
            raise InputError(f"prompt {self.prompt!r} has no place for the source; "
                             "write {source} where it belongs")
        if self.rows is not None and self.rows < 1:
            raise InputError(f"rows {self.rows}; 1 at least is wanted")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"memory {self.memory}; more than 0 gigabytes are wanted")

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
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
            if not text.strip():
                raise InputError(f"source {place + 1} is blank; there is nothing to write about")
        return self._writer.write(prompts, n, seed, places) if prompts else []

    @property
    def is_causal(self) -> bool:
        """Whether the model writes on from a prompt, and has to be told what to do."""
        return self._writer.is_causal

    @cached_property
    def _writer(self) -> Writer:
        with needs_extra("the 'hf' sampler", "hf"):
            from minrisk.sampling.hf.writer import Writer
        return Writer(self)

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
