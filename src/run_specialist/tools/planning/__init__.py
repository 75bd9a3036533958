"""Tools that only keep what a model writes: the plan of a run, and thoughts."""
