"""Batches of segments through a strategy. Knows nothing of files and metrics."""

from minrisk.engine.local import run

__all__ = ["run"]
