"""Runs: records go from a reader through stages into a sink, in this process or on workers.

`driver` executes a run from its job to its output, `options` has the users' options, `stages` the
processing of records, `workers` what all engines share. The engines are `Inline` (in `workers`)
and those of `ENGINES` (in `options`).
"""
