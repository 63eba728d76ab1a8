"""Evaluation: corpus scores of system outputs, and strategies compared with exact MBR."""
