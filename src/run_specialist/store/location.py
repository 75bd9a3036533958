"""The location of a store: its URL or path, and how it is shown; the constants that identify a store."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import StoreUnusable

LAST = "last"
"""Alias for the newest run that has no parent."""
NONE = "none"
"""The value that disables storing."""
VARIABLE = "SPECIALIST_STORE"
"""Environment variable with the store, unless a flag sets it."""
ELSEWHERE = "choose another store with `store`"
"""Advice in errors about a store that cannot be used."""
FOLDER = "run-specialist"
"""Folder of the default store; contains no files of other programs."""

_SQLITE = "sqlite:///"
_SCHEMES = ("sqlite:", "postgresql:", "postgres:")
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET_OPTION = re.compile(r"([?&][^=&]*pass[^=&]*=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """Where to store runs."""

    url: str
    """URL of the store, with an absolute path for an SQLite file; `none` = runs are not stored."""
    named: bool
    """True if the user chose the store; a default store that cannot be used must not fail the run."""


def place(given: str | None) -> Location:
    """Return the store to use: `given`, else SPECIALIST_STORE, else a file in the user's data directory.

    given: a URL, the path of an SQLite file, or `none`; an empty string counts as None.
    """
    named = given or os.environ.get(VARIABLE)
    if not named:
        return Location(f"{_SQLITE}{(default_folder() / 'runs.db').absolute()}", named=False)
    if named.lower() == NONE:
        return Location(NONE, named=True)
    if "://" in named or named.startswith(_SCHEMES):
        path = file_of(named)
    else:
        # Shells do not expand the tilde in `--store=~/runs.db`; that of an unknown user stays unchanged.
        path = Path(os.path.expanduser(named)).absolute()  # noqa: PTH111 - Path.expanduser would raise
    return Location(named if path is None else f"{_SQLITE}{path}", named=True)


def default_folder() -> Path:
    """Return the folder of the default store, in the user's data directory."""
    import platformdirs  # noqa: PLC0415 - 20 ms, needed only for the default

    return platformdirs.user_data_path(FOLDER, appauthor=False)


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite URL; None for an in-memory database and for any other URL."""
    file = url.removeprefix(_SQLITE)
    return None if file in {url, "", ":memory:"} else Path(file).absolute()


def shown(url: str) -> str:
    """Return the name of a store for people: the path of an SQLite file, else the URL with passwords masked."""
    path = file_of(url)
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url)) if path is None else str(path)


def newer_version_error(shown: str, version: int) -> StoreUnusable:
    """Return the error for a store that a newer version has written."""
    return StoreUnusable(
        f"{shown} was written by a newer run-specialist (its tables are of version {version}, this one knows "
        f"{VERSION}); update run-specialist, or {ELSEWHERE}"
    )


VERSION = 1
"""Version of the tables: the number of revisions in `migrations`."""
APPLICATION_ID = 0x52537031
"""SQLite `application_id` of the stores; also the advisory lock for their creation on PostgreSQL."""
NAMESPACE = "run_specialist"
"""PostgreSQL schema of the tables; avoids conflicts with other tables named `runs`."""
