"""The suffix of the ids of forks."""

MARK = "-fork"
"""Suffix of the id of each fork, so that a listing need not read the origin of every run."""
