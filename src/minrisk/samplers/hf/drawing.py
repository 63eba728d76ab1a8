"""One step of drawing: the next token of every sample, and the rows that the samples make then.

It happens on the device, with sizes that do not depend on what is drawn, so that a CUDA graph can
record it with the step of the model before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from minrisk._torch.cuda_graphs import next_power_of_two
from minrisk._torch.device import upload
from minrisk.samplers.hf.logits_processing import GenerationSettings, LogitsProcessing
from minrisk.samplers.hf.truncation import Candidates

_PARTS = 6  # of a state, with a number for each sample
_MIN_SAMPLES = 16  # that there is room for


def sample_room(samples: int) -> int:
    """The number of samples that a state has room for, which is one of few."""
    return next_power_of_two(samples, _MIN_SAMPLES)


class Sizes(NamedTuple):
    """Numbers that the host needs to know after a step."""

    children: int  # nodes that the step added to the tree
    rows: int
    samples: int  # that go on
    invalid_row: int  # the last one whose logits are not numbers, or -1
    short: int  # samples whose list of candidates was too short to draw from
    nodes: int  # of the tree

    @classmethod
    def first(cls, rows: int, samples: int) -> Sizes:
        """Before the first step."""
        return cls(0, rows, samples, -1, 0, 0)


@dataclass(frozen=True)
class SampleState:
    """N samples, of which those that go on have rows, at most as many; one tensor of integers."""

    packed: Tensor

    @classmethod
    def of(cls, sizes: Tensor, *parts: Tensor) -> SampleState:
        """From the properties below, in their order."""
        return cls(torch.cat([sizes, *parts]))

    @classmethod
    def first(cls, rows: Tensor) -> SampleState:
        """Of samples in these rows, which are their prompts."""
        size = sample_room(len(rows))
        numbers = torch.arange(size, device=rows.device)
        padded = pad(rows, (0, size - len(rows)), value=-1)
        return cls.of(rows.new_zeros(len(Sizes._fields)), numbers, padded, *[numbers] * 4)

    @classmethod
    def of_inputs(cls, inputs: Tensor) -> SampleState:
        """That which the inputs of `Draw` have."""
        return cls(inputs[_count(inputs) :])

    @property
    def sizes(self) -> Tensor:
        """As in `Sizes`."""
        return self.packed[: len(Sizes._fields)]

    @property
    def numbers(self) -> Tensor:
        """(N,) numbers of the samples, those of a row side by side."""
        return self._parts[0]

    @property
    def rows(self) -> Tensor:
        """(N,) rows of these, or -1 where a sample has ended."""
        return self._parts[1]

    @property
    def nodes(self) -> Tensor:
        """(N,) nodes in the tree, by the number of a sample."""
        return self._parts[2]

    @property
    def parents(self) -> Tensor:
        """(N,) the row that each row continues; after the last one, it is repeated."""
        return self._parts[3]

    @property
    def tokens(self) -> Tensor:
        """(N,) that the rows end with."""
        return self._parts[4]

    @property
    def row_nodes(self) -> Tensor:
        """(N,) of the rows in the tree."""
        return self._parts[5]

    @property
    def _parts(self) -> Tensor:
        return self.packed[len(Sizes._fields) :].view(_PARTS, -1)

    def copy_sizes(self) -> Callable[[], Sizes]:
        """Starts to copy the sizes to the host, and returns what waits for them."""
        if self.packed.device.type != "cuda":
            known = Sizes(*self.sizes.tolist())
            return lambda: known
        found = torch.empty(len(Sizes._fields), dtype=torch.int64, pin_memory=True)
        found.copy_(self.sizes, non_blocking=True)
        copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]
        copied.record()

        def wait() -> Sizes:
            copied.synchronize()
            return Sizes(*found.tolist())

        return wait

    def only(self, places: Tensor) -> SampleState:
        """Of the samples at these places, which are all that go on; they get new numbers."""
        size = sample_room(len(places))
        more = (0, size - len(places))
        return SampleState.of(
            self.sizes, torch.arange(size, device=places.device),
            pad(self.rows[places], more, value=-1), pad(self.nodes[self.numbers[places]], more),
            self.parents[:size], self.tokens[:size], self.row_nodes[:size])


@dataclass(frozen=True)
class DrawnTokens:
    """The samples after a step, and the new nodes of the tree, each (N, ...) with room for more."""

    state: SampleState
    parents: Tensor  # (N,) of the nodes
    columns: Tensor  # (N, 3) as in `SampledTokens`
    longer: Callable[[], DrawnTokens] | None  # draws from longer lists, if some were too short

    def copied(self) -> DrawnTokens:
        """With nodes in memory that the next step does not overwrite."""
        return replace(self, parents=self.parents.clone(), columns=self.columns.clone())


@dataclass(frozen=True)
class Draw:
    """Turns logits into the next tokens of samples. Two recordable objects are equal if they do
    the same.
    """

    processing: LogitsProcessing
    ends: tuple[int, ...]  # tokens that end a text
    settings: GenerationSettings = field(compare=False)

    @classmethod
    def at(cls, step: int, settings: GenerationSettings) -> Draw:
        return cls(settings.at(step), settings.ends, settings)

    @property
    def is_recordable(self) -> bool:
        """Whether it does the same at every step, on the device alone."""
        return self.processing.is_recordable and self.settings.stop is None

    def __call__(self, logits: Tensor, history: Callable[[], Tensor],
                 inputs: Tensor) -> DrawnTokens:
        """From logits (R, V) of rows with a history (R, T); inputs are uniform numbers (N,) of
        the samples, by number, and their state, as one tensor of integers.
        """
        return self._from_candidates(self.processing(logits, history), history, inputs)

    def _from_candidates(self, candidates: Candidates, history: Callable[[], Tensor],
                         inputs: Tensor) -> DrawnTokens:
        uniforms = inputs[: _count(inputs)].view(torch.float64)
        state = SampleState.of_inputs(inputs)
        found = candidates.sample(state.rows.clamp(min=0) + uniforms[state.numbers])
        lives = state.rows >= 0
        # rows before one whose logits are not numbers may fail with it, rows after it never
        is_invalid = lives & ((found.rows != state.rows) | found.columns[:, 1].isnan())
        is_short = lives & (found.columns[:, 0] < 0)
        # of a row whose logits are not numbers, a token may be none of the vocabulary
        drawn = found.columns.masked_fill(is_invalid[:, None], 0)
        # samples with the same token of the same row are a child of the row; ended ones come last
        index, order = torch.where(lives, found.index, torch.iinfo(torch.int64).max).sort()
        lives, rows, numbers, columns = (own[order] for own in (lives, state.rows, state.numbers,
                                                                drawn))
        is_first = lives & torch.cat([lives.new_ones(1), index[1:] != index[:-1]])
        tokens = columns[:, 0].long()
        goes_on = lives & ~self._is_finished(tokens, is_first, rows, history)
        # children and new rows, up to each sample, and where each of them begins
        counts = torch.stack([is_first, is_first & goes_on]).cumsum(1)
        child, row = _places(counts)
        nodes = counts[0] - 1 + state.sizes[Sizes._fields.index("nodes")]
        sizes = torch.stack([counts[0, -1], counts[1, -1], goes_on.sum(),
                             torch.where(is_invalid, state.rows, -1).max(), is_short.sum(),
                             nodes[-1] + 1])
        now = SampleState.of(
            sizes, numbers, torch.where(goes_on, counts[1] - 1, -1),
            state.nodes.scatter(0, numbers, torch.where(lives, nodes, state.nodes[numbers])),
            rows[row], tokens[row], nodes[row])
        longer = candidates.longer
        return DrawnTokens(now, state.row_nodes[rows[child]], columns[child], None
                           if longer is None else
                           lambda: self._from_candidates(longer(), history, inputs))

    def _is_finished(self, tokens: Tensor, is_first: Tensor, rows: Tensor,
                     history: Callable[[], Tensor]) -> Tensor:
        """(N,) whether the samples in these rows end with these tokens."""
        settings = self.settings
        found = (tokens[:, None] == settings.ends_on_device).any(1)
        if settings.stop is None:
            return found
        # of a list that was too short, which is drawn from again, there is no token
        known = tokens.clamp(min=0)[:, None]
        texts = torch.cat([history()[:, settings.start :][rows], known], 1)[is_first]
        stopped = upload(settings.stop(texts.cpu().numpy()), tokens.device)
        return found | stopped[(is_first.cumsum(0) - 1).clamp(min=0)]


def _count(inputs: Tensor) -> int:
    """Samples that the inputs of `Draw` are for."""
    return (len(inputs) - len(Sizes._fields)) // (1 + _PARTS)


def _places(counts: Tensor) -> Tensor:
    """(2, N) where each number is counted up to first; after the last one, it is repeated."""
    numbers = torch.arange(1, counts.shape[1] + 1, device=counts.device)
    return torch.searchsorted(counts, torch.minimum(numbers, counts[:, -1:]))
