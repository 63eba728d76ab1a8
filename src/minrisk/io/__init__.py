"""Input and output: texts to segments, rankings to text; independent of metrics and strategies."""
