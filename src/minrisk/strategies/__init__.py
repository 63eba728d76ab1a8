"""One file per strategy. A strategy chooses groups or rows and never looks inside a metric."""
