"""The tools `edit` and `write`, which change files below the root, and undoing their changes."""
