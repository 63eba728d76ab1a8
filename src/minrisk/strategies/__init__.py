"""Decoding strategies, one file each: they choose groups or rows, whatever the metric is."""
