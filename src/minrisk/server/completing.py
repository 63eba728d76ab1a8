"""From a call to its answer: draw samples, choose one of them, and log and record the choice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk._core.sample_columns import columns
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.record import Weighting, segment_of
from minrisk.io.writer import abstains, json_line
from minrisk.server.answers import Chosen, completion
from minrisk.server.calls import Call
from minrisk.server.candidates import TOOL_METRIC, Candidate, pool_of, read_candidates
from minrisk.server.choosing import Chooser
from minrisk.server.errors import NO_RETRY, ApiError, upstream_error
from minrisk.server.limits import SampleLimit
from minrisk.server.page import RecentRequests
from minrisk.server.prometheus import ServerMetrics
from minrisk.server.recording import Recorder
from minrisk.server.sampling import Draws, draw
from minrisk.server.settings import Settings
from minrisk.server.sources import Source
from minrisk.server.tracing import Trace, usage_counts
from minrisk.strategies.standard import Standard

_CHOOSING_DEADLINE = 60.0  # seconds


@dataclass(frozen=True)
class Completer:
    """Answers calls with the best of the samples of a source."""

    source: Source
    settings: Settings
    limit: SampleLimit
    chooser: Chooser
    metrics: ServerMetrics
    recorder: Recorder | None = None
    recent: RecentRequests | None = None

    async def answer(self, call: Call, draws: Draws, trace: Trace) -> dict[str, Any]:
        """The body of a completion."""
        try:
            with self.limit.admission(), trace.timing("sampling"):
                await self._draw(call, draws)
        finally:
            self._count(call, draws, trace)
        with trace.timing("choosing"):
            chosen = await self._choose(call, draws)
        body = completion(call, draws.parts, chosen, call.samples)
        self._describe(body, trace)
        await self._record(call, draws, body, chosen, trace)
        return body

    async def rank(self, strategy: Strategy, segment: Segment) -> Ranking:
        """The ranking of a segment, or an error after the deadline."""
        try:
            async with asyncio.timeout(_CHOOSING_DEADLINE):
                return await self.chooser.rank(self.settings.ranker(strategy), segment)
        except TimeoutError:
            raise ApiError(504, f"choosing took more than {_CHOOSING_DEADLINE:g} s",
                           code="deadline", headers=NO_RETRY) from None

    async def _draw(self, call: Call, draws: Draws) -> None:
        if not call.passes_through:
            await draw(self.source, draws, self.settings)
            return
        try:
            async with asyncio.timeout(self.settings.deadline):
                part = await (self.source.relay(call, draws.relay) if call.stream
                              else self.source.pass_through(call))
        except MinriskError as error:
            raise upstream_error(error) from None
        except TimeoutError:
            raise ApiError(504, f"no answer within {self.settings.deadline:g} s",
                           code="deadline", headers=NO_RETRY) from None
        draws.report(part, len(part.choices))

    async def _choose(self, call: Call, draws: Draws) -> Chosen | None:
        """The ranked candidates; None if the upstream's own answer is passed on."""
        candidates = read_candidates(draws.choices, call.wants_json)
        if call.passes_through or not candidates:
            return None
        pool = pool_of(candidates, self.settings.prefer_finished)
        strategy = call.strategy
        if pool.calls_tools and strategy.metric.name != TOOL_METRIC.name:
            strategy = Standard(TOOL_METRIC)
        try:
            segment, weighting = self._segment(call, pool.compared)
            ranking = await self.rank(strategy, segment)
        except MinriskError as error:
            raise ApiError(500, f"the samples cannot be ranked: {error}", code="choosing",
                           headers=NO_RETRY) from None
        order = [*_in_order(pool.compared, segment, ranking), *pool.others]
        share = self.settings.measures.abstain
        return Chosen(order, pool.compared, len(segment.hypotheses), ranking,
                      signature(strategy, weights=weighting), strategy,
                      abstains=share is not None and abstains(ranking, share))

    def _segment(self, call: Call, compared: Sequence[Candidate]) -> tuple[Segment, Weighting]:
        """As `minrisk decode` would read it from a record of these samples, and how they weigh: by
        their counts where the upstream gave no log-probabilities.
        """
        samples = [candidate.sample for candidate in compared]
        weighting = self.settings.weighting.or_uniform(columns(samples))
        return segment_of(samples, call.source, weighting), weighting

    def _count(self, call: Call, draws: Draws, trace: Trace) -> None:
        missing = max(0, call.samples - draws.count)
        failed = min(draws.failed, missing)
        counts = {"requested": call.samples, "drawn": draws.count, "failed": failed,
                  "cancelled": missing - failed}
        trace.fields |= counts
        for kind, count in counts.items():
            self.metrics.samples.add(count, kind)

    def _describe(self, body: dict[str, Any], trace: Trace) -> None:
        found, usage = body["minrisk"], usage_counts(body.get("usage"))
        trace.fields |= usage | {name: found[name] for name in
                                 ("distinct", "confidence", "abstained", "signature")
                                 if name in found}
        if "distinct" in found:
            self.metrics.samples.add(found["distinct"], "distinct")
        if found.get("abstained"):
            self.metrics.abstentions.add(1)
        if found.get("confidence") is not None:
            self.metrics.confidence.add(found["confidence"])
        for name, count in usage.items():
            self.metrics.tokens.add(count, name.removesuffix("_tokens"))

    async def _record(self, call: Call, draws: Draws, body: dict[str, Any], chosen: Chosen | None,
                      trace: Trace) -> None:
        """Append a line in the format of `minrisk sample`, before the client gets its answer."""
        compared = (read_candidates(draws.choices, call.wants_json) if chosen is None
                    else chosen.compared)
        if (self.recorder is None and self.recent is None) or not compared:
            return
        is_abstention = chosen is not None and chosen.abstains
        best = compared[0] if chosen is None else chosen.order[0]
        optional = {"source": call.source, "usage": body.get("usage"),
                    "abstained": is_abstention or None,
                    "signature": None if chosen is None else chosen.signature}
        line = json_line({
            "id": trace.id, **call.prompt_fields,
            **columns(candidate.sample for candidate in compared),
            "chosen": None if is_abstention else best.text,
            "model": body.get("model"), "seed": call.seed,
            "seconds": {name: round(value, 6) for name, value in trace.seconds.items()},
            **{name: value for name, value in optional.items() if value is not None}})
        if self.recent is not None:
            self.recent.add_answer(call.strategy if chosen is None else chosen.strategy, line)
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
