"""The loop of one run, and the parts of a turn."""
