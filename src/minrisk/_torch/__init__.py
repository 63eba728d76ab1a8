"""Support for torch and transformers: devices, safe loading, weights, tokenization, batches.

Metrics and samplers that need torch import from here; the core never does. A model's files are
treated as data: none of their code is run, there are no prompts on standard input, and nothing is
printed to standard output.
"""
