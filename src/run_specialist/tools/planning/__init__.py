"""Tools that only record texts of a model: the plan of a run, and thoughts."""
