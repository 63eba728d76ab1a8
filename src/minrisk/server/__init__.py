"""OpenAI's protocol for clients: the best of n samples by Minimum Bayes Risk, as one completion."""
