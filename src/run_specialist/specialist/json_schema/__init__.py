"""Check JSON Schemas and validate answers."""
