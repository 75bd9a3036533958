"""Build the job of a run from a specialist and a question."""
