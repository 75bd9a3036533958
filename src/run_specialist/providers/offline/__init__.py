"""A researcher that is no language model: it searches, reads around the hits, and answers in quotes."""
