"""`minrisk.decode_parts`: ranks hypotheses by references that come in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minrisk._core.decoding import MetricLike, StrategyLike, add_texts, resolve_strategy
from minrisk._core.errors import InputError, brief
from minrisk._core.reference_parts import PartsDecoder
from minrisk._core.segment import Ranking, ReferencePart, References, Segment
from minrisk.run.options import EngineName, WorkerOptions, reads_remotely
from minrisk.run.references import as_parts_strategy, sum_parts


def decode_parts(
    hypotheses: Sequence[str],
    parts: Iterable[Sequence[str] | ReferencePart],
    source: str | None = None,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    workers: int | None = None,
    engine: EngineName | None = None,
    address: str | None = None,
    gpus_per_worker: float | None = None,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by references that come in parts, so that not all must fit into memory.

    Utilities equal those of `decode` except for rounding, because the order of summation differs.
    They are bit-identical for any number of workers.

    Args:
        hypotheses: the texts that may be chosen.
        parts: the references: lists of texts, `References` with weights or counts, or files
            (`ReferenceFile`), which the workers read.
        source: the source text, for metrics that need it.
        metric: a metric, its name or class, or a function of hypothesis and reference; default:
            chrF.
        strategy: "aggregate" (default) or "standard", or an object of these strategies.
        workers: number of workers; default: none, this process does the work.
        engine: where the workers run, as in `decode_corpus`; "local" has one per core unless
            `workers` says otherwise.
        address: address of the Ray cluster; default: a temporary one on this machine.
        gpus_per_worker: number of GPUs of each worker; may be a fraction.
        options: options of a strategy that is given by name or class.

    Returns:
        The ranking of all hypotheses, best first.

    Raises:
        InputError: if there are no references, some have weights and others none, or the strategy
            needs all references at once.

    >>> import minrisk
    >>> hypotheses = ["the cat sat", "a dog ran"]
    >>> ranking = minrisk.decode_parts(hypotheses, [["the cat sat down"], ["a cat sat", "dogs"]])
    >>> ranking.text
    'the cat sat'
    """
    chosen = resolve_strategy(strategy, metric, options, "aggregate")
    decoder = PartsDecoder(as_parts_strategy(chosen), Segment(hypotheses, source=source))
    config = WorkerOptions(workers, engine, address, gpus_per_worker)
    blocks: Iterable[ReferencePart] = _blocks(parts)
    if reads_remotely(engine):
        blocks = tuple(blocks)
    ranking = decoder.ranking(sum_parts(decoder, blocks, config))
    return add_texts(ranking, decoder.segment, chosen)


def _blocks(parts: Iterable[Sequence[str] | ReferencePart]) -> Iterator[ReferencePart]:
    """Split parts in memory into blocks, so that one large part keeps all workers busy."""
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise InputError(f"parts must be a list of lists of references; got {brief(parts)}")
    for number, part in enumerate(parts, 1):
        references = (part if isinstance(part, ReferencePart)
                      else References(part, name=f"part {number}"))
        yield from references.blocks() if isinstance(references, References) else [references]
