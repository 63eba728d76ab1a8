"""Samplers: local models and OpenAI-compatible endpoints."""
