"""Votes: two texts agree if their answers do."""
