"""Frozen values: messages, events, the outcome, the journal."""
