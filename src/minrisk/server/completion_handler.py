"""From a request to its completion: sample, choose one of the samples, and record the choice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk._core.sampler import Sample, columns
from minrisk._core.segment import Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.formats import json_line
from minrisk.openai.responses import Choice
from minrisk.server.backends import Backend
from minrisk.server.candidates import Candidate, read_candidates
from minrisk.server.choosing import RankedSegment, comparable
from minrisk.server.client_request import ClientRequest
from minrisk.server.errors import ABSTAINED, NO_RETRY, ApiError, upstream_error
from minrisk.server.executor import RankingExecutor
from minrisk.server.limits import SampleLimit
from minrisk.server.page import RecentRequests
from minrisk.server.prometheus import ServerMetrics, token_kind
from minrisk.server.recording import Recorder
from minrisk.server.responses import (
    RankedCandidates,
    completion,
    judge_usage_field,
    reason_to_abstain,
    summed_usage,
)
from minrisk.server.sample_collector import SampleCollector, collect_samples
from minrisk.server.settings import Settings
from minrisk.server.tracing import Trace, now, usage_counts


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
        if ranked is not None and ranked.abstains and self.settings.abstain_as == "error":
            raise ApiError(422, reason_to_abstain(ranked.ranking), code=ABSTAINED,
                           headers=NO_RETRY)
        return body

    async def rank(self, strategy: Strategy, segment: Segment) -> RankedSegment:
        """The ranking of a segment, or an error after the deadline."""
        measured = self.settings.comparison().measured(strategy)
        async with self._choosing_deadline():
            return await self.executor.rank(measured, segment)

    @asynccontextmanager
    async def _choosing_deadline(self) -> AsyncIterator[None]:
        seconds = self.settings.choosing_deadline
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ApiError(504, f"choosing took more than {seconds:g} s", code="deadline",
                           headers=NO_RETRY) from None

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
        if request.passes_through:
            return None
        comparison = self.settings.comparison(request.wants_json, request.source, request.n > 1)
        try:
            async with self._choosing_deadline():
                found = await self.executor.choose(collector.choices, request.strategy, comparison)
        except MinriskError as error:
            raise ApiError(500, f"the samples cannot be ranked: {error}", code="choosing",
                           headers=NO_RETRY) from None
        if found is None:
            return None
        chosen, ranked = found
        strategy = chosen.strategy or request.strategy
        share = self.settings.measures.abstain
        return RankedCandidates(
            chosen.in_order(ranked.ranking), chosen.compared, len(chosen.segment.hypotheses),
            ranked, signature(strategy, weights=chosen.weighting), strategy,
            abstains=ranked.ranking.abstain_below(share).abstained,
            abstain_text=(self.settings.abstain_text if self.settings.abstain_as == "text"
                          else None))

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
                         ("distinct", "confidence", "abstained", "passed_through", "judge_usage",
                          "signature")
                         if name in found}
        if "distinct" in found:
            self.metrics.samples.add(found["distinct"], "distinct")
        if found.get("passed_through"):
            self.metrics.passed_through.add(1)
        if found.get("abstained"):
            self.metrics.abstentions.add(1)
        if found.get("confidence") is not None:
            self.metrics.confidence.add(found["confidence"])

    async def _record(self, request: ClientRequest, collector: SampleCollector,
                      body: dict[str, Any], ranked: RankedCandidates | None,
                      trace: Trace) -> None:
        """Append a line in the format of `minrisk sample`, before the client gets its answer."""
        if self.recorder is None and self.recent is None:
            return
        compared = await self._unranked(request, collector) if ranked is None else ranked.compared
        if not compared:
            return
        is_abstention = ranked is not None and ranked.abstains
        best = compared[0] if ranked is None else ranked.order[0]
        optional = {"source": request.source, "usage": summed_usage(collector.parts),
                    **({} if ranked is None else judge_usage_field(ranked.judge_usage)),
                    "abstained": is_abstention or None,
                    "passed_through": request.passes_through or None,
                    "finish_reason": body["choices"][0].get("finish_reason"),
                    "uncompared": None if ranked is None else _uncompared(
                        collector.choices, ranked),
                    "signature": None if ranked is None else ranked.signature}
        line = await asyncio.to_thread(_line, compared, {
            "id": trace.id, "time": now(), **request.prompt_fields,
            "chosen": None if is_abstention else best.text,
            "model": body.get("model"), "seed": request.seed,
            "seconds": trace.rounded_seconds(),
            **{name: value for name, value in optional.items() if value is not None}})
        if self.recent is not None:
            self.recent.add_completion(None if ranked is None else ranked.strategy, line)
        if self.recorder is not None:
            try:
                await asyncio.wrap_future(self.recorder.append(line))
            except OSError as error:  # the answer is paid for; the operator is told
                trace.fields["not_recorded"] = error.strerror or type(error).__name__
                self.metrics.record_failures.add(1)

    async def _unranked(self, request: ClientRequest,
                        collector: SampleCollector) -> list[Candidate]:
        choices = comparable(collector.choices)
        return await self.executor.run(read_candidates, choices, request.wants_json)


def _line(compared: Sequence[Candidate], fields: dict[str, Any]) -> str:
    """The line of a record."""
    return json_line(fields | columns([candidate.sample for candidate in compared]))


def _uncompared(choices: Sequence[Choice], ranked: RankedCandidates) -> dict[str, Any] | None:
    """Columns of the samples that could not win: truncated, filtered, empty or of another kind."""
    compared = {id(candidate.choice) for candidate in ranked.compared}
    texts = {id(candidate.choice): candidate.text for candidate in ranked.order}
    others = [Sample(texts.get(id(choice)) or choice.text or "",
                     finish_reason=choice.finish_reason)
              for choice in choices if id(choice) not in compared]
    return columns(others) if others else None
