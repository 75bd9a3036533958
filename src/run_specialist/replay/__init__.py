"""Replay: run a stored run through the loop again, without network, and find the first difference."""
