"""A JSON answer that is composed of the samples, not picked among them.

Self-consistency votes on whole answers; when each sample errs in another field, none is right
everywhere, but the vote on each field may be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minrisk._core.errors import InputError, Wording, needs_extra
from minrisk._core.json_values import NOTHING, find_json, leaves, written
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import MeanUtility, PoolStrategy
from minrisk.strategies._composition import Ballot, Composer, Lists, Numbers

_MAX_VALUES = 50_000  # in all distinct samples; more take too long
_DIGITS = 9  # of utilities relative to the largest; smaller differences are ties


@dataclass(frozen=True)
class Compose(MeanUtility, PoolStrategy):
    """A JSON answer composed of the consensus of the samples in each field.

    Strings, booleans and numbers are decided by a majority vote, weighted like the references; a
    field is null or missing only where most samples say so. The elements of lists are voted on one
    by one, and objects in lists are first aligned: by keys, or so that their fields agree most. Of
    equal votes, the better sample decides. The answer is kept if its expected utility, before
    medians replace numbers, is at least that of the best sample, and if a schema allows it;
    otherwise the best sample is the answer.

    Args:
        metric: the metric that judges hypotheses and the answer, such as `json-match` by field.
        schema: JSON schema of answers, or a file that contains it; needs minrisk[json].
        numbers: choose the most frequent number ("vote") or the "median".
        lists: vote on lists element by element ("elements") or as a "whole".
        keys: fields that identify objects in lists, such as "id,name". Objects stand for the same
            if these agree.

    Raises:
        InputError: if the schema is not valid.

    >>> import minrisk
    >>> samples = ['{"a": 1, "b": 5}', '{"a": 1, "b": 2, "c": 4}', '{"a": 6, "b": 2}']
    >>> strategy = minrisk.Compose(minrisk.JsonMatch(by="field"))
    >>> minrisk.decode(samples, strategy=strategy).text
    '{"a":1,"b":2}'
    """

    name = "compose"
    cost = "n · m pairs, and m for the answer"
    approximates_standard = False
    proposes = True

    schema: str | None = option(None)
    numbers: Numbers = option("vote")
    lists: Lists = option("elements")
    keys: str | None = option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._schema

    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        ranking = pool.ranking(pool.utility())
        ballots = _ballots(pool.segment, ranking)
        if isinstance(ballots, str):
            return pool.with_proposal(ranking, None, ballots)
        values = [*ballots.values()]
        composer = Composer(self.numbers, self.lists, self._keys)
        value = composer.compose(values)
        text = written(value, sort_keys=False)
        best = find_json(pool.segment.hypotheses[ranking.best])
        if best is not NOTHING and written(value) == written(best):
            reason: str | None = "the proposal is the best sample"
        else:
            reason = None if self._schema is None else violation(self._schema, text)
        # metrics of equal fields prefer the most frequent number, which is not what was asked for
        frequent = None if self.numbers == "vote" else written(
            Composer("vote", self.lists, self._keys).compose(values), sort_keys=False)
        return pool.with_proposal(ranking, text, reason, composer.shares, frequent)

    @property
    def _keys(self) -> list[str]:
        return [key.strip() for key in (self.keys or "").split(",") if key.strip()]

    @lazy
    def _schema(self) -> Mapping[str, Any] | bool | None:
        return None if self.schema is None else read_schema(self.schema)


def _ballots(segment: Segment, ranking: Ranking) -> dict[str, Ballot] | str:
    """The distinct values of the references with their weights, those of better samples first; or
    why there are none. The keys are the values in canonical form.
    """
    scale = float(np.abs(ranking.utility).max()) or 1.0
    utility = {text: round(float(value) / scale, _DIGITS) for text, value
               in zip(segment.hypotheses, ranking.utility, strict=True)}
    weights: dict[str, float] = {}
    for text, weight in zip(segment.references, segment.weights.tolist(), strict=True):
        weights[text] = weights.get(text, 0.0) + weight
    found, size = [], 0
    for text, weight in weights.items():
        value = find_json(text)
        if value is NOTHING or not weight:
            continue
        size += sum(1 for _ in leaves(value))
        if size > _MAX_VALUES:
            return f"the samples have more than {_MAX_VALUES:,} values"
        found.append((-utility.get(text, -np.inf), written(value), text, value, weight))
    found.sort(key=lambda one: one[:3])  # so that the order of the samples does not matter
    merged: dict[str, Ballot] = {}
    for _, name, _, value, weight in found:
        first, known = merged.get(name, (value, 0.0))
        merged[name] = first, known + weight
    return merged or "no sample has a JSON value"


def read_schema(given: str) -> Mapping[str, Any] | bool:
    """A JSON schema from its text, or from a file.

    Raises:
        InputError: if it is not valid.
    """
    text = given
    if not given.lstrip().startswith("{"):
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(Wording("schema={given!r}; expected a JSON schema, or a file that "
                                     "contains it: {error}", given=given[:80],
                                     error=error)) from None
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Wording("schema={given!r} is not JSON: {error}", given=given[:80],
                                 error=error)) from None
    if (problem := schema_problem(schema)) is not None:
        raise InputError(Wording("schema={given!r} is not a JSON schema: {problem}",
                                 given=given[:80], problem=problem))
    found: Mapping[str, Any] | bool = schema
    return found


def schema_problem(schema: Any) -> str | None:
    """Why this is no JSON schema; None if it is one."""
    if not isinstance(schema, dict | bool):
        return f"found {type(schema).__name__}, expected an object"
    import_jsonschema()
    try:
        _validator(schema).check_schema(schema)
    except Exception as error:  # hostile schemas raise anything
        return f"{type(error).__name__}: {getattr(error, 'message', error)!s:.200}"
    return None


def violation(schema: Mapping[str, Any] | bool, text: str) -> str | None:
    """Where a JSON text breaks the schema; None if the schema allows it."""
    import_jsonschema()
    try:
        error = next(_validator(schema).iter_errors(json.loads(text)), None)
    except Exception as failure:  # unknown references, invalid patterns, numbers that overflow
        return f"the schema cannot be applied ({type(failure).__name__})"
    return None if error is None else (
        f"the schema does not allow {error.json_path} ({error.validator})")


def import_jsonschema() -> None:
    """Raise MissingExtra if the package is not installed."""
    with needs_extra("a JSON schema", "json"):
        import jsonschema  # noqa: F401


def _validator(schema: Mapping[str, Any] | bool) -> Any:
    """A validator that never loads schemas that others refer to."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    made: Any = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
    return made
