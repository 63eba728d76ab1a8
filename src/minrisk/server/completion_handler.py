"""From a request to its completion: sample, choose one of the samples, and record the choice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.errors import MinriskError
from minrisk._core.sample_columns import columns
from minrisk._core.sampler import Sample
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.record import Weighting, segment_of
from minrisk.io.writer import abstains, json_line
from minrisk.openai.choices import Choice
from minrisk.server.backends import Backend
from minrisk.server.candidates import TOOL_METRIC, Candidate, pool_of, read_candidates
from minrisk.server.client_request import ClientRequest
from minrisk.server.errors import NO_RETRY, ApiError, upstream_error
from minrisk.server.executor import RankedSegment, RankingExecutor
from minrisk.server.limits import SampleLimit
from minrisk.server.page import RecentRequests
from minrisk.server.prometheus import ServerMetrics, token_kind
from minrisk.server.recording import Recorder
from minrisk.server.responses import (
    RankedCandidates,
    completion,
    judge_usage_field,
    summed_usage,
)
from minrisk.server.sample_collector import SampleCollector, collect_samples
from minrisk.server.settings import Settings
from minrisk.server.tracing import Trace, usage_counts
from minrisk.strategies.standard import Standard

_CHOOSING_DEADLINE = 60.0  # seconds


@dataclass(frozen=True)
class CompletionHandler:
    """Answers requests with the best of the samples of a backend."""

    backend: Backend
    settings: Settings
    limit: SampleLimit
    executor: RankingExecutor
    metrics: ServerMetrics
    recorder: Recorder | None = None
    recent: RecentRequests | None = None

    async def complete(self, request: ClientRequest, collector: SampleCollector,
                       trace: Trace) -> dict[str, Any]:
        """The body of a completion."""
        try:
            with self.limit.admission(), trace.timing("sampling"):
                await self._sample(request, collector)
        finally:
            self._count(request, collector, trace)
        with trace.timing("choosing"):
            ranked = await self._choose(request, collector)
        body = completion(request, collector.parts, ranked, request.samples)
        self._describe(body, trace)
        await self._record(request, collector, body, ranked, trace)
        return body

    async def rank(self, strategy: Strategy, segment: Segment) -> RankedSegment:
        """The ranking of a segment, or an error after the deadline."""
        try:
            async with asyncio.timeout(_CHOOSING_DEADLINE):
                return await self.executor.rank(self.settings.timed_strategy(strategy), segment)
        except TimeoutError:
            raise ApiError(504, f"choosing took more than {_CHOOSING_DEADLINE:g} s",
                           code="deadline", headers=NO_RETRY) from None

    async def _sample(self, request: ClientRequest, collector: SampleCollector) -> None:
        if not request.passes_through:
            await collect_samples(self.backend, collector, self.settings)
            return
        try:
            async with asyncio.timeout(self.settings.deadline):
                part = await (self.backend.relay(request, collector.relay) if request.stream
                              else self.backend.pass_through(request))
        except MinriskError as error:
            raise upstream_error(error) from None
        except TimeoutError:
            raise ApiError(504, f"no answer within {self.settings.deadline:g} s",
                           code="deadline", headers=NO_RETRY) from None
        collector.report(part, len(part.choices))

    async def _choose(self, request: ClientRequest,
                      collector: SampleCollector) -> RankedCandidates | None:
        """The ranked candidates; None if the upstream's own answer is passed on."""
        candidates = read_candidates(collector.choices, request.wants_json)
        if request.passes_through or not candidates:
            return None
        pool = pool_of(candidates, self.settings.prefer_finished)
        strategy = request.strategy
        if pool.calls_tools and strategy.metric.name != TOOL_METRIC.name:
            strategy = Standard(TOOL_METRIC)
        try:
            votes = strategy.metric.is_vote
            segment, weighting = self._segment(request, pool.compared,
                                               collector.choices if votes else ())
            ranked = await self.rank(strategy, segment)
        except MinriskError as error:
            raise ApiError(500, f"the samples cannot be ranked: {error}", code="choosing",
                           headers=NO_RETRY) from None
        order = [*_in_order(pool.compared, segment, ranked.ranking), *pool.others]
        share = self.settings.measures.abstain
        return RankedCandidates(order, pool.compared, len(segment.hypotheses), ranked,
                      signature(strategy, weights=weighting), strategy,
                      abstains=share is not None and abstains(ranked.ranking, share))

    def _segment(self, request: ClientRequest, compared: Sequence[Candidate],
                 voting: Sequence[Choice]) -> tuple[Segment, Weighting]:
        """As `minrisk decode` would read it from a record of these samples, and how they weigh: by
        their counts where the upstream gave no log-probabilities.

        Of the voting choices, those that are not compared vote for none: they are blank references.
        """
        known = {id(candidate.choice) for candidate in compared}
        samples = [candidate.sample for candidate in compared]
        samples += [Sample("", logprob=choice.logprob, length=choice.length)
                    for choice in voting if id(choice) not in known]
        weighting = self.settings.weighting.or_uniform(columns(samples))
        segment = segment_of(samples, request.source, weighting)
        return segment.keep(np.flatnonzero([text != "" for text in segment.hypotheses])), weighting

    def _count(self, request: ClientRequest, collector: SampleCollector, trace: Trace) -> None:
        missing = max(0, request.samples - collector.count)
        failed = min(collector.failed, missing)
        counts = {"requested": request.samples, "drawn": collector.count, "failed": failed,
                  "cancelled": missing - failed}
        trace.fields |= counts
        for kind, count in counts.items():
            self.metrics.samples.add(count, kind)
        for name, count in usage_counts(summed_usage(collector.parts)).items():
            self.metrics.tokens.add(count, token_kind(name))

    def _describe(self, body: dict[str, Any], trace: Trace) -> None:
        found = body["minrisk"]
        trace.fields |= usage_counts(body.get("usage"))
        trace.fields |= {name: found[name] for name in
                         ("distinct", "confidence", "abstained", "judge_usage", "signature")
                         if name in found}
        if "distinct" in found:
            self.metrics.samples.add(found["distinct"], "distinct")
        if found.get("abstained"):
            self.metrics.abstentions.add(1)
        if found.get("confidence") is not None:
            self.metrics.confidence.add(found["confidence"])

    async def _record(self, request: ClientRequest, collector: SampleCollector,
                      body: dict[str, Any], ranked: RankedCandidates | None,
                      trace: Trace) -> None:
        """Append a line in the format of `minrisk sample`, before the client gets its answer."""
        compared = (read_candidates(collector.choices, request.wants_json) if ranked is None
                    else ranked.compared)
        if (self.recorder is None and self.recent is None) or not compared:
            return
        is_abstention = ranked is not None and ranked.abstains
        best = compared[0] if ranked is None else ranked.order[0]
        optional = {"source": request.source, "usage": summed_usage(collector.parts),
                    **({} if ranked is None else judge_usage_field(ranked.judge_usage)),
                    "abstained": is_abstention or None,
                    "signature": None if ranked is None else ranked.signature}
        line = json_line({
            "id": trace.id, **request.prompt_fields,
            **columns(candidate.sample for candidate in compared),
            "chosen": None if is_abstention else best.text,
            "model": body.get("model"), "seed": request.seed,
            "seconds": {name: round(value, 6) for name, value in trace.seconds.items()},
            **{name: value for name, value in optional.items() if value is not None}})
        if self.recent is not None:
            strategy = request.strategy if ranked is None else ranked.strategy
            self.recent.add_completion(strategy, line)
        if self.recorder is not None:
            await asyncio.wrap_future(self.recorder.append(line))


def _in_order(compared: Sequence[Candidate], segment: Segment,
              ranking: Ranking) -> list[Candidate]:
    """One candidate of each distinct text, best first; then the copies, in the same order."""
    rank = {segment.hypotheses[row]: place for place, row in enumerate(ranking.order.tolist())}
    seen: dict[str, int] = {}
    keys = []
    for candidate in compared:
        copy = seen.get(candidate.text, 0)
        seen[candidate.text] = copy + 1
        keys.append((copy, rank[candidate.text]))
    return [candidate for _, candidate in sorted(zip(keys, compared, strict=True),
                                                 key=lambda pair: pair[0])]
