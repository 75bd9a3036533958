"""A researcher without a language model: it searches, reads the context of the hits, and answers in quotes."""
