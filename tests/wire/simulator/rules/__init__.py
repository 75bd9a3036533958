"""The rules by which the API refuses requests, a file for each subject."""
