"""The calls of `minrisk` for whole corpora: what the commands do, in Python."""
