"""Workers for one stage of the work: how many, with what, and what each of them does."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from time import perf_counter

from minrisk.engine.block import Block, Done
from minrisk.engine.stages import Stage
from minrisk.threads import set_threads


@dataclass(frozen=True)
class Crew:
    """What is not given is for the engine to choose."""

    stage: Stage
    workers: int | None = None
    threads: int | None = None  # of each worker
    gpus: float = 0.0  # for each worker
    quiet: bool = False

    def prepare(self) -> None:
        """For a process that now belongs to it."""
        set_threads(self.threads)
        if self.quiet:
            warnings.simplefilter("ignore")

    def work(self, block: Block) -> Block | Done:
        start = perf_counter()
        try:
            made = self.stage(block)
        except Exception as error:  # of our own; a days-long run should not end with it
            made = self.refuse(block, f"{type(error).__name__}: {error}")
        return replace(made, seconds=block.seconds | {self.stage.name: perf_counter() - start})

    def refuse(self, block: Block, reason: str) -> Block | Done:
        """Where no worker survives the block."""
        return self.stage.refusing(reason)(block)
