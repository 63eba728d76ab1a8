"""Batches of prompts through a sampler, and of segments through a strategy.

Knows nothing of files and metrics.
"""

from minrisk.engine.ranking import run
from minrisk.engine.sampling import draw

__all__ = ["draw", "run"]
