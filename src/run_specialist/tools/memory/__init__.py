"""The notes that a specialist keeps from run to run."""
