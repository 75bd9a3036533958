"""The combined settings of the config files of a project and of its user."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from run_specialist.config import config_places
from run_specialist.config.config_file import ConfigFile, read_project_file, read_user_file
from run_specialist.config.config_keys import KEYS
from run_specialist.errors import UsageError
from run_specialist.specialist.defaults import Default, Defaults
from run_specialist.specialist.origins import rule, stricter


@dataclass(frozen=True, slots=True)
class Config:
    """The values of all config files."""

    files: tuple[ConfigFile, ...] = ()
    """Files in order of precedence, missing ones included."""
    project: Path | None = None
    """The project; None if only the user's file was read."""

    @property
    def values(self) -> Mapping[str, Default]:
        """The effective value of each key; the project takes precedence over the user, but cannot raise a limit."""
        values: dict[str, Default] = {}
        for file in reversed(self.files):
            for key, value in file.values.items():
                own = values.get(key)
                values[key] = value if own is None or own.scope == value.scope else _of_project(key, value, own)
        return values

    def get(self, key: str) -> Any:  # noqa: ANN401 - as the key
        """Return the value of a key that no environment variable overrides; None if there is none."""
        found = self.values.get(key)
        variable = KEYS[key].variable
        return None if found is None or (variable and os.environ.get(variable)) else found.value

    @property
    def defaults(self) -> Defaults:
        """The settings and the model for specialists whose files do not contain them."""
        settings = {key: value for key, value in self.values.items() if KEYS[key].kind == "setting"}
        return Defaults(settings, self.get("model"))

    @property
    def ignored(self) -> tuple[str, ...]:
        """A line for each file that exists but must not be used."""
        return tuple(f"{config_places.near(file.path)}: ignored, {file.reason}" for file in self.files if file.reason)

    @property
    def capped(self) -> tuple[str, ...]:
        """A line for each limit of the project that is not used because the user's own one is stricter."""
        values, project = self.values, [file for file in self.files if file.scope == "project"]
        return tuple(
            f"{config_places.near(given.path)}:{given.line}: {key}: your own value holds, because a project cannot "
            f"loosen it: {config_places.near(values[key].path)}:{values[key].line}"
            for file in project
            for key, given in file.values.items()
            if values[key] is not given and values[key].scope == "user"
        )


def _of_project(key: str, value: Default, own: Default) -> Default:
    """Return the value of a key that both files have."""
    if rule(key, "project") == "lower" and stricter(_plain(key, value), _plain(key, own)) != _plain(key, value):
        return own
    return replace(value, users=own)


def _plain(key: str, given: Default) -> Any:  # noqa: ANN401 - a number, None for no limit, or a switch
    if KEYS[key].kind != "setting":
        return given.value
    # Imported here, because it loads pydantic.
    from run_specialist.specialist.resolve import checked  # noqa: PLC0415

    return getattr(checked({key: given.value}), key)


def read_config(project: Path, *, meant: bool = False) -> Config:
    """Read the config files that apply to a project.

    meant: whether the user named the project, which may then belong to another user.
    Raises UsageError with one line for each problem.
    """
    if config_places.is_off():
        return Config((), project)
    ours = read_project_file(project / config_places.PROJECT_FILE, project, meant=meant)
    return _without_problems(Config((ours, *_user_files()), project))


def read_user_config() -> Config:
    """Read the config file of the user only, for keys that a project cannot set; raises UsageError as `read_config`."""
    return Config() if config_places.is_off() else _without_problems(Config(_user_files()))


def _without_problems(config: Config) -> Config:
    problems = [line for file in config.files for line in file.problems]
    if problems:
        problems.append(f"or set {config_places.VARIABLE}={config_places.NONE} to read no config file")
        raise UsageError("\n".join(problems))
    return config


def _user_files() -> tuple[ConfigFile, ...]:
    """Return the places that were tried, up to the first file that exists."""
    tried: list[ConfigFile] = []
    for path in config_places.user_files():
        tried.append(read_user_file(path))
        if tried[-1].state != "missing":
            break
    if config_places.is_named() and tried and tried[-1].state == "missing":
        raise UsageError(f"{config_places.VARIABLE}: {tried[-1].path} does not exist")
    return tuple(tried)
