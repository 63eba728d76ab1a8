"""One segment whose references come in shards: workers read them, and what they say is added up.

Parts are added in the order of the shards, whoever finished first: the number of workers changes
no bit of the result.
"""

from __future__ import annotations

import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from operator import length_hint
from typing import TypeVar

from minrisk.errors import InputError, MinriskError
from minrisk.progress import tell
from minrisk.references import Shard
from minrisk.shards import Part, Question
from minrisk.threads import set_threads, threads

T = TypeVar("T")
U = TypeVar("U")

Workers = Callable[[Question, Iterable[Shard]], Iterator[Part]]  # a part per shard, in order
AHEAD = 2  # shards for each worker, so that none of them waits for the next


def gather(question: Question, shards: Iterable[Shard], workers: Workers) -> Part:
    """What all shards say."""
    total: Part | None = None
    for number, part in enumerate(workers(question, shards), 1):
        total = part if total is None else total + part
        tell("shards", number, max(number, length_hint(shards)))
    if total is None:
        raise InputError("no shards of references; at least one is wanted")
    return total


def alone(question: Question, shards: Iterable[Shard]) -> Iterator[Part]:
    """In this process, one after the other."""
    return map(question.part, shards)


def processes(count: int) -> Workers:
    """So many processes of this machine, among which they share its cores."""
    return partial(_in_processes, count=count) if count > 1 else alone


def _in_processes(question: Question, shards: Iterable[Shard], count: int) -> Iterator[Part]:
    # here, for they are slow to import
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    pickled, cores = pickle.dumps(question), max(1, threads() // count)
    # spawned: a fork would inherit locks that other threads hold; Ctrl-C ends them without a word
    pool = ProcessPoolExecutor(count, get_context("spawn"), signal.signal,
                               (signal.SIGINT, signal.SIG_DFL))
    try:
        yield from in_order(lambda shard: pool.submit(part_of, pickled, cores, shard).result,
                            shards, AHEAD * count)
    except BrokenProcessPool:
        raise MinriskError("a worker process was killed, perhaps for want of memory; "
                           "use fewer workers, or smaller shards") from None
    finally:
        pool.shutdown(cancel_futures=True)


def part_of(pickled: bytes, cores: int, shard: Shard) -> Part:
    """What a worker does; it may use so many cores."""
    set_threads(cores)
    return _question(pickled).part(shard)


@lru_cache(maxsize=1)
def _question(pickled: bytes) -> Question:
    """The features of the hypotheses are extracted once per worker."""
    question: Question = pickle.loads(pickled)
    return question


def in_order(start: Callable[[T], Callable[[], U]], items: Iterable[T], ahead: int) -> Iterator[U]:
    """The results of what was started, in order; only so much is started ahead of them."""
    waiting: deque[Callable[[], U]] = deque()
    for item in items:
        waiting.append(start(item))
        if len(waiting) == ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()
