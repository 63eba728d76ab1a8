"""Rewards from a server's /rerank: the source is the query, hypotheses are the documents."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import MinriskError
from minrisk._core.process import report_progress
from minrisk._core.texts import valid_unicode
from minrisk.openai.background import AsyncWork, Callback, stream
from minrisk.openai.client import Client, Response
from minrisk.openai.client_options import ClientOptions, server_key
from minrisk.openai.errors import InvalidResponse

if TYPE_CHECKING:
    from minrisk.metrics.neural.reward import Reward

_DOCUMENTS = 64  # documents per request
_PATH = "rerank"


class RewardServer:
    """A reward model on a server."""

    def __init__(self, options: Reward) -> None:
        self._options = ClientOptions(options.model, options.endpoint, timeout=options.timeout,
                                      retries=options.retries, key_variable=options.key_variable)
        server_key(options.key_variable)  # raises early if the key is missing

    def quality(self, hyps: Sequence[str], source: str) -> Floats:
        """(H,) rewards of the hypotheses, in requests of up to 64."""
        result = np.zeros(len(hyps))
        blocks = [range(start, min(start + _DOCUMENTS, len(hyps)))
                  for start in range(0, len(hyps), _DOCUMENTS)]

        async def score(client: Client, block: range) -> Response:
            documents = [valid_unicode(hyps[row]) for row in block]
            body = {"model": self._options.model, "query": valid_unicode(source),
                    "documents": documents}
            return await client.post(_PATH, body, lambda own: check_scores(own, len(block)))

        @asynccontextmanager
        async def connect(
            call: Callable[[Callback], None],
        ) -> AsyncIterator[AsyncWork[range, Response]]:
            async with self._options.client() as client:
                yield lambda block: score(client, block)

        done = 0

        def report() -> None:
            report_progress("requests answered", done, len(blocks))

        with closing(stream(connect, blocks, len(blocks), report)) as results:
            for block, response in results:
                done += 1
                report()
                if isinstance(response, MinriskError):
                    raise response
                for index, value in read_scores(response.body):
                    result[block[index]] = value
        return result


def check_scores(body: Any, count: int) -> InvalidResponse | None:
    """The problem of a response without a finite score for each document; None if it is valid."""
    scores = read_scores(body)
    if sorted(index for index, _ in scores) == list(range(count)):
        return None
    return InvalidResponse(f"expected a relevance_score for each of {count} documents",
                         is_temporary=False)


def read_scores(body: Any) -> list[tuple[int, float]]:
    """Indices and scores of documents, in the format of Jina and Cohere or that of TEI."""
    results = body.get("results") if isinstance(body, dict) else body
    entries = [entry for entry in (results if isinstance(results, list) else ())
               if isinstance(entry, dict)]
    named = ((entry.get("index"), entry.get("relevance_score", entry.get("score")))
             for entry in entries)
    return [(index, float(score)) for index, score in named
            if isinstance(index, int) and not isinstance(index, bool)
            and isinstance(score, int | float) and _is_finite(score)]


def _is_finite(score: float) -> bool:
    try:
        return math.isfinite(score)
    except OverflowError:  # an integer that does not fit into a double
        return False
