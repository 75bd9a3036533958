"""Evaluators: what can be checked of a run."""
