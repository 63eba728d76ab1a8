"""Majority votes: a score is 1 if two texts give the same answer, else 0."""
