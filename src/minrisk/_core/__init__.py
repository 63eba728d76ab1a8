"""Plain data, what metrics, strategies and samplers must offer, and their names. NumPy only."""
