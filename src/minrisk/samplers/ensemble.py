"""A sampler whose samples come from several others: one pool of several models."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minrisk._core.adapters import as_sampler
from minrisk._core.errors import (
    InputError,
    MinriskError,
    MissingExtra,
    UnusableError,
    Wording,
    warn,
)
from minrisk._core.lazy import lazy
from minrisk._core.options import labels, option
from minrisk._core.sampler import (
    AnyRequest,
    PartialError,
    Prompt,
    Request,
    Sample,
    Sampler,
    Samples,
    SamplingResult,
    check_numbers,
    number_drawn,
    usage_of,
)
from minrisk.openai.background import AsyncWork, Callback, stream
from minrisk.openai.client_options import warn_in
from minrisk.openai.upstreams import UpstreamServer, split
from minrisk.samplers.connection import Connection
from minrisk.samplers.openai import Endpoint, collected


def _convert(config: Any, name: str, value: Any) -> tuple[Sampler, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"ensemble: {name} must be a list of samplers")
    return tuple(map(as_sampler, value))


@dataclass(frozen=True)
class Ensemble(Sampler):
    """Several samplers, whose samples are pooled.

    Samples have the name and the weight of their model: all are references of all, and
    `confidence.disagreement` says how far the models disagree. Endpoints are asked at the same
    time. A sampler that fails costs its samples, with a warning; only if all fail, so does the
    prompt.

    Args:
        samplers: the samplers.
        samples: number of samples of each, whatever n is [default: equal parts of n].
        weights: weight of a sample of each one as a reference [default: 1].
        names: name of each one [default: its model].

    Raises:
        InputError: if the lists differ in length, or a sampler stops early (`vote`), since it
            would stop by the answers of its own model.

    >>> def one(prompt, n):
    ...     return ["It is 4."] * n
    >>> def other(prompt, n):
    ...     return ["It is 5."] * n
    >>> ensemble = Ensemble([one, other], samples=(2, 1), names=("one", "other"))
    >>> [(sample.model, sample.count) for sample in ensemble.sample(["2 + 2?"], 3)[0]]
    [('one', 1), ('one', 1), ('other', 1)]
    """

    name = "ensemble"

    samplers: tuple[Sampler, ...] = dataclasses.field(
        metadata={"inner": True, "convert": _convert})
    samples: tuple[int, ...] | None = option(None, ge=1)
    weights: tuple[float, ...] | None = option(None, gt=0)
    names: tuple[str, ...] | None = option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.samplers)
        if count < 2:
            raise InputError("ensemble: expected at least two samplers")
        for name in ("samples", "weights", "names"):
            given = getattr(self, name)
            if given is not None and len(given) != count:
                raise InputError(f"ensemble: {name} must have a value for each of the {count} "
                                 f"samplers; got {len(given)}")
        if any(one.vote is not None for one in self.samplers):
            raise InputError("ensemble: vote only sees the answers of one model; leave it out, "
                             "and use the metric exact-match")

    @property
    def takes_messages(self) -> bool:
        return all(one.takes_messages for one in self.samplers)

    @property
    def is_causal(self) -> bool:
        return any(one.is_causal for one in self.samplers)

    @property
    def prompt(self) -> str | None:
        prompts = [one.prompt for one in self.samplers if one.is_causal]
        return None if None in prompts else next(iter(prompts), None)

    @property
    def is_random(self) -> bool:
        return any(one.is_random for one in self.samplers)

    @property
    def streams(self) -> bool:
        return len(self._endpoints) == len(self.samplers)

    def with_options(self, **changes: Any) -> Ensemble:
        """The same samplers with other options."""
        return replace(self, samplers=tuple(one.with_options(**changes) for one in self.samplers))

    def batch_size(self, n: int) -> int:
        return min(one.batch_size(number) for one, number
                   in zip(self.samplers, self._numbers(n), strict=True))

    def prepare(self) -> None:
        for one in self.samplers:
            one.prepare()

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        check_numbers(n, seed)
        if self.streams:
            return collected(lambda requests: self.stream(requests, n, seed), prompts, indices)
        columns = [_results(one, prompts, number, _seed(seed, place), indices)
                   for place, (one, number) in enumerate(
                       zip(self.samplers, self._numbers(n), strict=True))]
        pooled = [self._pooled(row, warn) for row in zip(*columns, strict=True)]
        samples = [result for result in pooled if isinstance(result, list)]
        if len(samples) < len(pooled):
            raise PartialError(pooled)
        return samples

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Generator[tuple[AnyRequest, SamplingResult]]:
        """Results of requests as they finish; all endpoints are asked at the same time."""
        numbers = self._numbers(n)

        @asynccontextmanager
        async def connect(
            call: Callable[[Callback], None],
        ) -> AsyncIterator[AsyncWork[AnyRequest, SamplingResult]]:
            note = warn_in(call)
            async with AsyncExitStack() as stack:
                connections = [_Member(await stack.enter_async_context(one.connect(note)))
                               for one in self._endpoints]

                async def work(request: AnyRequest) -> SamplingResult:
                    found = await asyncio.gather(*(
                        one.sample(request, number, _seed(seed, place)) for place, (one, number)
                        in enumerate(zip(connections, numbers, strict=True))))
                    result = self._pooled(found, note)
                    if isinstance(result, MinriskError):
                        raise result
                    return result

                yield work

        ahead = max(1, min(one.batch_size(number) for one, number
                           in zip(self._endpoints, numbers, strict=True)) // 2)
        return stream(connect, requests, ahead)

    def _numbers(self, n: int) -> list[int]:
        return list(self.samples or split(n, [1] * len(self.samplers)))

    def _pooled(self, found: Sequence[SamplingResult],
                note: Callable[[str], None]) -> SamplingResult:
        """The samples of all models that have some; the first error if none has."""
        parts = [result for result in found if isinstance(result, list)]
        if not parts:
            return next(result for result in found if isinstance(result, MinriskError))
        labelled: list[Sample] = []
        for name, weight, result in zip(self._labels, self._weights, found, strict=True):
            if isinstance(result, list):
                labelled += [replace(sample, model=name, weight=weight) for sample in result]
            elif name not in self._warned:
                self._warned.add(name)
                note(Wording("{name}: {error}; continuing without its samples, and without "
                             "showing further errors of it", name=name, error=result))
        return Samples(labelled, usage_of(*parts), sum(map(number_drawn, parts)))

    @lazy
    def _warned(self) -> set[str]:
        """The names of samplers that have failed."""
        return set()

    @lazy
    def _endpoints(self) -> list[Endpoint]:
        return [one for one in self.samplers if isinstance(one, Endpoint)]

    @lazy
    def _labels(self) -> list[str]:
        return list(self.names or labels(str(getattr(one, "model", one.name))
                                         for one in self.samplers))

    @property
    def _weights(self) -> Sequence[float]:
        return self.weights or [1.0] * len(self.samplers)


class _Member:
    """A connection; once its server is unusable, it is not asked again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._failure: UnusableError | None = None

    async def sample(self, request: Request, n: int, seed: int) -> SamplingResult:
        if self._failure is not None:
            return self._failure
        try:
            return await self._connection.sample(request.prompt, n, seed, request.index)
        except UnusableError as error:
            self._failure = error
            return error
        except MinriskError as error:
            return error


def pool_of_servers(servers: Sequence[UpstreamServer], make: Callable[..., Sampler]) -> Sampler:
    """The sampler of one server, or of a pool of several; `make` takes options of each."""
    samplers = [make(endpoint=one.endpoint, **{
        name: value for name in ("model", "key_variable")
        if (value := getattr(one, name)) is not None}) for one in servers]
    samples = [one.samples for one in servers]
    if len(servers) == 1:
        return samplers[0]
    return Ensemble(tuple(samplers), None if None in samples else tuple(filter(None, samples)),
                    tuple(one.weight for one in servers), tuple(one.name for one in servers))


def _results(sampler: Sampler, prompts: Sequence[Prompt], n: int, seed: int,
             indices: Sequence[int] | None) -> Sequence[SamplingResult]:
    """The samples of each prompt, or its error."""
    try:
        return sampler.sample(prompts, n, seed, indices)
    except PartialError as error:
        return error.results
    except MissingExtra:
        raise
    except MinriskError as error:
        return [error] * len(prompts)


def _seed(seed: int, place: int) -> int:
    """A seed for each sampler, so that two of the same model do not draw the same samples."""
    return int(np.random.SeedSequence([seed, place]).generate_state(1)[0]) if place else seed
