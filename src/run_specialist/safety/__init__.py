"""Open, replace, create and delete files below a folder without following symlinks."""
