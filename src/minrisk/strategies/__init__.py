"""Decoding strategies: they choose groups or rows, independently of the metric."""
