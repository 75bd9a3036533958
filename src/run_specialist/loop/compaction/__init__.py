"""Shortening a transcript that has grown too long."""
