"""Check the values of config files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from run_specialist.config.config_keys import Key, ValueKind
from run_specialist.errors import UsageError
from run_specialist.record.journal import OnLost
from run_specialist.redaction import passwords
from run_specialist.specialist.defaults import Scope
from run_specialist.specialist.problems import shown

_LONGEST = 500
"""Maximum length of a text [characters]."""
_LARGEST = 10**18


def value_of(key: Key, given: object, file: Path, scope: Scope) -> object:
    """Return the value of a key in the form that the commands use.

    file: the config file; a folder is relative to the folder of this file.
    Raises ValueError with the reason for a value that cannot be used.
    """
    if key.personal and scope == "project":
        option = f"--{key.name.replace('_', '-')}"
        also = f", {key.variable}" if key.variable else ""
        raise ValueError(f"a project cannot decide this for its users; use your own config file{also} or {option}")
    if isinstance(given, str) and (len(given) > _LONGEST or not given.isprintable()):
        raise ValueError(f"must be one line of at most {_LONGEST} characters without control characters")
    if isinstance(given, int) and abs(given) >= _LARGEST:
        raise ValueError("the number is too large; `none` removes a limit")
    return _CHECKS[key.kind](key, given, file, scope)


def _setting(key: Key, given: object, _file: Path, _scope: Scope) -> object:
    # Imported here, because it loads pydantic.
    from run_specialist.specialist.resolve import checked  # noqa: PLC0415

    try:
        checked({key.name: given})
    except UsageError as error:
        raise ValueError(shown(str(error).removeprefix(f"{key.name}: "), _LONGEST)) from None
    return given


def _model(_key: Key, given: object, _file: Path, _scope: Scope) -> object:
    model = _text(given, "the name of a model")
    if model == "inherit":
        raise ValueError("there is nothing to inherit from; name a model")
    return model


def _folder(_key: Key, given: object, file: Path, scope: Scope) -> object:
    named = _text(given, "the path of a folder")
    if scope == "project" and named.startswith("~"):
        raise ValueError("must be a folder inside the project")
    folder = Path(os.path.abspath(file.parent / os.path.expanduser(named)))  # noqa: PTH100, PTH111 - never raise
    if scope == "project" and not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(file.parent)):
        raise ValueError("must be a folder inside the project")
    if not folder.is_dir():
        raise ValueError(f"{shown(str(folder), None)} is not a folder")
    return folder


def _store(_key: Key, given: object, _file: Path, _scope: Scope) -> object:
    store = _text(given, "a file, a URL, or none")
    if passwords(store) or "password=" in store.lower():
        raise ValueError("secrets do not belong in a config file; set SPECIALIST_STORE, or use ~/.pgpass")
    if store.lower() == "none":
        return store
    path = store.removeprefix("sqlite:///") if store.startswith("sqlite:") else store
    is_file = path != store or "://" not in store
    if is_file and not Path(os.path.expanduser(path)).is_absolute():  # noqa: PTH111 - never raises
        raise ValueError("must be an absolute path, or begin with ~/, because it applies in every folder")
    return os.path.expanduser(store) if store.startswith("~") else store  # noqa: PTH111 - as above


def _on_lost(_key: Key, given: object, _file: Path, _scope: Scope) -> object:
    if isinstance(given, str) and (choice := given.replace("-", "_")) in get_args(OnLost):
        return choice
    raise ValueError(f"must be go-on or abort, got {_got(given)}")


def _switch(_key: Key, given: object, _file: Path, _scope: Scope) -> object:
    if not isinstance(given, bool):
        raise ValueError(f"must be true or false, got {_got(given)}")  # noqa: TRY004 - as the other checks
    return given


def _count(_key: Key, given: object, _file: Path, _scope: Scope) -> object:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"must be an integer of at least 1, got {_got(given)}")
    return given


def _text(given: object, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"must be {what}, got {_got(given)}")
    return given.strip()


def _got(given: object) -> str:
    return shown(repr(given))


_CHECKS: dict[ValueKind, Callable[[Key, object, Path, Scope], object]] = {
    "setting": _setting,
    "model": _model,
    "folder": _folder,
    "store": _store,
    "on_lost": _on_lost,
    "switch": _switch,
    "count": _count,
}
