"""Text in, segments out; rankings in, text out. Knows nothing of metrics and strategies."""
