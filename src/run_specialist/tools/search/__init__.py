"""Ranked search in text files."""
