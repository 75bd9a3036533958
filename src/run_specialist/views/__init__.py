"""Evaluations of stored runs: the HTML report of one run, and the tuning of a specialist's limits."""
