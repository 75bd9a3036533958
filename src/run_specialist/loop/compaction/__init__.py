"""Compaction: shorten a transcript that has grown too long."""
