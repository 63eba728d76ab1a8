"""Any server that speaks OpenAI's protocol: vLLM, llama.cpp, SGLang, Ollama, OpenAI's own, ..."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np

from minrisk.errors import InputError, MinriskError
from minrisk.options import option
from minrisk.progress import tell
from minrisk.sampling.choices import read_choices
from minrisk.sampling.http import RefusedError, UnusableError, post
from minrisk.sampling.parallel import Task, in_threads
from minrisk.sampling.prompt import check_template, fill
from minrisk.sampling.retry import patiently
from minrisk.sampling.sample import PartialError, Prompt, Sample

_KEY = "OPENAI_API_KEY"
_OURS = {"messages", "prompt", "model", "temperature", "top_p", "max_tokens", "logprobs", "n",
         "seed", "stream"}


@dataclass(frozen=True)
class Endpoint:
    """a server with OpenAI's chat or completions protocol, local or remote

    What no option says is as the server has it: llama.cpp, for one, cuts the distribution unless
    `extra` is {"top_k": 0, "min_p": 0} and `top_p` is 1. Log-probabilities are the server's too.
    """

    name: ClassVar[str] = "openai"
    takes_messages: ClassVar[bool] = True
    is_causal: ClassVar[bool] = True  # it has to be told what to do with a source

    endpoint: str = option(help="its address, such as http://localhost:8000/v1")
    model: str = option(help="the name that the server knows the model by")
    api: Literal["chat", "completions"] = option("chat", help="which of its two interfaces")
    prompt: str | None = option(None, help='a template, such as "Translate to French: {source}"')
    system: str | None = option(None, help="a system message before every chat")
    temperature: float = option(1.0, help="below 1 sharpens the distribution")
    top_p: float | None = option(None, help="only the likeliest tokens of this much probability")
    max_tokens: int = option(512, help="longest sample")
    extra: str | None = option(None, help='further fields of a request, such as {"min_p": 0.1}')
    logprobs: bool = option(True, help="ask for log-probabilities")
    send_seed: bool = option(True, help="ask for repeatable samples")
    per_request: int = option(16, help="samples asked for at once; fewer where that is refused")
    concurrency: int = option(8, help="requests at a time", matters=False)
    timeout: float = option(600.0, help="seconds to wait for an answer", matters=False)
    retries: int = option(6, help="of a request that failed for the time being", matters=False)
    key_variable: str = option(
        _KEY, help="the environment variable that holds the key", matters=False)

    def __post_init__(self) -> None:
        _check_address(self.endpoint)
        check_template(self.prompt)
        for name, least in (("max_tokens", 1), ("per_request", 1), ("concurrency", 1),
                            ("retries", 0), ("temperature", 0)):
            if not getattr(self, name) >= least:
                raise InputError(f"{name} {getattr(self, name)}; wanted {least} or more")
        if not self.timeout > 0:
            raise InputError(f"timeout {self.timeout}; wanted more than 0 seconds")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p {self.top_p}; wanted more than 0 and at most 1")
        for name in self._extra:
            if name in _OURS:
                raise InputError(f"extra has {name}; give it as an option of the sampler")
        if self.system is not None and self.api == "completions":
            raise InputError("system is for chats; put it into prompt, or use api chat")

    def batch_size(self, n: int) -> int:
        """Enough to keep all connections busy nearly all of the time."""
        return max(1, 4 * self.concurrency // -(-n // self.per_request))

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]:
        if n < 1 or seed < 0:
            raise InputError(f"{n} samples with seed {seed}; wanted 1 or more, and a seed from 0")
        places = range(len(prompts)) if places is None else places
        size = self.per_request
        parts = [range(n)[start:start + size] for start in range(0, n, size)]
        ask = partial(self._ask, self._key())
        tasks = [partial(self._draw, partial(ask, self._body(prompt)), part, [seed, place])
                 for prompt, place in zip(prompts, places, strict=True) for part in parts]
        results = list(_joined(self._run(tasks), len(parts)))
        if any(isinstance(result, MinriskError) for result in results):
            raise PartialError(results)
        return [result for result in results if not isinstance(result, MinriskError)]

    def _run(self, tasks: Sequence[Task[list[Sample]]]) -> list[list[Sample] | MinriskError]:
        """The result of every task, in order."""
        results: dict[int, list[Sample] | MinriskError] = {}
        for place, result in in_threads(tasks, self.concurrency):
            results[place] = result
            tell("requests answered", len(results), len(tasks))
            if isinstance(result, UnusableError):  # the others would fare no better
                return [results.get(i, result) for i in range(len(tasks))]
        return [results[i] for i in range(len(tasks))]

    def _draw(self, ask: Callable[[dict[str, Any]], list[Sample]], numbers: range,
              stream: list[int]) -> list[Sample]:
        """The samples of these numbers, in as many requests as the server needs for them."""
        drawn: list[Sample] = []
        most = len(numbers)
        while rest := numbers[len(drawn):]:
            more = {"n": min(most, len(rest))} | self._seed([*stream, rest[0]])
            try:
                drawn += patiently(partial(ask, more), self.retries)[:len(rest)]
            except RefusedError:
                if more["n"] == 1:
                    raise
                most = more["n"] // 2  # some servers have few places, and take no more
        return drawn

    def _ask(self, key: str | None, body: dict[str, Any], more: dict[str, Any]) -> list[Sample]:
        """One request; a server may give fewer samples than were asked for."""
        path = "chat/completions" if self.api == "chat" else "completions"
        url = f"{self.endpoint.rstrip('/')}/{path}"
        return read_choices(post(url, body | more, key, self.timeout), url)

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        body = self._asked(prompt) | {"model": self.model, "temperature": self.temperature,
                                      "max_tokens": self.max_tokens}
        if self.top_p is not None:
            body["top_p"] = self.top_p
        if self.logprobs:
            body["logprobs"] = True if self.api == "chat" else 1
        return body | self._extra

    @cached_property
    def _extra(self) -> dict[str, Any]:
        try:
            found = json.loads(self.extra or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InputError(f"extra {self.extra!r:.60}; wanted a JSON object, "
                             'such as {"min_p": 0.1}')
        return found

    def _asked(self, prompt: Prompt) -> dict[str, Any]:
        if isinstance(prompt, str):
            text = fill(self.prompt, prompt)
            if self.api == "completions":
                return {"prompt": text}
            prompt = [{"role": "user", "content": text}]
        elif self.prompt is not None or self.api == "completions":
            raise InputError("found messages, which neither go into a prompt template nor to "
                             "api completions; use api chat without a prompt, or give sources")
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return {"messages": [*system, *prompt]}

    def _seed(self, stream: list[int]) -> dict[str, int]:
        """Far apart even for neighbours: servers count on from a seed for the other choices."""
        if not self.send_seed:
            return {}
        return {"seed": int(np.random.SeedSequence(stream).generate_state(1)[0] >> 1)}

    def _key(self) -> str | None:
        key = os.environ.get(self.key_variable, "").strip()
        if not key and self.key_variable != _KEY:
            raise InputError(f"the environment variable {self.key_variable} is not set; "
                             "put the key there")
        if not (key.isascii() and key.isprintable()):  # which a header cannot carry
            raise InputError(f"the environment variable {self.key_variable} holds no key: "
                             "it has line breaks, control or other special characters")
        return key or None


def _joined(parts: Sequence[list[Sample] | MinriskError],
            size: int) -> Iterator[list[Sample] | MinriskError]:
    """From so many parts each to the samples of a prompt, or its first error."""
    for start in range(0, len(parts), size):
        samples: list[Sample] = []
        error = None
        for part in parts[start:start + size]:
            if isinstance(part, MinriskError):
                error = error or part
            else:
                samples += part
        yield error or samples


def _check_address(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, fine = urlsplit(""), False
    if parts.username is not None or parts.query:  # not shown: they may be secrets
        raise InputError("the endpoint's address has a user or a query; wanted only "
                         "http(s)://HOST:PORT/PATH, and a key in the environment")
    if not fine:
        raise InputError(f"endpoint {endpoint!r}; wanted an address such as "
                         "http://localhost:8000/v1")
