"""The parts of a run's page: each is a pure function from a stored run to JSON values."""
