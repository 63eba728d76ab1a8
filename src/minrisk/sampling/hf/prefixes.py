"""Draw many samples and run the model once for every distinct prefix of them.

Each sample draws its tokens with random numbers of its own, so that n samples are n independent
draws; those with the same prefix so far are one row of the model's batch. When they part, the row
branches; when all of them have ended, it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from minrisk.sampling.hf.rules import Rules
from minrisk.sampling.hf.streams import Stream
from minrisk.sampling.hf.truncation import Truncation


@dataclass(frozen=True)
class Prompt:
    """What a model is given: a source to encode, if it has an encoder, and how the text begins."""

    source: tuple[int, ...]
    prefix: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """Some of the samples of a prompt."""

    prompt: Prompt
    place: int
    n: int  # samples of the prompt in all
    samples: range  # which of them

    def halves(self) -> list[Job]:
        middle = len(self.samples) // 2
        return [replace(self, samples=part)
                for part in (self.samples[:middle], self.samples[middle:]) if part]


class Decoder(Protocol):
    """A model that writes on from rows of prefixes."""

    token_bytes: int  # that a row remembers of every token

    def start(self, prompts: Sequence[Prompt]) -> Tensor:
        """(S, V) float32 logits of the first token, with a row for each prompt."""
        ...

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """(R, V) float32 logits after giving each of the new rows' parents a token.

        Most rows are their own parent, and no row is replaced that another one comes from.
        """
        ...


class Overfull(Exception):  # noqa: N818 - a signal between two of our own functions
    """The rows remember more than they may."""


@dataclass(frozen=True)
class Ended:
    """Texts that ended at one step."""

    job: Tensor  # (E,)
    first: Tensor  # (E,) the number of the first sample with this text
    count: Tensor  # (E,)
    tokens: Tensor  # (E, T)
    logprob: Tensor  # (E,)
    truncated: Tensor  # (E,)


@dataclass(frozen=True)
class _Rows:
    """Distinct prefixes; they begin as one for each job."""

    job: Tensor  # (R,)
    history: Tensor  # (R, T) what the model was given of each, and wrote
    logprob: Tensor  # (R,)
    truncated: Tensor  # (R,)

    def __getitem__(self, rows: Tensor) -> _Rows:
        return _Rows(self.job[rows], self.history[rows], self.logprob[rows], self.truncated[rows])


def draw(decoder: Decoder, rules: Rules, truncation: Truncation, jobs: Sequence[Job],
         seed: int, memory: float) -> list[Ended]:
    """All samples of all jobs, in the order in which they ended."""
    streams = [Stream(seed, job.place, job.n) for job in jobs]
    logits = decoder.start([job.prompt for job in jobs])
    device = logits.device
    rows = _first_rows(jobs, device)
    sizes = torch.tensor([len(job.samples) for job in jobs], device=device)
    row = torch.arange(len(jobs), device=device).repeat_interleave(sizes)  # of each sample
    sample = torch.arange(len(row), device=device)
    number = torch.tensor([i for job in jobs for i in job.samples], device=device)
    ended = []
    for step in range(rules.limit):
        uniforms = np.concatenate([stream(step)[job.samples.start : job.samples.stop]
                                   for stream, job in zip(streams, jobs, strict=True)])
        own = torch.from_numpy(uniforms).to(device)[sample]
        rows, child, parents = _grow(rows, row, own, logits, rules, truncation)
        over = torch.isin(rows.history[:, -1], rules.ends)
        if step == rules.limit - 1:
            over = torch.ones_like(over)
        if bool(over.any()):
            ended.append(_end(rows, over, child, number[sample], rules.start))
        going = ~over
        place = _places(parents[going])
        if not len(place):
            break
        order = place.argsort()
        lives = going[child]
        row = place[(going.cumsum(0) - 1)[child[lives]]]
        sample = sample[lives]
        rows, parents = rows[going][order], parents[going][order]
        if len(rows.job) * rows.history.shape[1] * decoder.token_bytes > memory:
            raise Overfull
        logits = decoder.step(parents, rows.history[:, -1])
    return ended


def _first_rows(jobs: Sequence[Job], device: torch.device) -> _Rows:
    history = torch.tensor([job.prompt.prefix for job in jobs], device=device)
    nothing = torch.zeros(len(jobs), dtype=torch.float64, device=device)
    return _Rows(torch.arange(len(jobs), device=device), history, nothing, nothing)


def _grow(rows: _Rows, row: Tensor, uniforms: Tensor, logits: Tensor, rules: Rules,
          truncation: Truncation) -> tuple[_Rows, Tensor, Tensor]:
    """Every sample draws a token: the rows of the next step, each sample's row, parents."""
    scores, total, whole = rules(rows.history, logits)
    token, log = truncation(scores, total).draw(row, uniforms)
    pairs, child = torch.unique(row * logits.shape[1] + token, return_inverse=True)
    parents, last = pairs // logits.shape[1], pairs % logits.shape[1]
    truncated = torch.empty(len(pairs), dtype=torch.float64, device=log.device)
    truncated[child] = log.double()
    grown = rows[parents]
    return _Rows(grown.job, torch.cat([grown.history, last[:, None]], 1),
                 grown.logprob + (logits[parents, last] - whole[parents]),
                 grown.truncated + truncated), child, parents


def _end(rows: _Rows, over: Tensor, child: Tensor, number: Tensor, start: int) -> Ended:
    first = torch.full_like(rows.job, torch.iinfo(torch.long).max)
    first.scatter_reduce_(0, child, number, "amin")
    count = torch.bincount(child, minlength=len(over))
    gone = rows[over]
    return Ended(gone.job, first[over], count[over], gone.history[:, start:], gone.logprob,
                 gone.truncated)


def _places(parents: Tensor) -> Tensor:
    """Where the children of rows go, which come sorted by parent.

    The first child of a row takes its place, so that nothing has to be moved for it; the others,
    and those from beyond the end, fill the gaps.
    """
    count = len(parents)
    first = torch.ones_like(parents, dtype=torch.bool)
    first[1:] = parents[1:] != parents[:-1]
    stays = first & (parents < count)
    free = torch.ones_like(stays)
    free[parents[stays]] = False
    places = parents.clone()
    places[~stays] = free.nonzero()[:, 0]
    return places
