"""Support for torch and transformers: devices, loading without foreign code, weights, batches.

Metrics and samplers that need torch import from here; the core never does. Whatever comes from a
model's files is data: no code of theirs is run, nobody is asked anything on standard input, and
nothing is printed to standard output.
"""
