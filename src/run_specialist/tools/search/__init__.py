"""Ranked full-text search in text files."""
