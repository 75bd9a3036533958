"""The sections of a run's HTML report; each is a pure function from a stored run to JSON values."""
