"""How well something works: scores of whole outputs, and strategies against exact MBR."""
