"""Metrics, one file or folder each; they know nothing of strategies, files or the command line."""
