"""Checks of JSON Schemas, and the schema of an answer."""
