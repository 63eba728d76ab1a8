"""Draw many samples and run the model once for every distinct prefix of them.

The tokens of each sample depend on random numbers of its own, so that n samples are independent;
those with the same prefix so far are one row of the model's batch. When they differ, the
row branches; when all of them have ended, it is removed.

The device runs the model and samples tokens; the tree of prefixes is kept in NumPy, so that a step
costs the host little and waits for the device once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk.samplers.hf.logits_processing import GenerationSettings, LogitsProcessing
from minrisk.samplers.hf.random_streams import RandomStream
from minrisk.samplers.hf.truncation import Candidates, SampledTokens

_MAX_VOCABULARY = 1 << 32  # more than any vocabulary has
# below 1 by more than what adding a row's number rounds away
_LARGEST_UNIFORM = 1 - 2.0**-32


@dataclass(frozen=True)
class TokenizedPrompt:
    """A source to encode, if the model has an encoder, and the prefix of the text."""

    source: tuple[int, ...]
    prefix: tuple[int, ...]


@dataclass(frozen=True)
class SamplingJob:
    """Some of the samples of a prompt."""

    prompt: TokenizedPrompt
    index: int  # of the prompt in the input, for its random stream
    n: int  # samples of the prompt in all
    samples: range  # which of them

    def halves(self) -> list[SamplingJob]:
        middle = len(self.samples) // 2
        return [replace(self, samples=part)
                for part in (self.samples[:middle], self.samples[middle:]) if part]


@dataclass(frozen=True)
class StepInput:
    """Input of a decoder at a step."""

    parents: Ints  # (R,) the row that each one continues; most continue themselves
    tokens: Ints  # (R,) the last token of each row
    samples: int  # that are not finished: an upper bound of the number of rows
    history: Callable[[], Ints]  # (R, T) all tokens of each row, made on demand


class PrefixDecoder(Protocol):
    """A model that extends rows of prefixes by one token."""

    token_bytes: int  # of the KV cache for a token
    shares_prompts: bool  # the cache has each prompt once, not once for each row

    def start(self, prompts: Sequence[TokenizedPrompt], samples: int,
              processing: LogitsProcessing) -> Candidates:
        """Candidates for the first tokens, with a row for each prompt."""
        ...

    def step(self, step_input: StepInput, processing: LogitsProcessing) -> Candidates:
        """Candidates after the tokens; no row is overwritten that another one continues."""
        ...


class CacheOverflow(Exception):  # noqa: N818 - a signal between two of our own functions
    """The KV cache takes more memory than it may."""


@dataclass(frozen=True)
class FinishedSequences:
    """Texts that ended at one step."""

    job: Ints  # (E,)
    tokens: Ints  # (E, T)
    count: Ints  # (E,)
    first: Ints  # (E,) the number of the first sample with this text
    logprob: Floats  # (E,)
    truncated: Floats  # (E,)


@dataclass(frozen=True)
class _Prefixes:
    """Distinct prefixes, at first one per job; their tokens are in the tree."""

    job: Ints  # (R,)
    logprob: Floats  # (R,)
    truncated: Floats  # (R,)

    def __getitem__(self, rows: Ints) -> _Prefixes:
        return _Prefixes(self.job[rows], self.logprob[rows], self.truncated[rows])


class _TokenTree:
    """The token and the parent of every prefix, for each step."""

    def __init__(self) -> None:
        self._steps: list[tuple[Ints, Ints]] = []

    def append(self, parents: Ints, tokens: Ints) -> None:
        self._steps.append((parents, tokens))

    def at(self, step: int, node: Ints) -> Ints:
        """(E, step + 1) the tokens of the texts that are `node` (E,) at a step."""
        return self.read([*[np.empty(0, np.intp)] * step, node])[-1]

    def read(self, last: Sequence[Ints]) -> list[Ints]:
        """(E, t + 1) the tokens of those texts that are `last[t]` (E,) at step t."""
        starts = [0, *accumulate(map(len, last))]
        at = np.concatenate(last)
        tokens = np.empty((len(at), len(last)), np.intp)
        for step in reversed(range(len(last))):
            parents, given = self._steps[step]
            active = at[starts[step] :]
            tokens[starts[step] :, step] = given[active]
            at[starts[step] :] = parents[active]
        return [tokens[starts[step] : starts[step + 1], : step + 1] for step in range(len(last))]


def sample_sequences(
        decoder: PrefixDecoder, settings: GenerationSettings, jobs: Sequence[SamplingJob],
        seed: int, memory: float,
        progress: Callable[[int], None] = lambda ended: None) -> list[FinishedSequences]:
    """All samples of all jobs, in the order in which they ended; `progress` gets their number."""
    random_streams = [RandomStream(seed, job.index, job.n) for job in jobs]
    numbers = np.concatenate([np.array(job.samples, np.intp) for job in jobs])
    prefixes = np.array([job.prompt.prefix for job in jobs], np.intp)
    rows = _Prefixes(np.arange(len(jobs)), np.zeros(len(jobs)), np.zeros(len(jobs)))
    node = rows.job  # where each row is among the texts of the last step
    row = np.repeat(rows.job, [len(job.samples) for job in jobs])  # of each sample
    sample = np.arange(len(row))
    tree, ended, last = _TokenTree(), [], []
    candidates = decoder.start([job.prompt for job in jobs], len(sample), settings.at(0))
    for step in range(settings.limit):
        uniforms = np.concatenate([stream(step)[job.samples.start : job.samples.stop]
                                   for stream, job in zip(random_streams, jobs, strict=True)])
        found = candidates.sample(row + np.minimum(uniforms[sample], _LARGEST_UNIFORM))
        lost = (found.rows != row) | np.isnan(found.truncated)
        if lost.any():
            # rows before such a row may fail with it, rows after it never
            raise not_finite_error(jobs[rows.job[row[lost].max()]].index)
        one, child, count = _groups(row * _MAX_VOCABULARY + found.tokens)
        parents, tokens = row[one], found.tokens[one]
        texts = _extended(rows[parents], found, one)
        tree.append(node[parents], tokens)
        is_finished = (tokens[:, None] == settings.ends).any(1) | (step == settings.limit - 1)
        if settings.stop is not None:
            is_finished |= settings.stop(tree.at(step, np.arange(len(tokens))))
        finished, active = is_finished.nonzero()[0], (~is_finished).nonzero()[0]
        ended.append((texts[finished], count[finished], numbers[sample[one[finished]]]))
        last.append(finished)
        progress(len(numbers) - int(count[active].sum()))
        if not len(active):
            break
        node = np.empty_like(active)
        node[_assigned_slots(parents[active])] = active
        rows = texts[node]
        copies = len(jobs) if decoder.shares_prompts else len(node)
        cached = copies * prefixes.shape[1] + len(node) * (step + 1)
        if cached * decoder.token_bytes > memory:
            raise CacheOverflow
        row, sample = _surviving_samples(node, child, sample)
        candidates = decoder.step(
            StepInput(parents[node], tokens[node], len(sample),
                      partial(_history, prefixes[rows.job], tree, node, step)),
            settings.at(step + 1))
    return [FinishedSequences(texts.job, tokens, count, first, texts.logprob, texts.truncated)
            for (texts, count, first), tokens in zip(ended, tree.read(last), strict=True)]


def not_finite_error(index: int) -> InputError:
    """The error for logits that give no distribution."""
    return InputError(f"source {index + 1}: the model's logits are not numbers (NaN or infinite); "
                      "choose another dtype, such as fp32, or check the model's weights")


def _groups(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Groups of equal keys: the first index of each, the group of every key, the sizes.

    As `np.unique` with all of its results, which takes longer.
    """
    order = keys.argsort()
    alike = keys[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = alike[1:] != alike[:-1]
    starts = is_new.nonzero()[0]
    kind = np.empty_like(order)
    kind[order] = is_new.cumsum() - 1
    return np.minimum.reduceat(order, starts), kind, np.diff(starts, append=len(keys))


def _extended(before: _Prefixes, sampled: SampledTokens, one: Ints) -> _Prefixes:
    """Prefixes with the next token, that of sample `one` of each."""
    return _Prefixes(before.job, before.logprob + sampled.full[one],
                     before.truncated + sampled.truncated[one])


def _surviving_samples(node: Ints, child: Ints, sample: Ints) -> tuple[Ints, Ints]:
    """The rows and numbers of the samples that go on, given the prefix of every sample."""
    row = np.full(child.max() + 1, -1)
    row[node] = np.arange(len(node))
    lives = row[child] >= 0
    return row[child][lives], sample[lives]


def _history(prefixes: Ints, tree: _TokenTree, node: Ints, step: int) -> Ints:
    return np.concatenate([prefixes, tree.at(step, node)], 1)


def _assigned_slots(parents: Ints) -> Ints:
    """The slots of the children of rows, which are sorted by parent.

    The first child of a row takes its slot, so that nothing has to be copied for it; the others,
    and those of rows beyond the end, fill the gaps.
    """
    first = np.ones(len(parents), bool)
    first[1:] = parents[1:] != parents[:-1]
    stays = first & (parents < len(parents))
    free = np.ones(len(parents), bool)
    free[parents[stays]] = False
    slots = parents.copy()
    slots[~stays] = free.nonzero()[0]
    return slots
