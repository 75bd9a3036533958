"""The rules by which the API refuses requests, one file per subject."""
