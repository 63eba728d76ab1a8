"""The sampling engine: forms batches that fit into memory, and selects a decoder for the model."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, overload
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import GenerationConfig

from minrisk._core.lazy import lazy
from minrisk._core.process import report_progress
from minrisk._core.token_confidence import WINDOW
from minrisk._torch.device import current_device
from minrisk._torch.tokens import TokenIds
from minrisk.samplers.hf import bart, causal, generic_decoder
from minrisk.samplers.hf.attention import attention_backend
from minrisk.samplers.hf.fast_decoder import FastDecoder
from minrisk.samplers.hf.logits_processing import GenerationSettings, needs_equal_lengths
from minrisk.samplers.hf.prefixes import (
    CacheOverflow,
    FinishedSequences,
    PrefixDecoder,
    SamplingJob,
    TokenizedPrompt,
    sample_sequences,
)
from minrisk.samplers.hf.stop_strings import StopStrings
from minrisk.samplers.hf.truncation import Truncation

_MEMINFO = "/proc/meminfo"  # Linux only
_CACHE_SHARE = 0.5  # share of the free memory for KV caches
_DEFAULT_CACHE_BYTES = 4e9  # bytes for KV caches if the free memory is unknown
_PLANNED_TOKENS = 64  # expected tokens per sample; longer samples may cause a batch to be split
_per_thread = threading.local()


@dataclass(frozen=True, slots=True)
class SampledSequence:
    """A sequence that was sampled `count` times, first as sample number `first`."""

    ids: TokenIds  # an array, because Python integers would take too much memory
    count: int
    first: int
    logprob: float
    truncated_logprob: float = nan
    lowest_logprob: float = nan
    tail_logprob: float = nan
    certainty: float = nan

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self.ids.tolist())


@dataclass(frozen=True)
class SampledSequences(Sequence[SampledSequence]):
    """The sequences of a prompt, created on access: collecting garbage among very many objects
    would take longer than sampling them.
    """

    columns: FinishedSequences
    places: range

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> SampledSequence: ...

    @overload
    def __getitem__(self, index: slice) -> SampledSequences: ...

    def __getitem__(self, index: int | slice) -> SampledSequence | SampledSequences:
        if isinstance(index, slice):
            return SampledSequences(self.columns, self.places[index])
        place, columns = self.places[index], self.columns
        start = columns.ends[place - 1] if place else 0
        return SampledSequence(columns.tokens[start : columns.ends[place]],
                               int(columns.count[place]), int(columns.first[place]),
                               float(columns.logprob[place]), float(columns.truncated[place]),
                               float(columns.lowest[place]), float(columns.tail[place]),
                               float(columns.certainty[place]))


@dataclass(frozen=True)
class SamplingEngine:
    """Samples token sequences from a model."""

    model: Any
    config: GenerationConfig
    truncation: Truncation
    limit: int  # maximum tokens of a sample
    rows: int | None = None  # maximum samples generated in parallel
    memory: float | None = None  # maximum bytes of the KV cache
    stop: StopStrings | None = None
    window: int = WINDOW  # tokens in a group of `lowest_logprob` and `tail_logprob`

    @torch.inference_mode()
    def sample(self, prompts: Sequence[TokenizedPrompt], n: int, seed: int,
               indices: Sequence[int]) -> list[Sequence[SampledSequence]]:
        """n samples of each prompt, in order of first occurrence."""
        memory = _free_memory(self.model.device) if self.memory is None else self.memory
        rows = self._rows(memory) if self.rows is None else self.rows
        found: list[Sequence[SampledSequence]] = [[] for _ in prompts]
        longest = max(len(prompt.prefix) for prompt in prompts)
        mixed = self._mixes_lengths(longest + self.limit)
        todo = [*_batches(_jobs(prompts, n, indices, rows), rows, mixed)][::-1]
        done, total = 0, n * len(prompts)
        while todo:
            batch = todo.pop()
            progress = partial(_report_progress, done, total)
            try:
                device = self.model.device
                with current_device(device), attention_backend(device):
                    ended = self._run([job for _, job in batch], seed, memory, progress)
            except (CacheOverflow, torch.cuda.OutOfMemoryError):
                if sum(len(job.samples) for _, job in batch) == 1:
                    raise  # a single sample cannot be split
                todo += _split(batch)
                continue
            for prompt, sequences in _by_prompt(batch, ended):
                found[prompt] = _merged(found[prompt], sequences)
            done += sum(len(job.samples) for _, job in batch)
        return found

    def _run(self, jobs: Sequence[SamplingJob], seed: int, memory: float,
             progress: Callable[[int], None]) -> FinishedSequences:
        if len(jobs) == 1 and len(jobs[0].samples) == 1:
            memory = float("inf")  # a single sample cannot be split
        settings = GenerationSettings.of(self.config, len(jobs[0].prompt.prefix), self.limit,
                                         self.model.device, self.truncation, self.stop)
        decoder = self._decoder(len(jobs[0].prompt.prefix) + self.limit)
        try:
            return sample_sequences(decoder, settings, jobs, seed, memory, progress, self.window)
        finally:
            decoder.release()

    def _mixes_lengths(self, tokens: int) -> bool:
        """Whether a batch of sequences of up to this many tokens may have prefixes of different
        lengths: if all are read before the first step, and attended to where they are.
        """
        return not (self.model.config.is_encoder_decoder or self._not_supported_reasons(tokens)
                    or needs_equal_lengths(self.config))

    def _decoder(self, tokens: int) -> PrefixDecoder:
        """The decoder for sequences of up to this many tokens, including prompts."""
        if not self._not_supported_reasons(tokens):
            return _fast_decoder(self.model)
        return self._plain_decoder

    def _not_supported_reasons(self, tokens: int) -> list[str]:
        if self.model.config.is_encoder_decoder:
            return bart.not_supported_reasons(self.model)
        window = causal.window(self.model)
        too_long = [] if window is None or tokens <= window else [
            f"some layers attend to the last {window} of {tokens} tokens only"]
        return causal.not_supported_reasons(self.model) + too_long

    @lazy
    def _plain_decoder(self) -> PrefixDecoder:
        if self.model.config.is_encoder_decoder:
            return generic_decoder.Seq2SeqDecoder(self.model)
        return generic_decoder.CausalDecoder(self.model)

    def _rows(self, memory: float) -> int:
        vocabulary = generic_decoder.vocabulary_size(self.model)
        logits = vocabulary * self.truncation.bytes_per_logit(self.model.device)
        cache = min(self.limit, _PLANNED_TOKENS) * generic_decoder.token_bytes(self.model)
        return max(1, int(memory / (cache + logits)))


def _report_progress(before: int, total: int, ended: int) -> None:
    report_progress("samples", before + ended, total)


def _fast_decoder(model: Any) -> FastDecoder:
    """The cached decoder of a model, so that CUDA graphs are captured once; one per thread,
    because decoders are not thread-safe.
    """
    if not hasattr(_per_thread, "decoders"):
        _per_thread.decoders = WeakKeyDictionary()
    decoder: FastDecoder | None = _per_thread.decoders.get(model)
    if decoder is None or not decoder.is_up_to_date():
        decoder = _per_thread.decoders[model] = FastDecoder(model)
    return decoder


PlannedJob = tuple[int, SamplingJob]  # number of the prompt within the call, and a job for it


def _jobs(prompts: Sequence[TokenizedPrompt], n: int, indices: Sequence[int],
          rows: int) -> list[PlannedJob]:
    parts = [range(start, min(start + rows, n)) for start in range(0, n, rows)]
    return [(number, SamplingJob(prompt, index, n, part))
            for number, (prompt, index) in enumerate(zip(prompts, indices, strict=True))
            for part in parts]


def _batches(jobs: Sequence[PlannedJob], rows: int,
             mixed: bool) -> Iterator[list[PlannedJob]]:
    """Batches with sources of similar length, prefixes of equal length except in `mixed` batches,
    and as many samples as fit.
    """
    batch: list[PlannedJob] = []
    # longest first: memory that suffices for them suffices for the rest
    for number, job in sorted(jobs, key=_lengths, reverse=True):
        size = sum(len(other.samples) for _, other in batch) + len(job.samples)
        fits = mixed or not batch or (
            len(batch[0][1].prompt.prefix) == len(job.prompt.prefix))
        if batch and (size > rows or not fits):
            yield batch
            batch = []
        batch.append((number, job))
    if batch:
        yield batch


def _lengths(planned: PlannedJob) -> tuple[int, int]:
    prompt = planned[1].prompt
    return len(prompt.prefix), len(prompt.source)


def _split(batch: list[PlannedJob]) -> list[list[PlannedJob]]:
    if len(batch) > 1:
        return [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
    [(number, job)] = batch
    return [[(number, half)] for half in reversed(job.halves())]


def _by_prompt(batch: Sequence[PlannedJob], ended: FinishedSequences
               ) -> Iterator[tuple[int, SampledSequences]]:
    ends = np.searchsorted(ended.job, np.arange(len(batch)), "right").tolist()
    for (prompt, _), start, end in zip(batch, [0, *ends], ends, strict=False):
        yield prompt, SampledSequences(ended, range(start, end))


def _merged(some: Sequence[SampledSequence],
            more: Sequence[SampledSequence]) -> Sequence[SampledSequence]:
    """The distinct sequences of two jobs of a prompt, in order of first occurrence."""
    if not some:
        return more
    found: dict[bytes, SampledSequence] = {}
    for one in sorted([*some, *more], key=lambda sequence: sequence.first):
        key = one.ids.tobytes()
        before = found.get(key)
        found[key] = one if before is None else replace(before, count=before.count + one.count)
    return list(found.values())


def _free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float((torch.cuda.mem_get_info(device)[0] + idle) * _CACHE_SHARE)
    available = _available_bytes()
    return _DEFAULT_CACHE_BYTES if available is None else available * _CACHE_SHARE


def _available_bytes() -> float | None:
    """Memory available to a process, including the file cache if the system reports it."""
    with suppress(OSError, StopIteration, ValueError, IndexError):
        lines = Path(_MEMINFO).read_text(encoding="ascii").splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return float(found.split()[1]) * 1024
    if sys.platform != "win32" and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None
