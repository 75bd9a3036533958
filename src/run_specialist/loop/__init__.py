"""The loop of one run, and each thing that a turn touches."""
