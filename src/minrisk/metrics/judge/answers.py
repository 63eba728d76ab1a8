"""The answers of a judge: parsed, to a score or the number of a candidate, and cached."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

from minrisk._core.errors import InputError
from minrisk._core.sqlite_cache import SqliteCache
from minrisk.openai.responses import Choice

# the first number, unless it begins a range ("1-5"), which only repeats the question
SCORE = r"^[^\d]*?(?<![\d.-])(\d+(?:\.\d+)?)(?![\d.]*\s*[-–]\s*\d)"
_NAMED = re.compile(r"response\W{0,4}(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\W*(\d+)\W*")
_MAX_SHOWN = 120  # characters of an answer in messages
_MIN_LOGPROB, _MAX_LOGPROB = -1e6, 1e-3
_MAX_DIGIT = 9


@dataclass(frozen=True)
class Scale:
    """The range of scores, and the pattern that finds the score in an answer."""

    lowest: int
    highest: int
    pattern: re.Pattern[str]

    @property
    def is_of_digits(self) -> bool:
        """Whether every score is a single digit, hence one token in every tokenizer."""
        return self.highest <= _MAX_DIGIT

    @property
    def grammar(self) -> str:
        """The grammar of a score, in GBNF."""
        if self.is_of_digits:
            return f"root ::= [{self.lowest}-{self.highest}]"
        return f"root ::= [0-9]{' [0-9]?' * (len(str(self.highest)) - 1)}"

    def read(self, choice: Choice) -> float:
        """The expected score if token probabilities are known, else the score in the answer."""
        match = self.pattern.search(choice.text or "")
        written = _number(match and _group(match))
        if match is None or not self.lowest <= written <= self.highest:
            raise InputError(f"the judge answered {shown(choice)}, expected a score from "
                             f"{self.lowest} to {self.highest}; check the prompt, the pattern "
                             "`answer`, and max_tokens")
        expected = self._expected(choice, match) if self.is_of_digits else None
        return written if expected is None else expected

    def _expected(self, choice: Choice, found: re.Match[str]) -> float | None:
        """The mean score under the token probabilities; None if they are unknown."""
        place = found.start(1 if found.re.groups else 0)
        token = _token_at(choice, place)
        if token is None or str(token["token"]).strip() != _group(found):
            return None
        chances: dict[int, float] = {}
        for text, logprob in _alternatives(token).items():
            score = text.strip()
            if re.fullmatch("[0-9]", score) and self.lowest <= int(score) <= self.highest:
                chances[int(score)] = chances.get(int(score), 0.0) + math.exp(logprob)
        total = sum(chances.values())
        return sum(score * chance for score, chance in chances.items()) / total if total else None


def candidate_grammar(count: int) -> str:
    """The grammar of the name of a candidate, in GBNF."""
    numbers = " | ".join(f'"{number}"' for number in range(1, count + 1))
    return f'root ::= "Response " ({numbers})'


def read_candidate(choice: Choice, count: int) -> float:
    """The number, from 1, of the candidate that an answer names."""
    text = choice.text or ""
    match = _NAMED.search(text) or _NUMBER.fullmatch(text)
    number = int(match[1]) if match and len(match[1]) < 9 else 0
    if not 1 <= number <= count:
        raise InputError(f"the judge answered {shown(choice)}, expected the number of one of "
                         f"{count} candidates, such as 'Response 1'")
    return float(number)


def shown(choice: Choice) -> str:
    """An answer, shortened for messages."""
    if choice.text is None:
        return f"without a text ({choice.problem})"
    return repr(choice.text if len(choice.text) <= _MAX_SHOWN
                else f"{choice.text[:_MAX_SHOWN]}...")


def _group(found: re.Match[str]) -> str:
    text: str | None = found[1] if found.re.groups else found[0]
    return text or ""


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _token_at(choice: Choice, place: int) -> Mapping[str, Any] | None:
    """The token of the answer that contains the character at this position."""
    tokens = [token for token in _tokens(choice) if isinstance(token.get("token"), str)]
    start = "".join(token["token"] for token in tokens).find(choice.text or "")
    if start < 0:
        return None
    place += start  # servers strip leading white space from the text
    for token in tokens:
        if place < len(token["token"]):
            return token
        place -= len(token["token"])
    return None


def _tokens(choice: Choice) -> Iterable[Mapping[str, Any]]:
    logprobs = choice.raw.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return (token for token in (content if isinstance(content, list) else ())
            if isinstance(token, dict))


def _alternatives(token: Mapping[str, Any]) -> dict[str, float]:
    """The log-probabilities of the alternatives to a token, by text."""
    others = token.get("top_logprobs")
    entries = [token, *(others if isinstance(others, list) else ())]
    return {entry["token"]: float(entry["logprob"]) for entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("token"), str)
            and _is_logprob(entry.get("logprob"))}


def _is_logprob(value: Any) -> bool:
    """Whether a value is a valid log-probability; servers write -9999 for unknown ones."""
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and _MIN_LOGPROB <= value <= _MAX_LOGPROB)


_TABLE = "CREATE TABLE IF NOT EXISTS answers (question BLOB PRIMARY KEY, value REAL) WITHOUT ROWID"


class AnswerCache:
    """The parsed answers, by question, so that no request is paid for twice."""

    def __init__(self, path: str) -> None:
        self._cache = SqliteCache(path, _TABLE)

    def find(self, questions: Sequence[bytes]) -> dict[bytes, float]:
        rows = self._cache.find("SELECT question, value FROM answers WHERE question", questions)
        return {question: value for question, value in rows
                if isinstance(value, float) and math.isfinite(value)}

    def add(self, question: bytes, value: float) -> None:
        """Written immediately, so that an interrupt does not lose answers that were paid for."""
        self._cache.write("INSERT OR REPLACE INTO answers VALUES (?, ?)", [(question, value)])


def question(*parts: Any) -> bytes:
    """The key of a question: a hash of everything that its answer depends on."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).digest()


answer_cache = cache(AnswerCache)  # one per path
