"""The pipeline: records go from a reader through stages into a sink, in this process or on workers.

`run` drives it, `stages` sample and decode, and the runners are `runner` (this process),
`processes` and `ray`.
"""
