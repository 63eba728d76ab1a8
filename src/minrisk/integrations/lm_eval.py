"""A filter of lm-evaluation-harness that distils the responses of `repeats` to one.

    repeats: 16
    filter_list:
      - name: mbr
        filter:
          - function: !function minrisk.integrations.lm_eval.ConsensusFilter
            metric: chrf
          - function: take_first

The harness looks for no plug-ins: `!function` imports this one. In Python, an import registers it
as `minrisk_consensus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minrisk._core.decoding import METRIC, StrategyLike
from minrisk._core.errors import InputError, needs_extra, unknown
from minrisk.integrations.chooser import Chooser, report
from minrisk.io.formats import json_line

with needs_extra("minrisk.integrations.lm_eval", "lm-eval"):
    from lm_eval.api.filter import Filter
    from lm_eval.api.registry import register_filter


@register_filter("minrisk_consensus")
class ConsensusFilter(Filter):
    """Keeps the best response of each document, as a list of one: what follows is `take_first`.

    The harness logs the response only; `output` is a file for the choices, their votes and their
    confidence, as JSON lines. If a choice abstains, the response is empty.

    Args:
        metric, strategy, metric_options, options: as for `minrisk.decode_corpus`.
        source: the field of a document with the source, for metrics that need it.
        output: a file to write.

    Raises:
        InputError: if a name or an option is wrong.
    """

    def __init__(self, metric: str = METRIC, strategy: StrategyLike | None = None,
                 metric_options: Mapping[str, Any] | None = None, source: str | None = None,
                 output: str | None = None, **options: Any) -> None:
        super().__init__()
        self._choose = Chooser(metric, strategy, metric_options, **options)
        self._source = source
        self._output = output

    def apply(self, resps: Iterable[Sequence[str]],
              docs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        resps = list(resps)
        if any(isinstance(texts, str) for texts in resps):
            raise InputError("found one response for each document, expected those of all "
                             "repeats; put this filter before take_first")
        if (name := self._source) is not None and (found := [d for d in docs if name not in d]):
            raise unknown("field of the documents", name, found[0])
        sources = [None if name is None else doc[name] for doc in docs]
        chosen = list(self._choose.each(zip(resps, sources, strict=True)))
        if self._output is not None:
            with open(self._output, "w", encoding="utf-8") as file:
                file.writelines(json_line({"id": found.id, "text": found.text, **report(found)})
                                for found in chosen)
        return [[found.text or ""] for found in chosen]
