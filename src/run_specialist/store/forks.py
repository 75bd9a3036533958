"""Runs that begin with the first turns of another run."""

MARK = "-fork"
"""Ends the id of each fork, so that a listing need not read what all runs store about their origin."""
