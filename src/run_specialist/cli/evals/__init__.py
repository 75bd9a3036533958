"""The command `specialists eval`."""
