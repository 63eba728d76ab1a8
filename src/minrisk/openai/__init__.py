"""The asynchronous client for OpenAI-compatible servers."""
