"""Replay: a stored run once more through the loop, without network, and the first difference."""
