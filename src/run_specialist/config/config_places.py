"""Locate the config files."""

import os
import sys
from pathlib import Path

from run_specialist.specialist.project import user_folder

VARIABLE = "SPECIALIST_CONFIG"
"""Environment variable with the user's config file; `none` = read no config file at all."""
NONE = "none"
PROJECT_FILE = "pyproject.toml"

_USER_FILE = "config.toml"


def is_off() -> bool:
    """Return whether config files are switched off."""
    return os.environ.get(VARIABLE, "").strip().lower() == NONE


def user_files() -> tuple[Path, ...]:
    """Return the possible places of the user's file; the first existing one is read."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return (Path(os.path.abspath(os.path.expanduser(named))),)  # noqa: PTH100, PTH111 - never raise
    folders = [user_folder()]
    if sys.platform in ("darwin", "win32"):
        import platformdirs  # noqa: PLC0415 - takes 20 ms; elsewhere it gives the same folder

        folders.append(platformdirs.user_config_path("run-specialist", appauthor=False))
    return tuple(dict.fromkeys(folder / _USER_FILE for folder in folders if folder.is_absolute()))


def is_named() -> bool:
    """Return whether the environment names the user's file, which must then exist."""
    return bool(os.environ.get(VARIABLE, "").strip()) and not is_off()


def near(path: Path) -> str:
    """Return a path for messages: relative to the current folder, or with `~` for the home folder, if possible."""
    try:
        if path.is_relative_to(Path.cwd()):
            return str(path.relative_to(Path.cwd()))
        return f"~/{path.relative_to(Path.home())}"
    except (OSError, RuntimeError, ValueError):  # no current folder, no home folder, or somewhere else
        return str(path)
