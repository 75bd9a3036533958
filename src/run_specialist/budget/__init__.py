"""Limits of a run, their spending, and the landing when one is reached. No I/O."""
