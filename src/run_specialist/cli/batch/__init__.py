"""The commands for batches."""
