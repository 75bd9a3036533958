"""Read the items of a batch, and make their questions."""
