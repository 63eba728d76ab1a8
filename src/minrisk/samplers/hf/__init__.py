"""Sampling from Hugging Face models with shared prefixes.

This module does not import torch, so that the sampler can be listed where it is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from minrisk._core.errors import InputError, Wording, needs_extra
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk._core.sampler import Prompt, Sample, Sampler, check_numbers
from minrisk._core.texts import check_template
from minrisk._core.token_confidence import WINDOW

if TYPE_CHECKING:
    from minrisk.samplers.hf.generator import Generator

_MAX_SOURCES_PER_BATCH = 16
# on a CPU, larger batches are not faster per sample
_CPU_SAMPLES_PER_BATCH, _CPU_BEAMS_PER_BATCH = 512, 64


@dataclass(frozen=True)
class Transformers(Sampler):
    """Any transformers model that translates or continues a text; needs minrisk[hf].

    Ancestral sampling with the truncations of transformers, which runs the model once for every
    distinct prefix of the samples, or beam search.

    A sample's tokens include the end-of-sequence token; a truncated sample has `max_tokens` tokens
    and the finish reason "length". Its `logprob` is the log-probability of its tokens under the
    model itself: temperature 1, no truncation, nothing banned or forced; its `truncated_logprob` is
    the log-probability under the distribution that was sampled from.

    Chat models get prompts and messages through their chat template; a prompt that already contains
    the markers of the template is left unchanged.

    The samples of a prompt depend only on the seed, the prompt's index in the input and n, up to
    rounding: in a batch of another shape, the last digits of a probability may differ, and rarely a
    sample changes with them.

    Args:
        model: hub name or folder of the model.
        epsilon: minimum probability of a token. Epsilon sampling (Hewitt et al. 2022).
        eta: eta sampling: an epsilon that adapts to the entropy.
        top_k: number of most likely tokens to keep; 0 is all.
        top_p: nucleus sampling: probability mass to keep.
        min_p: minimum probability of a token relative to the most likely one.
        temperature: temperature of sampling. It divides the logits before truncation.
        beams: number of beams of a beam search; 1 is greedy, 0 is sampling.
        max_tokens: maximum number of tokens of a sample [default: the model's].
        min_tokens: minimum number of tokens of a sample.
        source_language: source language, as the model's own code.
        target_language: target language, as the model's own code.
        prompt: prompt template with {source}, for causal models.
        system: system message of chats that have none.
        stop: text that ends a sample, or a JSON list of texts.
        window: number of tokens that `lowest_logprob` and `tail_logprob` average.
        overlong: sources over the model's limit: truncate ("cut") or fail ("error").
        device: device to run on; "auto" is a GPU if there is one.
        dtype: number format; "auto" is bf16 on CUDA and fp32 elsewhere. "int8" is for CPUs; it
            changes the distribution a little.
        rows: number of sequences decoded in parallel [default: as many as fit into memory].
        memory: budget of the KV cache in GB [default: half of the free memory].

    Raises:
        InputError: if a value is out of range, or options contradict each other; when it is used,
            if the model cannot be loaded.
        MissingExtra: when it is used, if torch or transformers is not installed.

    >>> import minrisk
    >>> sampler = minrisk.Transformers("Helsinki-NLP/opus-mt-en-fr", epsilon=0.02)
    >>> sampler.name, sampler.batch_size(256) >= 1
    ('hf', True)
    >>> (samples,) = sampler.sample(["The cat is asleep."], n=256, seed=1)  # doctest: +SKIP
    >>> minrisk.decode([s.text for s in samples],
    ...                counts=[s.count for s in samples])  # doctest: +SKIP
    >>> minrisk.Transformers("Helsinki-NLP/opus-mt-en-fr", beams=5, top_p=0.9)
    Traceback (most recent call last):
    minrisk.InputError: hf: beams=5 and top_p: ...
    """

    name = "hf"
    papers = ("Hewitt et al. 2022",)
    cost = "one run of the model for each distinct prefix of the samples"
    takes_messages = True

    model: str = option()
    epsilon: float = option(0.0, ge=0, lt=1)
    eta: float = option(0.0, ge=0, lt=1)
    top_k: int = option(0, ge=0)
    top_p: float = option(1.0, gt=0, le=1)
    min_p: float = option(0.0, ge=0, lt=1)
    temperature: float = option(1.0, gt=0)
    beams: int = option(0, ge=0)
    max_tokens: int | None = option(None, ge=1)
    min_tokens: int = option(0, ge=0)
    source_language: str | None = option(None)
    target_language: str | None = option(None)
    prompt: str | None = option(None)
    system: str | None = option(None)
    stop: str | None = option(None)
    window: int = option(WINDOW, ge=1)
    overlong: Literal["cut", "error"] = option("cut")
    device: str = option("auto")
    dtype: Literal["auto", "fp32", "bf16", "fp16", "int8"] = option("auto")
    rows: int | None = option(None, ge=1, affects_results=False)
    memory: float | None = option(None, gt=0, affects_results=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_lengths()
        self._check_beams()
        check_template(self.prompt)
        _ = self.stop_strings

    @lazy
    def stop_strings(self) -> list[str]:
        """The texts that end a sample."""
        if self.stop is None or not self.stop.startswith("["):
            return [self.stop] if self.stop else []
        try:
            found = json.loads(self.stop)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(own, str) and own for own in found):
            raise InputError(f"hf: stop must be a text, or a JSON list of texts, "
                             rf'such as ["\n\n", "Q:"]; got {self.stop!r:.60}')
        return found

    def prepare(self) -> None:
        """Loads the model, because errors in it affect every prompt."""
        _ = self._generator

    def with_options(self, **changes: Any) -> Self:
        """The same sampler with other options; both share the model unless that changes."""
        changed = super().with_options(**changes)
        if changed._model == self._model:
            vars(changed)["_model"] = self._model
        return changed

    def prompt_length(self, prompt: Prompt) -> int:
        """The number of tokens that the model reads for a prompt, with the chat template."""
        return self._generator.prompt_length(prompt)

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        """n samples of each prompt; equal ones are merged, in order of first occurrence.

        Beam search returns the best first.
        """
        check_numbers(n, seed)
        if self.beams and n > self.beams:
            raise InputError(f"n must be at most the number of beams, {self.beams}; got {n}")
        indices = range(len(prompts)) if indices is None else indices
        for text, index in zip(prompts, indices, strict=True):
            if isinstance(text, str) and not text.strip():
                raise InputError(f"source {index + 1} is blank; leave it out")
        return self._generator.generate(prompts, n, seed, indices) if prompts else []

    def batch_size(self, n: int) -> int:
        """Number of sources per batch; on a CPU just enough to keep it busy."""
        if not self._runs_on_cpu:
            return _MAX_SOURCES_PER_BATCH
        at_once = _CPU_BEAMS_PER_BATCH // self.beams if self.beams else _CPU_SAMPLES_PER_BATCH // n
        return max(1, min(_MAX_SOURCES_PER_BATCH, at_once))

    @property
    def _runs_on_cpu(self) -> bool:
        """False without torch, because loading the model reports that it is missing."""
        try:
            from minrisk._torch.device import choose_device
        except ImportError:
            return False
        return choose_device(self.device, mps=False).type == "cpu"

    @property
    def is_causal(self) -> bool:
        """Whether the model continues a prompt, which must then contain an instruction."""
        return self._generator.is_causal

    @property
    def is_random(self) -> bool:
        return not self.beams

    @lazy
    def _generator(self) -> Generator:
        with needs_extra(Wording("sampling without endpoint= (the 'hf' sampler)"), "hf"):
            from minrisk.samplers.hf.generator import Generator
        return Generator(self, *self._model.loaded)

    @lazy
    def _model(self) -> SharedModel:
        return SharedModel(self.model, self.device, self.dtype)

    def _check_lengths(self) -> None:
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InputError(f"hf: min_tokens must be at most max_tokens, {self.max_tokens}; got "
                             f"{self.min_tokens}")

    def _check_beams(self) -> None:
        off = {"epsilon": 0.0, "eta": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
               "temperature": 1.0}
        given = [name for name, value in off.items() if getattr(self, name) != value]
        if self.beams and given:
            raise InputError(Wording("hf: beams={beams} and {given}: beam search does not sample; "
                                     "leave out one of them", beams=self.beams,
                                     given=", ".join(given)))
        if self.beams and self.stop:
            raise InputError(Wording("hf: beams={beams} and stop: beam search does not support "
                                     "stop texts; leave out one of them", beams=self.beams))


@dataclass(frozen=True)
class SharedModel:
    """A lazily loaded model, shared by samplers that differ only in sampling options."""

    model: str
    device: str
    dtype: Literal["auto", "fp32", "bf16", "fp16", "int8"]

    @lazy
    def loaded(self) -> tuple[Any, Any]:
        """The model, ready to run, and its tokenizer."""
        from minrisk.samplers.hf.generator import load

        return load(self.model, self.device, self.dtype)
