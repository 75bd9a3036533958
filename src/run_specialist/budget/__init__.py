"""Limits, what is spent of them, and what follows when they are. Pure values."""
