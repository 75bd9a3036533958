"""The tools `edit` and `write`, which change files below the root, and taking their changes back."""
