"""Batches of prompts through a sampler and of segments through a strategy, here or on many workers.

`ranking` and `sampling` work in this process. A `Pipeline` takes blocks of shards through stages,
on the processes of `local` or the cluster of `ray`. Knows nothing of metrics.
"""
