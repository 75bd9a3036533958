"""Evals: sets of questions with checks of the outcomes, and comparisons of two versions of a specialist."""
