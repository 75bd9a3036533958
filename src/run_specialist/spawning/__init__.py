"""From a specialist and a question to a job."""
