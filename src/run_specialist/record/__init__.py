"""Frozen values that a run exchanges and stores: messages, events, outcome, journal records."""
