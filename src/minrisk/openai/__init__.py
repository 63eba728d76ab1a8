"""The asynchronous client for servers with OpenAI's protocol, which every caller uses."""
