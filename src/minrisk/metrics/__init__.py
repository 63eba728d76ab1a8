"""Metrics; they are independent of strategies, files and the command line."""
