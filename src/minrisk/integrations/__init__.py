"""Evaluators and frameworks that keep the best of many samples by minrisk, one module for each."""
