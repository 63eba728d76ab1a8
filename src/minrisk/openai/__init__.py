"""Servers with OpenAI's protocol, asynchronously: one client for all that talks to them."""
