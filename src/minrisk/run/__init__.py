"""Runs: records go from a reader through stages into a sink, in this process or on workers.

`driver` has the run from its job to its output, `options` what users say of it, `stages` what
happens to records, `workers` what every engine has; the engines are there (`Inline`), in
`processes` and in `ray`.
"""
