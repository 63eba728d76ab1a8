"""Records from a source through stages into a sink, by a runner: in this process or on workers.

`run` is the way that every command goes, `stages` sample and choose, and the runners are `runner`
(this process), `processes` and `ray`.
"""
