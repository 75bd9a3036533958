"""Tools that only keep texts of a model: the plan of a run, and thoughts."""
