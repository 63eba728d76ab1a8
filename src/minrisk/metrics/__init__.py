"""One file per metric. Metrics know nothing of strategies, files or the command line."""
