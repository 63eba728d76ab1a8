"""Draw many samples and run the model once for every distinct prefix of them.

Each sample has its own random numbers, so that the n samples are independent; samples with the same
prefix so far share a row of the model's batch. When they diverge, the row branches; when all of
them have ended, it is removed.

Samples and the tree of their prefixes stay on the device: each step synchronises once, for the
sizes of the next one. If the next step can be launched without them, the host waits only after the
launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.token_confidence import WINDOW
from minrisk._torch.device import upload
from minrisk._torch.tokens import TokenIds
from minrisk.samplers.hf.drawing import Draw, DrawnTokens, SampleState, Sizes
from minrisk.samplers.hf.logits_processing import GenerationSettings
from minrisk.samplers.hf.random_streams import RandomStream
from minrisk.samplers.hf.truncation import LARGEST_UNIFORM

_MAX_ENDED = 16384  # samples up to which ended ones are kept, so that there are few sizes


@dataclass(frozen=True)
class TokenizedPrompt:
    """A source to encode, if the model has an encoder, and the prefix of the output."""

    source: tuple[int, ...]
    prefix: tuple[int, ...]


def padded_prefixes(prompts: Sequence[TokenizedPrompt]) -> Ints:
    """(S, T) token ids of the prefixes; shorter ones begin with copies of their first token."""
    width = max(len(prompt.prefix) for prompt in prompts)
    return np.array([(*prompt.prefix[:1] * (width - len(prompt.prefix)), *prompt.prefix)
                     for prompt in prompts], np.intp)


@dataclass(frozen=True)
class SamplingJob:
    """Some of the samples of a prompt."""

    prompt: TokenizedPrompt
    index: int  # position of the prompt in the input, which seeds its random stream
    n: int  # total number of samples of the prompt
    samples: range  # the samples of this job

    def halves(self) -> list[SamplingJob]:
        middle = len(self.samples) // 2
        return [replace(self, samples=part)
                for part in (self.samples[:middle], self.samples[middle:]) if part]


@dataclass(frozen=True)
class StepInput:
    """Input of a decoder at a step; rows of the same prompt are adjacent."""

    rows: int  # R
    parents: Tensor  # (at least R,) the row that each one continues, ascending; padded
    tokens: Tensor  # (at least R,) the last token of each row, padded by repeating the last one
    history: Callable[[], Tensor]  # (R, T) all tokens of each row, computed on demand

    def first(self, rows: int) -> tuple[Tensor, Tensor]:
        """Parents and tokens of the first `rows` rows."""
        return self.parents[:rows], self.tokens[:rows]


@dataclass(frozen=True)
class CacheNeeds:
    """The capacity that a KV cache may need, and its maximum size in bytes."""

    samples: int
    steps: int
    memory: float


class PrefixDecoder(Protocol):
    """A model that extends prefixes (rows) by a token, which `draw` samples from the logits."""

    token_bytes: int  # bytes of the KV cache per token
    shares_prompts: bool  # whether the cache holds each prompt once, rather than once per row

    def start(self, prompts: Sequence[TokenizedPrompt], needs: CacheNeeds, draw: Draw,
              inputs: Tensor) -> DrawnTokens:
        """Draw the first tokens, with one row per prompt."""
        ...

    def step(self, step_input: StepInput, draw: Draw, inputs: Tensor) -> DrawnTokens:
        """Draw the next tokens."""
        ...

    def can_run_ahead(self, rows: int, samples: int, draw: Draw) -> bool:
        """Whether a step can be launched before its sizes are known, at no cost for extra rows."""
        ...

    def release(self) -> None:
        """Frees the memory of the sequences."""
        ...


class CacheOverflow(Exception):  # noqa: N818 - a signal between two of our own functions
    """The KV cache would exceed its memory limit."""


@dataclass(frozen=True)
class FinishedSequences:
    """The E distinct sequences of some jobs, ordered by job, then by first sample."""

    job: Ints  # (E,)
    tokens: TokenIds  # all sequences, concatenated
    ends: Ints  # (E,) end of each sequence in `tokens`
    count: Ints  # (E,) number of samples
    first: Ints  # (E,) number of the first sample with this sequence
    logprob: Floats  # (E,) under the model itself
    truncated: Floats  # (E,) log-probability under the distribution that was sampled from
    lowest: Floats  # (E,) mean log-probability of the least confident group of tokens
    tail: Floats  # (E,) that of the last group
    certainty: Floats  # (E,) mean self-certainty of the model at each token


class _TokenTree:
    """The prefix tree: one node per distinct prefix, step by step."""

    def __init__(self) -> None:
        self._parents: list[Tensor] = []  # parents of the nodes of each step; unused for the first
        self._columns: list[Tensor] = []  # columns of `DrawnTokens`, for each step

    def append(self, parents: Tensor, columns: Tensor) -> None:
        """Add the nodes of the next step."""
        self._parents.append(parents)
        self._columns.append(columns)

    def tokens(self, nodes: Tensor) -> Tensor:
        """(E, T) tokens on the paths to nodes (E,) of the last step."""
        return torch.cat(self._columns)[:, 0].int()[self._paths(nodes)]

    def read(self, nodes: Tensor, window: int) -> tuple[Tensor, Tensor, Tensor]:
        """For nodes (E,), the concatenated tokens of their sequences, the lengths (E,), and (5, E)
        sums of both log-probabilities, their means over the least confident and last `window`
        tokens, and the mean self-certainty.
        """
        ends = upload(np.cumsum([len(own) for own in self._parents]), nodes.device)
        lengths = 1 + torch.searchsorted(ends, nodes, right=True)
        paths, columns = self._paths(nodes), torch.cat(self._columns)
        from_end = torch.arange(paths.shape[1], 0, -1, device=nodes.device)
        inside = from_end <= lengths[:, None]
        truncated, full, certainty = (torch.where(inside, column[paths], 0)
                                      for column in columns[:, 1:].T)
        *sums, certain = (own.sum(1, dtype=torch.float64) for own in (truncated, full, certainty))
        return (columns[:, 0].int()[paths[inside]], lengths,
                torch.stack([*sums, *_lowest_and_tail(full, lengths, window),
                             (certain / lengths).clamp(min=0)]))  # rounding may exceed 0

    def _paths(self, nodes: Tensor) -> Tensor:
        """(E, T) the nodes on the path to each node, right-aligned; arbitrary values before them.
        """
        parents, steps = torch.cat(self._parents), len(self._parents)
        found = nodes.new_empty(steps, len(nodes))
        found[-1] = nodes
        for step in range(steps - 1, 0, -1):
            torch.index_select(parents, 0, found[step], out=found[step - 1])
        return found.T


def _lowest_and_tail(logprobs: Tensor, lengths: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """(E,) `lowest_and_tail` of sequences (E, T), which are right-aligned after zeros."""
    width = min(window, logprobs.shape[1])
    total = pad(logprobs.cumsum(1, dtype=torch.float64), (1, 0))
    groups = total[:, width:] - total[:, :-width]
    number = groups.shape[1]
    from_end = torch.arange(number, 0, -1, device=lengths.device)
    inside = from_end <= (lengths[:, None] - width + 1).clamp(min=1)
    means = torch.where(inside, groups, 0) / lengths.clamp(max=width)[:, None]
    means = means.clamp(max=0)  # rounding may exceed 0
    return means.amin(1), means[:, -1]


class _Uniforms:
    """Uniform random numbers of all samples, generated for several steps at a time."""

    def __init__(self, seed: int, jobs: Sequence[SamplingJob], device: torch.device) -> None:
        self._streams = [RandomStream(seed, job.index, job.n) for job in jobs]
        self._samples = [job.samples for job in jobs]
        self._starts = [0, *accumulate(map(len, self._samples))]
        self._numbers = torch.zeros(RandomStream.steps, self._starts[-1], dtype=torch.float64,
                                    pin_memory=device.type == "cuda")
        self._device = device

    def generate(self, jobs: Iterable[int]) -> Tensor:
        """(steps, samples) numbers for the next steps; arbitrary ones for samples of other jobs.

        The upload of the previous numbers must have finished.
        """
        found = self._numbers.numpy()
        for i in jobs:
            part, start = self._samples[i], self._starts[i]
            numbers = self._streams[i].next_steps()[:, part.start : part.stop]
            np.minimum(numbers, LARGEST_UNIFORM, out=found[:, start : start + len(part)])
        return self._numbers.to(self._device, copy=True, non_blocking=True)


class _Samples:
    """The samples of some jobs, and the tree of their prefixes."""

    def __init__(self, jobs: Sequence[SamplingJob], seed: int, device: torch.device) -> None:
        self._jobs = jobs
        counts = [len(job.samples) for job in jobs]
        self._job = upload(np.repeat(np.arange(len(jobs)), counts), device)  # job of each sample
        self._node = torch.empty_like(self._job)  # node of each sample, valid once it has ended
        self._sample = torch.arange(len(self._job), device=device)  # number in the state -> sample
        self._state = SampleState.first(self._job)
        self._tree = _TokenTree()
        self._random = _Uniforms(seed, jobs, device)
        self._next_uniforms = self._random.generate(range(len(jobs)))

    def __len__(self) -> int:
        return len(self._job)

    def inputs(self, step: int) -> Tensor:
        """The inputs of `Draw` for a step; must be called in the order of steps."""
        row = step % RandomStream.steps
        if row == 0:
            self._uniforms = pad(self._next_uniforms[:, self._sample],
                                 (0, len(self._state.numbers) - len(self._sample)))
        if row == RandomStream.steps - 1:
            self._active_jobs: list[int] = torch.unique(
                self._job[self._active(self._state)]).tolist()
        found = torch.cat([self._uniforms[row].view(torch.int64), self._state.packed])
        # a copy, because the output of a CUDA graph is overwritten by its next replay
        self._state = SampleState.of_inputs(found)
        return found

    def prepare(self, step: int) -> None:
        """Generates the random numbers of a step, to overlap with work of the device."""
        if step % RandomStream.steps == 0:
            self._next_uniforms = self._random.generate(self._active_jobs)

    def _active(self, state: SampleState) -> Tensor:
        """Samples that have not ended; samples of the same row are adjacent."""
        return self._sample[state.numbers[state.rows >= 0]]

    @property
    def keeps_ended(self) -> bool:
        """Whether ended samples are kept in the state."""
        return len(self._state.numbers) <= _MAX_ENDED

    def advance(self, drawn: DrawnTokens) -> Callable[[], Sizes]:
        """Takes over the state after a step; returns a function that waits for its sizes."""
        self._state = drawn.state
        return drawn.state.copy_sizes()

    def update(self, drawn: DrawnTokens, sizes: Sizes, inputs: Tensor) -> None:
        """Adds the tokens that a step drew from its inputs."""
        if sizes.invalid_row >= 0:
            before = SampleState.of_inputs(inputs)
            invalid = self._sample[before.numbers[before.rows == sizes.invalid_row]]
            raise not_finite_error(self._jobs[int(self._job[invalid[0]])].index)
        # copies without the padding
        self._tree.append(drawn.parents[: sizes.children].clone(),
                          drawn.columns[: sizes.children].clone())
        if 2 * sizes.samples <= len(self._state.numbers) > _MAX_ENDED:
            self._leave_out_ended()

    def _leave_out_ended(self) -> None:
        state = self._state
        self._node[self._sample] = state.nodes[: len(self._sample)]
        places = (state.rows >= 0).nonzero()[:, 0]
        numbers = state.numbers[places]
        self._sample, self._state = self._sample[numbers], state.only(places)
        self._uniforms = pad(self._uniforms[:, numbers],
                             (0, len(self._state.numbers) - len(numbers)))

    def step_input(self, rows: int, prefixes: Tensor) -> StepInput:
        return StepInput(rows, self._state.parents, self._state.tokens,
                         partial(self._history, self._state, rows, prefixes))

    def _history(self, state: SampleState, rows: int, prefixes: Tensor) -> Tensor:
        """(R, T) all tokens of each row, including the prefixes of the jobs."""
        jobs = torch.empty(rows, dtype=torch.int64, device=prefixes.device)
        jobs[state.rows[state.rows >= 0]] = self._job[self._active(state)]
        return torch.cat([prefixes[jobs], self._tree.tokens(state.row_nodes[:rows])], 1)

    def sequences(self, window: int) -> FinishedSequences:
        """The sequences of all samples, once all have ended."""
        self._node[self._sample] = self._state.nodes[: len(self._sample)]
        nodes, text, count = torch.unique(self._node, return_inverse=True, return_counts=True)
        first = torch.full_like(nodes, len(text)).scatter_reduce(
            0, text, torch.arange(len(text), device=text.device), "amin")
        first, order = first.sort()
        tokens, lengths, means = self._tree.read(nodes[order], window)
        numbers = np.concatenate([np.array(job.samples, np.intp) for job in self._jobs])
        truncated, full, lowest, tail, certainty = means.cpu().numpy()
        return FinishedSequences(
            self._job[first].cpu().numpy(), tokens.cpu().numpy(), lengths.cumsum(0).cpu().numpy(),
            count[order].cpu().numpy(), numbers[first.cpu().numpy()], full, truncated, lowest, tail,
            certainty)


def sample_sequences(
        decoder: PrefixDecoder, settings: GenerationSettings, jobs: Sequence[SamplingJob],
        seed: int, memory: float, progress: Callable[[int], None] = lambda ended: None,
        window: int = WINDOW) -> FinishedSequences:
    """Draws all samples of all jobs; `progress` gets the number of samples that have ended."""
    device = settings.ends_on_device.device
    samples = _Samples(jobs, seed, device)
    prefixes = upload(padded_prefixes([job.prompt for job in jobs]), device)

    def launch(step: int, rows: int) -> tuple[DrawnTokens, Tensor]:
        inputs = samples.inputs(step)
        drawn = decoder.step(samples.step_input(rows, prefixes), Draw.at(step, settings), inputs)
        samples.prepare(step + 1)
        return drawn, inputs

    inputs = samples.inputs(0)
    needs = CacheNeeds(len(samples), settings.limit, memory)
    drawn = decoder.start([job.prompt for job in jobs], needs, Draw.at(0, settings), inputs)
    sizes = Sizes.first(len(jobs), len(samples))
    for step in range(1, settings.limit + 1):
        new_sizes = samples.advance(drawn)
        ahead = None
        # sizes of the previous step are upper bounds: the number of samples never grows
        if (step < settings.limit and drawn.longer is None and samples.keeps_ended
                and decoder.can_run_ahead(sizes.rows, sizes.samples, Draw.at(step, settings))):
            drawn = drawn.copied()
            ahead = launch(step, sizes.samples)
        sizes = new_sizes()
        if sizes.short and drawn.longer is not None:
            drawn = drawn.longer()
            sizes = samples.advance(drawn)()
        samples.update(drawn, sizes, inputs)
        if step == settings.limit or not sizes.samples:
            break
        progress(len(samples) - sizes.samples)
        copies = len(jobs) if decoder.shares_prompts else sizes.rows
        if (copies * prefixes.shape[1] + sizes.rows * step) * decoder.token_bytes > memory:
            raise CacheOverflow
        drawn, inputs = launch(step, sizes.rows) if ahead is None else ahead
    progress(len(samples))
    return samples.sequences(window)


def not_finite_error(index: int) -> InputError:
    """The error for non-finite logits."""
    return InputError(f"source {index + 1}: the model's logits are not numbers (NaN or infinite); "
                      "choose another dtype, such as fp32, or check the model's weights")
