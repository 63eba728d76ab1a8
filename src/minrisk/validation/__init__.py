"""Every strategy at every budget against standard MBR, on samples and a metric of one's own."""
