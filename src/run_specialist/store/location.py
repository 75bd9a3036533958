"""Which store is meant, and how it is named to people; asked at every start, so without any database library."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from run_specialist.errors import StoreUnusable
from run_specialist.store.identity import VERSION

NONE = "none"
"""The word that turns storing off."""
VARIABLE = "SPECIALIST_STORE"
"""Names the store where no flag does."""
ELSEWHERE = "name another store with --store"
"""The way out where a store cannot be used."""
FOLDER = "run-specialist"
"""The folder of the default store, which holds nothing of anybody else."""

_SQLITE = "sqlite:///"
_SCHEMES = ("sqlite:", "postgresql:", "postgres:")
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET_OPTION = re.compile(r"([?&][^=&]*pass[^=&]*=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """Where runs are to be kept."""

    url: str
    """With an absolute path where it is an SQLite file; `none` where nothing is to be stored."""
    named: bool
    """True when somebody named it; a default that cannot be used is not worth stopping for."""


def place(given: str | None) -> Location:
    """Return the store to use: the one given, that of SPECIALIST_STORE, or a file in the user's data directory.

    given: a URL, the path of an SQLite file, or `none`; empty counts as not given.
    """
    named = given or os.environ.get(VARIABLE)
    if named:
        return Location(_url(named), named=True)
    import platformdirs  # noqa: PLC0415 - 20 ms that only the default costs

    folder = platformdirs.user_data_path(FOLDER, appauthor=False)
    return Location(f"{_SQLITE}{(folder / 'runs.db').absolute()}", named=False)


def _url(named: str) -> str:
    if named.lower() == NONE:
        return NONE
    if "://" not in named and not named.startswith(_SCHEMES):
        # Shells leave the tilde of `--store=~/runs.db` as it is; of an unknown user so does this.
        return f"{_SQLITE}{Path(os.path.expanduser(named)).absolute()}"  # noqa: PTH111 - Path.expanduser would raise
    path = file_of(named)
    return named if path is None else f"{_SQLITE}{path}"


def file_of(url: str) -> Path | None:
    """Return the file that an SQLite URL names; None for a database in memory and for every other URL."""
    file = url.removeprefix(_SQLITE)
    return None if file in {url, "", ":memory:"} else Path(file).absolute()


def shown(url: str) -> str:
    """Return a store's name for people: the path of an SQLite file; any other URL without what is secret in it."""
    path = file_of(url)
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url)) if path is None else str(path)


def newer(shown: str, version: int) -> StoreUnusable:
    """Return the refusal of a store that a later program has brought up to its own date."""
    return StoreUnusable(
        f"{shown} was written by a newer run-specialist (its tables are of version {version}, this one knows "
        f"{VERSION}); update run-specialist, or {ELSEWHERE}"
    )
