"""The commands `run-specialist` and `specialists`."""
