"""How the ids of forks end."""

MARK = "-fork"
"""Ends the id of each fork, so that a listing need not read what all runs store about their origin."""
