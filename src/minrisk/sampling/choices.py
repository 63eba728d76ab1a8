"""What a server of OpenAI's protocol answers."""

from __future__ import annotations

import warnings
from typing import Any

from minrisk.sampling.http import TemporaryError
from minrisk.sampling.sample import Sample


def read_choices(answer: Any, url: str) -> list[Sample]:
    """The samples of an answer, of either interface."""
    try:
        samples = [_sample(choice) for choice in answer["choices"]]
    except (KeyError, TypeError, AttributeError):
        raise TemporaryError(f"{url}: found {answer!r:.200}, wanted choices with text") from None
    if not samples:
        raise TemporaryError(f"{url}: the answer has no choices")
    return samples


def _sample(choice: dict[str, Any]) -> Sample:
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    if not isinstance(text, str):
        raise TypeError
    if choice.get("finish_reason") == "length":
        warnings.warn("some samples were cut where they reached max_tokens; raise it to see "
                      "their ends", stacklevel=2)
    return Sample(text, logprob=_logprob(choice.get("logprobs")))


def _logprob(found: dict[str, Any] | None) -> float | None:
    """The sum over the tokens, where the server gives them; each interface has its own form."""
    if found is None:
        return None
    listed = found.get("token_logprobs") or [t["logprob"] for t in found.get("content") or ()]
    return float(sum(listed)) if listed and None not in listed else None
