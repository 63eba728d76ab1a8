"""One sampling step: the next token of every sample, and the resulting rows.

It runs on the device, with shapes that do not depend on the tokens drawn, so that a CUDA graph can
capture it together with the model's step.
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
from minrisk.samplers.hf.logits_processing import GenerationSettings, Logits, LogitsProcessing
from minrisk.samplers.hf.truncation import Candidates

_PARTS = 6  # vectors in a packed state, with one integer per sample
_MIN_SAMPLES = 16  # minimum capacity of a state


def sample_room(samples: int) -> int:
    """The capacity of a state for this number of samples; there are few distinct capacities."""
    return next_power_of_two(samples, _MIN_SAMPLES)


class Sizes(NamedTuple):
    """Sizes that the host needs after a step."""

    children: int  # nodes that the step added to the prefix tree
    rows: int
    samples: int  # samples that have not ended
    invalid_row: int  # the last row with non-finite logits, or -1
    short: int  # samples whose candidate list was too short to draw from
    nodes: int  # all nodes of the prefix tree

    @classmethod
    def first(cls, rows: int, samples: int) -> Sizes:
        """The sizes before the first step."""
        return cls(0, rows, samples, -1, 0, 0)


@dataclass(frozen=True)
class SampleState:
    """The state of N samples, packed into one integer tensor; those not ended have at most N rows.
    """

    packed: Tensor

    @classmethod
    def of(cls, sizes: Tensor, *parts: Tensor) -> SampleState:
        """Pack the properties below, in their order."""
        return cls(torch.cat([sizes, *parts]))

    @classmethod
    def first(cls, rows: Tensor) -> SampleState:
        """The state before the first step; rows are the prompts of the samples."""
        size = sample_room(len(rows))
        numbers = torch.arange(size, device=rows.device)
        padded = pad(rows, (0, size - len(rows)), value=-1)
        return cls.of(rows.new_zeros(len(Sizes._fields)), numbers, padded, *[numbers] * 4)

    @classmethod
    def of_inputs(cls, inputs: Tensor) -> SampleState:
        """The state within the inputs of `Draw`."""
        return cls(inputs[_count(inputs) :])

    @property
    def sizes(self) -> Tensor:
        """The fields of `Sizes`."""
        return self.packed[: len(Sizes._fields)]

    @property
    def numbers(self) -> Tensor:
        """(N,) numbers of the samples; samples of the same row are adjacent."""
        return self._parts[0]

    @property
    def rows(self) -> Tensor:
        """(N,) row of each of `numbers`, or -1 if the sample has ended."""
        return self._parts[1]

    @property
    def nodes(self) -> Tensor:
        """(N,) node in the prefix tree, by sample number."""
        return self._parts[2]

    @property
    def parents(self) -> Tensor:
        """(N,) the row that each row continues, padded by repeating the last one."""
        return self._parts[3]

    @property
    def tokens(self) -> Tensor:
        """(N,) last token of each row."""
        return self._parts[4]

    @property
    def row_nodes(self) -> Tensor:
        """(N,) node of each row in the prefix tree."""
        return self._parts[5]

    @property
    def _parts(self) -> Tensor:
        return self.packed[len(Sizes._fields) :].view(_PARTS, -1)

    def copy_sizes(self) -> Callable[[], Sizes]:
        """Starts copying the sizes to the host; returns a function that waits for them."""
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
        """The state of only the samples at these places, which have not ended, renumbered."""
        size = sample_room(len(places))
        more = (0, size - len(places))
        return SampleState.of(
            self.sizes, torch.arange(size, device=places.device),
            pad(self.rows[places], more, value=-1), pad(self.nodes[self.numbers[places]], more),
            self.parents[:size], self.tokens[:size], self.row_nodes[:size])


@dataclass(frozen=True)
class DrawnTokens:
    """The state after a step, and the new nodes of the prefix tree, padded to (N, ...)."""

    state: SampleState
    parents: Tensor  # (N,) parent of each node
    columns: Tensor  # (N, 4) columns of `SampledTokens`, and the self-certainty of the model
    longer: Callable[[], DrawnTokens] | None  # redraws from longer lists; None if not needed

    def copied(self) -> DrawnTokens:
        """A copy whose nodes the next step does not overwrite."""
        return replace(self, parents=self.parents.clone(), columns=self.columns.clone())


@dataclass(frozen=True)
class Draw:
    """Turns logits into the next tokens of samples. Recordable objects are equal if they compute
    the same.
    """

    processing: LogitsProcessing
    ends: tuple[int, ...]  # end-of-sequence token ids
    settings: GenerationSettings = field(compare=False)

    @classmethod
    def at(cls, step: int, settings: GenerationSettings) -> Draw:
        return cls(settings.at(step), settings.ends, settings)

    @property
    def is_recordable(self) -> bool:
        """Whether a CUDA graph can capture it: the same at every step, entirely on the device."""
        return self.processing.is_recordable and self.settings.stop is None

    def __call__(self, logits: Logits, history: Callable[[], Tensor],
                 inputs: Tensor) -> DrawnTokens:
        """Draw from logits (R, V) of rows with a history (R, T); `inputs` holds a uniform random
        number per sample, and the packed state, as one tensor of integers.
        """
        candidates, certainty = self.processing(logits, history)
        return self._from_candidates(candidates, certainty, history, inputs)

    def _from_candidates(self, candidates: Candidates, certainty: Tensor,
                         history: Callable[[], Tensor], inputs: Tensor) -> DrawnTokens:
        uniforms = inputs[: _count(inputs)].view(torch.float64)
        state = SampleState.of_inputs(inputs)
        found = candidates.sample(state.rows.clamp(min=0) + uniforms[state.numbers])
        lives = state.rows >= 0
        # non-finite logits may invalidate the rows before theirs, but never those after
        is_invalid = lives & ((found.rows != state.rows) | found.columns[:, 1].isnan())
        is_short = lives & (found.columns[:, 0] < 0)
        # rows with non-finite logits may yield tokens outside the vocabulary
        columns = torch.cat([found.columns, certainty[state.rows.clamp(min=0), None]], 1)
        drawn = columns.masked_fill(is_invalid[:, None], 0)
        # samples with the same token in the same row form one child; ended samples are sorted last
        index, order = torch.where(lives, found.index, torch.iinfo(torch.int64).max).sort()
        lives, rows, numbers, columns = (own[order] for own in (lives, state.rows, state.numbers,
                                                                drawn))
        is_first = lives & torch.cat([lives.new_ones(1), index[1:] != index[:-1]])
        tokens = columns[:, 0].long()
        goes_on = lives & ~self._is_finished(tokens, is_first, rows, history)
        # cumulative counts of children and new rows, and the first sample of each
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
                           lambda: self._from_candidates(longer(), certainty, history, inputs))

    def _is_finished(self, tokens: Tensor, is_first: Tensor, rows: Tensor,
                     history: Callable[[], Tensor]) -> Tensor:
        """(N,) whether these tokens end the samples in these rows."""
        settings = self.settings
        found = (tokens[:, None] == settings.ends_on_device).any(1)
        if settings.stop is None:
            return found
        # -1, from lists that were too short, is not a token; these are redrawn
        known = tokens.clamp(min=0)[:, None]
        texts = torch.cat([history()[:, settings.start :][rows], known], 1)[is_first]
        stopped = upload(settings.stop(texts.cpu().numpy()), tokens.device)
        return found | stopped[(is_first.cumsum(0) - 1).clamp(min=0)]


def _count(inputs: Tensor) -> int:
    """The number of samples in the inputs of `Draw`."""
    return (len(inputs) - len(Sizes._fields)) // (1 + _PARTS)


def _places(counts: Tensor) -> Tensor:
    """(2, N) where the cumulative count first reaches each number, padded by repeating the last."""
    numbers = torch.arange(1, counts.shape[1] + 1, device=counts.device)
    return torch.searchsorted(counts, torch.minimum(numbers, counts[:, -1:]))
