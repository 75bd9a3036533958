"""Locate the user's home folder, and the folder for configuration of programs."""

import os
from pathlib import Path


def home_path(path: str) -> Path:
    """Return a path with `~` replaced; it is not absolute if there is no home folder."""
    # Path.expanduser raises if there is no home folder; here a path that does not exist is sufficient.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def config_folder() -> Path:
    """Return the folder in which programs keep their configuration; not absolute if there is no home folder."""
    config = home_path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path would point into the current project, whose files must not be trusted like the user's own.
    return config if config.is_absolute() else home_path("~/.config")
