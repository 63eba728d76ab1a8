"""Samples from the choices of a server's responses; choices without text are left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minrisk._core.errors import InputError, Wording
from minrisk._core.sampler import Prompt, Sample, Samples, TruncationCount
from minrisk._core.vote import Vote, find_answer
from minrisk.openai.completions import CompletionResponse, Completions, UpstreamRequest
from minrisk.openai.responses import Choice, total_usage


@dataclass(frozen=True)
class EarlyStop:
    """The majority vote that stops sampling once it is decided.

    It is checked after waves of samples, in the order of their numbers, so that the samples depend
    on the seed and not on which response was the fastest.
    """

    pattern: re.Pattern[str]  # extracts the answer
    error: float
    most: int  # maximum number of samples in a wave

    def answer(self, choice: Choice) -> str | None:
        """The answer as `exact-match` compares it; None for an incomplete text."""
        answer = find_answer(self.pattern, choice.text or "")
        return None if answer is None or choice.is_incomplete else " ".join(answer.split())


class Connection:
    """The sampler's open connection to its server, in one event loop."""

    def __init__(self, request: Callable[[Prompt, int, int], UpstreamRequest], drop_truncated: bool,
                 completions: Completions, truncation: TruncationCount,
                 early_stop: EarlyStop | None = None) -> None:
        self._request = request
        self._drop_truncated = drop_truncated
        self._completions = completions
        self._truncation = truncation
        self._early_stop = early_stop

    async def sample(self, prompt: Prompt, n: int, seed: int = 0, index: int = 0) -> Samples:
        """n samples of a prompt, or fewer if choices have no text or a vote is decided."""
        request = self._request(prompt, seed, index)
        parts = await self._parts(request, n)
        choices = [choice for part in parts for choice in part.choices]
        self._note_missing_logprobs(request, choices)
        samples = Samples(self._usable(choices, _limit(request)),
                          total_usage(part.usage for part in parts), len(choices))
        if message := self._truncation.add(samples, _limit(request)):
            self._completions.note(f"{self._truncation.cut} cut", message)
        return samples

    async def _parts(self, request: UpstreamRequest, n: int) -> list[CompletionResponse]:
        if self._early_stop is None:
            return await self._completions.sample(request, range(n))
        vote, received = Vote(self._early_stop.error), []
        end = 0
        while end < n:
            wave = min(self._early_stop.most, vote.wave(end, n - end))
            start, end = end, end + wave
            parts = await self._completions.sample(request, range(start, end))
            received += parts
            for choice in (choice for part in parts for choice in part.choices):
                vote.add(self._early_stop.answer(choice))
            if vote.is_decided(n - end):
                break
        return received

    def _usable(self, choices: Sequence[Choice], limit: str) -> Iterator[Sample]:
        """The choices with text as samples; an InputError if there are none."""
        missing: Counter[str] = Counter()
        for choice in choices:
            if choice.text is None:
                missing[_problem(choice, limit, " before any text")] += 1
            elif choice.is_incomplete and self._drop_truncated:
                missing[_problem(choice, limit, "")] += 1
            else:
                yield choice.sample(choice.text)
        if missing.total() == len(choices):
            raise InputError(_no_text(missing, limit))
        if missing:
            self._completions.note("missing", Wording(
                "{missing} of {all} answers to a prompt are left out: {problems}; further notes of "
                "this kind are not shown", missing=missing.total(), all=len(choices),
                problems=_list(missing)))

    def _note_missing_logprobs(self, request: UpstreamRequest, choices: Sequence[Choice]) -> None:
        unsupported = self._completions.capabilities.unsupported_fields
        is_requested = "logprobs" in request.body.keys() - unsupported
        if is_requested and all(choice.raw.get("logprobs") is None for choice in choices):
            self._completions.note("logprobs", Wording(
                "the server returns no log-probabilities, so samples have none; set "
                "logprobs=False to not request them"))


def _limit(request: UpstreamRequest) -> str:
    """The token limit of a sample, for messages."""
    named = (f"{name}={request.body[name]}" for name in ("max_completion_tokens", "max_tokens")
             if name in request.body)
    return Wording(next(named, "the server's limit"))


def _problem(choice: Choice, limit: str, when: str) -> str:
    known = {"length": Wording("cut at {limit}" + when, limit=limit),
             "content_filter": "stopped by a content filter"}
    if choice.problem in known:
        return known[choice.problem]
    if choice.problem in ("tool calls", "refusals", "without text"):
        return choice.problem
    return f"without text (finish_reason {choice.problem!r:.40})"


def _no_text(missing: Counter[str], limit: str) -> str:
    total = missing.total()
    message = (Wording("all {total} answers were {problem}", total=total,
                       problem=next(iter(missing))) if len(missing) == 1
               else Wording("no text in {total} answers: {problems}", total=total,
                            problems=_list(missing)))
    is_truncated = any(problem.startswith("cut at") for problem in missing)
    return Wording("{message}; raise {option}", message=message,
                   option=limit.partition("=")[0]) if is_truncated else message


def _list(missing: Counter[str]) -> str:
    reasons = missing.most_common()
    return Wording(", ".join(f"{count} {{problem{i}}}" for i, (_, count) in enumerate(reasons)),
                   **{f"problem{i}": problem for i, (problem, _) in enumerate(reasons)})
