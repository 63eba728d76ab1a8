"""Plain data, the interfaces of metrics, strategies and samplers, and their names. NumPy only."""
