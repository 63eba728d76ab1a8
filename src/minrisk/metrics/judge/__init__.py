"""An LLM as a judge (Wu, Fernandes et al. 2025), on an OpenAI-compatible server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Ints, Objects, objects
from minrisk._core.errors import InputError, MinriskError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.process import report_progress
from minrisk._core.segment import shortened
from minrisk._core.sqlite_cache import MEMORY
from minrisk._core.texts import SOURCE, check_template, fill_places, has_place, valid_unicode
from minrisk.metrics.judge import templates
from minrisk.metrics.judge.answers import (
    SCORE,
    Scale,
    answer_cache,
    candidate_grammar,
    question,
    read_candidate,
)
from minrisk.openai.background import AsyncWork, Callback, stream
from minrisk.openai.client_options import ClientOptions, further_fields, server_key, warn_in
from minrisk.openai.completions import REPLACEABLE, CompletionResponse, Completions, UpstreamRequest
from minrisk.openai.responses import Choice
from minrisk.plugins import Metric, option

_TOP_LOGPROBS = 20  # OpenAI's maximum
_MAX_ACCOUNTS = 100_000  # hypotheses whose usage is stored until it is reported
_OURS = ("messages", "model", "n", "stream")
_FORMATS = {"response_format", "json_schema"}  # cannot be combined with a grammar


@dataclass(frozen=True)
class _Question:
    """A request to the judge, and how to parse its answer."""

    body: dict[str, Any]
    about: str  # describes what is judged, for messages
    account: tuple[str | None, str]  # source and hypothesis that its usage is attributed to
    read: Callable[[Choice], Any]

    def value(self, choice: Choice) -> Any:
        try:
            return self.read(choice)
        except InputError as error:
            raise InputError(f"{self.about}: {error}") from None


@dataclass(frozen=True)
class Judge(ClientOptions, Metric[Objects]):
    """An LLM on a server that scores a hypothesis against a reference; needs minrisk[openai].

    A judge reads the prompt (the source), a reference and a hypothesis, and gives a score (Wu,
    Fernandes et al. 2025). If scores have one digit and the server returns log-probabilities, this
    is the expected score under the token probabilities; otherwise it is the number in the answer.
    With the built-in prompts, a server that supports a `grammar` (llama.cpp) writes nothing else.
    Without references (`rerank`) it judges by the source alone; with
    `universal-self-consistency` it sees all hypotheses at once, and for `fuse` it writes one from
    all. A pair costs a request, so use strategies that need few pairs: `adaptive`, `prune`,
    `low-rank`, or `coarse-to-fine` after an embedding. `symmetric:judge` asks in both directions.
    Scores and choices are cached; `usage` counts requests and tokens.

    Args:
        model: name of the model on the server.
        endpoint: address of the server, such as "http://localhost:8000/v1" [default:
            OPENAI_BASE_URL]. The environment variable is read when the metric is created.
        concurrency: maximum number of simultaneous requests.
        timeout: time limit for a response, in seconds.
        retries: number of retries after a transient error.
        key_variable: environment variable with the API key.
        rubric: description of a good answer, which replaces {rubric} in prompts.
        lowest: lowest score.
        highest: highest score; the expected score needs one of at most 9.
        prompt: template of the prompt for a pair, with {hypothesis} and {reference}; {source},
            {rubric}, {lowest} and {highest} are replaced, too. Without {source}, no source is
            needed.
        quality_prompt: template of the prompt without a reference, with {hypothesis}.
        choice_prompt: template of the prompt to choose among all, with {candidates}; also {count}.
        fusion_prompt: template of the prompt to write one text from all, with {candidates}; also
            {count}.
        fusion_tokens: maximum number of tokens of a fused text.
        system: system message before every prompt.
        answer: regular expression of the score in an answer, or of its first group [default: the
            first number].
        logprobs: request log-probabilities, which the expected score needs.
        temperature: temperature of sampling; 0 is greedy.
        max_tokens: maximum number of tokens of an answer; reasoning models need more.
        extra: further request fields as a JSON object, such as {"top_k": 1}; null removes a field.
        max_characters: maximum number of characters of a prompt; longer ones are errors.
        cache: SQLite file with the answers, which runs and processes may share.

    Raises:
        InputError: if an option is invalid, or there is no address of a server; when it is used, if
            an answer has no score.
        MissingExtra: when it is used, if aiohttp is not installed.

    >>> judge = Judge("llama-3", endpoint="http://localhost:8000/v1", rubric="Is it polite?")
    >>> judge.usage
    {'requests': 0}
    >>> import minrisk
    >>> minrisk.CoarseToFine(judge, coarse="chrf", keep=4).metric.name
    'judge'
    """

    name = "judge"
    papers = ("Wu et al. 2025",)
    cost = "n · m requests; n without references"
    loads_model = True  # for a single worker, which sends requests concurrently

    rubric: str | None = option(None)
    lowest: int = option(1, ge=0, le=999)
    highest: int = option(5, ge=1, le=1000)
    prompt: str | None = option(None)
    quality_prompt: str | None = option(None)
    choice_prompt: str | None = option(None)
    fusion_prompt: str | None = option(None)
    fusion_tokens: int = option(1024, ge=1)
    system: str | None = option(None)
    answer: str | None = option(None)
    logprobs: bool = option(True)
    temperature: float = option(0.0, ge=0)
    max_tokens: int = option(16, ge=1)
    extra: str | None = option(None)
    max_characters: int = option(100_000, ge=1, affects_results=False)
    cache: str = option(MEMORY, affects_results=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_template(self.prompt, "hypothesis", "reference")
        check_template(self.quality_prompt, "hypothesis", option="quality_prompt")
        check_template(self.choice_prompt, "candidates", option="choice_prompt")
        check_template(self.fusion_prompt, "candidates", option="fusion_prompt")
        if self.lowest >= self.highest:
            raise InputError(Wording("judge: highest must be above lowest={lowest}; got {highest}",
                                     lowest=self.lowest, highest=self.highest))
        for name in _OURS:
            if self._extra.get(name) is not None:
                raise InputError(f"judge: extra has {name}, which the judge sets; leave it out")
        _ = self._scale

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only the options; each process has its own connection and usage."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def needs_source(self) -> bool:
        return has_place(self.prompt or templates.PAIR, SOURCE)

    @property
    def reads_source(self) -> bool:
        """Whether any of its prompts contains the source; which one is used depends on the
        strategy.
        """
        given = (self.prompt or templates.PAIR, self.quality_prompt or templates.QUALITY,
                 self.choice_prompt or templates.CHOICE, self.fusion_prompt or templates.FUSION)
        return any(has_place(template, SOURCE) for template in given)

    @property
    def usage(self) -> dict[str, int]:
        """The number of answered requests of this process so far, and their tokens if known."""
        return {"requests": 0} | self._usage

    def prepare(self) -> None:
        server_key(self.key_variable)

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(valid_unicode(text) for text in texts)

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) one request for each pair whose score is not cached."""
        template, text = self.prompt or templates.PAIR, _text(source)
        scores = self._ask([  # grouped by reference, for servers with prefix caching
            self._question(template, text, hyp, self._scale.read, reference=ref)
            for ref, hyp in product(refs, hyps)])
        return np.reshape(scores, (len(refs), len(hyps))).T

    def quality(self, hyps: Objects, source: Objects | None) -> Floats:
        """(H,) one request for each hypothesis."""
        template, text = self.quality_prompt or templates.QUALITY, _text(source)
        return np.array(self._ask([
            self._question(template, text, hyp, self._scale.read) for hyp in hyps]))

    def choose(self, hyps: Objects, counts: Ints, source: Objects | None) -> int:
        """The row of the hypothesis that the judge chooses in a single request."""
        template = self.choice_prompt or templates.CHOICE
        candidates = templates.listed(list(hyps), counts.tolist())
        asked = self._question(template, _text(source), hyps[0],
                               partial(read_candidate, count=len(hyps)), candidates=candidates,
                               count=int(counts.sum()), grammar=candidate_grammar(len(hyps)))
        return int(self._ask([asked])[0]) - 1

    def fuse(self, hyps: Objects, counts: Ints, source: Objects | None) -> str | None:
        """A text that the judge writes from all hypotheses in a single request; it is not cached.

        None if it has no text, or was cut at `fusion_tokens`.
        """
        template = self.fusion_prompt or templates.FUSION
        asked = self._question(template, _text(source), hyps[0], _written, count=int(counts.sum()),
                               candidates=templates.listed(list(hyps), counts.tolist()))
        body = asked.body | {"max_tokens": self.fusion_tokens}
        body.pop("grammar", None)
        [(_, text)] = self._answers({b"": replace(asked, body=body)}, lambda: None)
        found: str | None = text
        return found

    def take_usage(self, source: str | None, texts: Iterable[str]) -> Counter[str]:
        total: Counter[str] = Counter()
        # wrappers, and prompts without {source}, attribute usage to None
        sources = {None, None if source is None else valid_unicode(source)}
        for key in product(sources, dict.fromkeys(map(valid_unicode, texts))):
            total += self._accounts.pop(key, Counter())
        return total

    def _question(self, template: str, source: str | None, hyp: str,
                  read: Callable[[Choice], Any], reference: str | None = None,
                  grammar: str | None = None, **values: object) -> _Question:
        if source is None and has_place(template, SOURCE):
            raise InputError("metric 'judge' needs the source for {source} in its prompt; give one "
                             "for every segment")
        texts = {name: text for name, text in (("source", source), ("hypothesis", hyp),
                                               ("reference", reference)) if text is not None}
        if template in templates.OURS:  # user templates delimit texts themselves
            texts = {name: templates.marked(text) for name, text in texts.items()}
        prompt = fill_places(template, **texts, lowest=self.lowest, highest=self.highest,
                             rubric=self.rubric or templates.RUBRIC, **values)
        if len(prompt) > self.max_characters:
            raise InputError(f"judge: a prompt has {len(prompt):,} characters, and max_characters "
                             f"is {self.max_characters:,}; give fewer or shorter hypotheses, or "
                             "raise max_characters if the model's context is long enough")
        about = "the choice" if "candidates" in values else f"hypothesis {shortened(hyp)}"
        has_expected = self.logprobs and self._scale.is_of_digits and "candidates" not in values
        if template not in templates.OURS or self.answer is not None:
            grammar = None  # the format of such answers is unknown
        elif grammar is None:
            grammar = self._scale.grammar
        return _Question(self._body(prompt, has_expected, grammar), about, (source, hyp), read)

    def _ask(self, questions: Sequence[_Question]) -> list[float]:
        """A number for each question, from the cache or the server."""
        store = answer_cache(self.cache)
        keys = [question(self.endpoint, asked.body, self.answer, self.lowest, self.highest)
                for asked in questions]
        known = store.find(keys)
        missing = {key: asked for key, asked in zip(keys, questions, strict=True)
                   if key not in known}
        done = 0

        def report() -> None:
            report_progress("requests answered", done, len(missing))

        # closing, so that an error here cancels open requests
        with closing(self._answers(missing, report)) as answers:
            for key, value in answers:
                store.add(key, value)
                known[key] = value
                done += 1
                report()
        return [known[key] for key in keys]

    def _answers(self, asked: dict[bytes, _Question],
                 waiting: Callback) -> Generator[tuple[bytes, Any]]:
        """What they say, as responses arrive; the first failure cancels the other requests."""
        if not asked:
            return
        work = stream(self._connect, asked.items(), 2 * self.concurrency, waiting)
        with closing(work) as results:
            for (key, own), response in results:
                if isinstance(response, MinriskError):
                    raise response
                self._charge(own.account, response)
                yield key, own.value(response.choices[0])

    @asynccontextmanager
    async def _connect(self, call: Callable[[Callback], None]) -> AsyncIterator[
            AsyncWork[tuple[bytes, _Question], CompletionResponse]]:
        async with self.completions(warn_in(call)) as completions:
            yield partial(self._answer, completions)

    async def _answer(self, completions: Completions,
                      item: tuple[bytes, _Question]) -> CompletionResponse:
        replaceable = REPLACEABLE | {"top_logprobs", "grammar"}
        request = UpstreamRequest(item[1].body, replaceable=replaceable - self._extra.keys())
        [part] = await completions.sample(request, range(1))
        requested = "logprobs" in request.body.keys() - completions.capabilities.unsupported_fields
        if requested and part.choices[0].raw.get("logprobs") is None:
            completions.note("logprobs", Wording(
                "the server returns no log-probabilities, so scores are the numbers that the "
                "judge writes; set logprobs=False to not request them"))
        return part

    def _body(self, prompt: str, logprobs: bool, grammar: str | None) -> dict[str, Any]:
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        body = {"model": self.model, "messages": [*system, {"role": "user", "content": prompt}],
                "temperature": self.temperature, "max_tokens": self.max_tokens}
        if logprobs:
            body |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        if not self._extra.keys() & _FORMATS:
            body["grammar"] = grammar
        body |= self._extra
        return {name: value for name, value in body.items() if value is not None}

    def _charge(self, account: tuple[str | None, str], part: CompletionResponse) -> None:
        spent = Counter(requests=1, **(part.usage or {}))
        self._usage.update(spent)
        if len(self._accounts) < _MAX_ACCOUNTS:
            self._accounts.setdefault(account, Counter()).update(spent)

    @lazy
    def _extra(self) -> dict[str, Any]:
        return further_fields(self.extra)

    @lazy
    def _scale(self) -> Scale:
        try:
            return Scale(self.lowest, self.highest, re.compile(self.answer or SCORE))
        except re.error as error:
            raise InputError(f"judge: answer {self.answer!r:.60} is not a valid regular "
                             f"expression: {error}") from None

    @lazy
    def _usage(self) -> Counter[str]:
        return Counter()

    @lazy
    def _accounts(self) -> dict[tuple[str | None, str], Counter[str]]:
        return {}


def _written(choice: Choice) -> str | None:
    """The text of a choice that is complete."""
    return None if choice.is_incomplete or choice.text is None else choice.text.strip() or None


def _text(source: Objects | None) -> str | None:
    return None if source is None else str(source[0])
