"""Evaluators: the checks that can be applied to a run."""
