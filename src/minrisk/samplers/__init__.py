"""Where samples come from: models and endpoints."""
