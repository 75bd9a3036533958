"""Read config files: their keys and places, the values and their origins, and the trust that a project's file needs."""

import difflib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from run_specialist.errors import NotTrusted, UsageError
from run_specialist.providers.choose import OPENAI, choose_model
from run_specialist.providers.errors import CHAT
from run_specialist.providers.local_servers import WEIGHTS, prefix_of
from run_specialist.record.outcome import OFFLINE
from run_specialist.safety.redact import passwords
from run_specialist.spawning.trust import Claim, Demand, Trust, local_demand
from run_specialist.specialist.checks import split_models
from run_specialist.specialist.dialects import is_path
from run_specialist.specialist.fields import CONFIG_KEYS, Specialist
from run_specialist.specialist.loader import Default, Defaults, Scope
from run_specialist.specialist.origins import rule, stricter
from run_specialist.specialist.positions import InvalidToml, read_file, read_table
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import ownership_problem, user_folder
from run_specialist.specialist.settings import Origin, Setting, checked
from run_specialist.store.location import place
from run_specialist.store.location import shown as shown_store

ValueKind = Literal["setting", "model", "folder", "specialist", "store", "on_lost", "switch", "count"]
TABLE = ("tool", "run-specialist")
"""Table of the keys in pyproject.toml; the user's file has them at the top level."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    name: str
    """Name in snake_case, as in JSON output; files may use hyphens instead."""
    kind: ValueKind
    """`setting` for a key of specialist files, with the same values."""
    variable: str = ""
    """Environment variable that overrides it; empty if there is none."""


KEYS = {
    key.name: key
    for key in (
        Key("model", "model", variable="SPECIALIST_MODEL"),
        *(Key(name, "setting") for name in CONFIG_KEYS),
        Key("dir", "folder"),
        Key("default_specialist", "specialist"),
        Key("strict", "switch"),
        Key("quiet", "switch"),
        Key("require_model", "switch", variable="SPECIALIST_REQUIRE_MODEL"),
        Key("store", "store", variable="SPECIALIST_STORE"),
        Key("on_lost", "on_lost"),
        Key("requests_at_once", "count", variable="SPECIALIST_REQUESTS_AT_ONCE"),
    )
}
"""All keys, by name."""
DEFAULT_SPECIALIST = "codebase-analyst"
"""Asked without a NAME if no description fits the question better; it reads all files of a project."""

ONLY_OPTIONS = frozenset({"root", "trust", "server_tools", "dry_run", "json", "events", "output", "raw", "force"})
ONLY_OPTIONS |= {"yes", "http", "no_token", "chat"}
"""Options that cannot be set in a file, because they are decided for each call."""

# Endings of names of addresses.
_OUTSIDE = ("base_url", "api_base", "endpoint", "host")
_LONGEST = 40


def _known(name: str, scope: Scope) -> Key:
    """Return the key with a name; raises ValueError with why it cannot be used, and a similar key if there is one."""
    canonical = name.strip().replace("-", "_").lower()
    option = f"--{canonical.replace('_', '-')}"
    if key := KEYS.get(canonical):
        if scope == "project" and rule(key.name, "project") == "never":
            also = f", {key.variable}" if key.variable else ""
            raise ValueError(f"a project cannot decide this for its users; use your own config file{also} or {option}")
        return key
    if scope == "user" and name == TABLE[0]:
        raise ValueError(f"put the keys at the top of this file, without [{'.'.join(TABLE)}]")
    if canonical in ONLY_OPTIONS:
        raise ValueError(f"this cannot be set in a config file; use the option {option}")
    from run_specialist.safety.assigned_secrets import ends_like_a_name  # noqa: PLC0415 - fast `specialists list`

    if ends_like_a_name(canonical) or canonical.endswith(_OUTSIDE):
        raise ValueError(
            "secrets and addresses of servers do not belong in a config file; set an environment variable, see "
            "docs/configuration.md"
        )
    close = difflib.get_close_matches(canonical[:_LONGEST], KEYS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(KEYS)}"
    raise ValueError(f"unknown key; {hint}")


State = Literal["read", "missing", "no table", "ignored"]

LARGEST = 1024 * 1024
"""Maximum size of a config file [bytes]."""
MAX_PROBLEMS = 20
"""Maximum number of errors of one file."""
# Every file with the table contains these bytes; most project files do not, and are not parsed.
_MENTION = TABLE[-1].encode()


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file, whether or not it exists."""

    path: Path
    scope: Scope
    state: State
    """`no table` for a project file without keys for this program, `ignored` for one that must not be used."""
    values: Mapping[str, Default] = field(default_factory=dict)
    """Values with their places, by name of the key."""
    problems: tuple[str, ...] = ()
    """Errors, each with `file:line: key: reason`."""
    reason: str = ""
    """Why the file is ignored."""


def _read(path: Path, scope: Scope, project: Path | None = None, *, meant: bool = True) -> ConfigFile:
    """Read a config file.

    project: the file must be inside of it, and has the keys in a table; None for the user's file, which may be
        anywhere.
    meant: whether the user named the project, which may then belong to another user.
    """

    def unusable(place: str, reason: str) -> ConfigFile:
        return ConfigFile(path, scope, "read", problems=(f"{near(path)}{place}: {shown(reason, 300)}",))

    if not os.path.exists(path):  # noqa: PTH110 - never raises
        return ConfigFile(path, scope, "missing")
    try:
        data = read_file(path, project, LARGEST)
    except ValueError as error:
        return unusable("", str(error)) if project is None else ConfigFile(path, scope, "ignored", reason=str(error))
    if project is not None and _MENTION not in data:
        return ConfigFile(path, scope, "no table")
    if project is not None and not meant and (owner := ownership_problem(project, path)):
        return ConfigFile(path, scope, "ignored", reason=owner)
    try:
        # Editors on Windows put a mark before the text.
        table = read_table(data.decode("utf-8-sig"), () if project is None else TABLE)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return unusable(f":{line}", "is not UTF-8")
    except InvalidToml as error:
        return unusable(f":{error.line}", f"invalid TOML: {error}")
    if table is None:
        return ConfigFile(path, scope, "no table")
    values: dict[str, Default] = {}
    problems: list[str] = []
    for name, given in table.values.items():
        line = table.line(name)
        try:
            key = _known(name, scope)
            if key.name in values:
                raise ValueError(f"given twice, with `-` and with `_`; first on line {values[key.name].line}")  # noqa: TRY301 - one place for the line
            value = _value_of(key, given, path, scope)
            if isinstance(value, Path) and project and not meant and (owner := ownership_problem(project, value)):
                raise ValueError(owner)  # noqa: TRY301 - as above
            values[key.name] = Default(value, scope, path, line)
        except ValueError as error:
            problems.append(f"{near(path)}:{line}: {shown(name)}: {error}")
            if len(problems) == MAX_PROBLEMS:
                problems.append(f"{near(path)}: further keys were not checked")
                break
    return ConfigFile(path, scope, "read", values, tuple(problems))


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
        own = self.of("user")
        values = dict(own)
        for key, value in self.of("project").items():
            plain, may_only_lower = _plain(key, value), key in own and rule(key, "project") == "lower"
            if not (may_only_lower and stricter(plain, _plain(key, own[key])) != plain):
                values[key] = replace(value, users=own.get(key))
        return values

    def of(self, scope: Scope) -> Mapping[str, Default]:
        """Return the values of the project's file or the user's."""
        return {key: value for file in self.files if file.scope == scope for key, value in file.values.items()}

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
        return tuple(f"{near(file.path)}: ignored, {file.reason}" for file in self.files if file.reason)

    @property
    def capped(self) -> tuple[str, ...]:
        """A line for each limit of the project that is not used because the user's own one is stricter."""
        values = self.values
        return tuple(
            f"{near(given.path)}:{given.line}: {key}: your own value holds, because a project cannot "
            f"loosen it: {near(values[key].path)}:{values[key].line}"
            for key, given in self.of("project").items()
            if values[key].scope == "user"
        )


def _plain(key: str, given: Default) -> Any:  # noqa: ANN401 - a number, None for no limit, or a switch
    return getattr(checked({key: given.value}), key) if KEYS[key].kind == "setting" else given.value


def read_config(project: Path | None, *, meant: bool = False) -> Config:
    """Read the config files that apply to a project.

    project: None = only the user's file, for keys that a project cannot set.
    meant: whether the user named the project, which may then belong to another user.
    Raises UsageError with one line for each problem.
    """
    # A file that the environment names must exist.
    named = os.environ.get(VARIABLE, "").strip()
    if named.lower() == NONE:
        return Config((), project)
    files = [] if project is None else [_read(project / PROJECT_FILE, "project", project, meant=meant)]
    path = Path(os.path.abspath(os.path.expanduser(named))) if named else user_folder() / _USER_FILE  # noqa: PTH100, PTH111 - never raise
    # Without a home folder there is no file of the user.
    files += [_read(path, "user")] if path.is_absolute() else []
    if named and files[-1].state == "missing":
        raise UsageError(f"{VARIABLE}: {path} does not exist")
    if problems := [line for file in files for line in file.problems]:
        raise UsageError("\n".join([*problems, f"or set {VARIABLE}={NONE} to read no config file"]))
    return Config(tuple(files), project)


# Server of models whose names have no prefix.
_MESSAGES = ""


def check_chosen_model(config: Config, trust: Trust) -> tuple[str, ...]:
    """Check that the model set by the config files may be used; return warnings.

    Not needed for a run whose model is given on the command line.
    Raises NotTrusted if the user has to allow it first.
    """
    claim = model_claim(config)
    try:
        return () if claim is None else trust.check(claim)
    except NotTrusted as error:
        raise NotTrusted(f"{error}; or choose a model with --model") from None


def model_claim(config: Config) -> Claim | None:
    """Return the permission that the project's choice of a model requires; None if it requires none.

    A project may freely choose another model of the default server, or no model at all.
    """
    chosen, project = config.values.get("model"), config.project
    if project is None or chosen is None or chosen.scope != "project" or config.get("model") in {None, OFFLINE}:
        return None
    own, named = config.of("user").get("model"), str(chosen.value)
    if own is not None and named == own.value:
        return None
    usual = {_MESSAGES} if own is None else set(map(server_of, split_models(own.value)))
    demands: list[Demand] = []
    for model in split_models(named):
        server, location = server_of(model), f"{near(chosen.path)}:{chosen.line}: model"
        if server == OFFLINE or (server in usual and server != WEIGHTS):
            continue
        if prefix_of(model):
            demands += filter(None, [local_demand(location, model, project, own=False)])
            continue
        title = "a server of chat completions" if server == OPENAI else "a server of the Messages API"
        variable = f" ({CHAT.url}, or the vendor)" if server == OPENAI else ""
        action = f"send the questions and the tool results to {title}{variable}, as the model {model}"
        demands.append(Demand(location, action, server or "messages"))
    digest = hashlib.sha256(f"model={named}".encode()).hexdigest()
    return Claim(chosen.path, digest, project, tuple(demands)) if demands else None


def server_of(model: str) -> str:
    """Return the prefix of a model, which determines the server; `offline` for no server."""
    if model == OFFLINE:
        return OFFLINE
    return OPENAI if model.startswith(OPENAI) else prefix_of(model) or _MESSAGES


VARIABLE = "SPECIALIST_CONFIG"
"""Environment variable with the user's config file; `none` = read no config file at all."""
NONE = "none"
PROJECT_FILE = "pyproject.toml"

_USER_FILE = "config.toml"


def near(path: Path) -> str:
    """Return a path for messages: relative to the current folder, or with `~` for the home folder, if possible."""
    try:
        if path.is_relative_to(Path.cwd()):
            return str(path.relative_to(Path.cwd()))
        return f"~/{path.relative_to(Path.home())}"
    except (OSError, RuntimeError, ValueError):  # no current folder, no home folder, or somewhere else
        return str(path)


# Maximum length of a text [characters].
_LONGEST_VALUE = 500
_LARGEST = 10**18


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())


# By kind, what a value must be, and whether it is; settings are checked as those of specialist files.
_FORMS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "model": ("the name of a model", _is_text),
    "folder": ("the path of a folder", _is_text),
    "specialist": ("the name of a specialist", lambda given: _is_text(given) and not is_path(given)),
    "store": ("a file, a URL, or none", _is_text),
    "on_lost": ("go-on or abort", lambda given: given in ("go-on", "go_on", "abort")),
    "switch": ("true or false", lambda given: isinstance(given, bool)),
    "count": ("an integer of at least 1", lambda given: type(given) is int and given >= 1),
}


def _value_of(key: Key, given: Any, file: Path, scope: Scope) -> object:  # noqa: ANN401 - any TOML value
    """Return the value of a key in the form that the commands use.

    file: the config file; a folder is relative to the folder of this file.
    Raises ValueError with the reason for a value that cannot be used.
    """
    if isinstance(given, str) and (len(given) > _LONGEST_VALUE or not given.isprintable()):
        raise ValueError(f"must be one line of at most {_LONGEST_VALUE} characters without control characters")
    if isinstance(given, int) and abs(given) >= _LARGEST:
        raise ValueError("the number is too large; `none` removes a limit")
    if key.kind == "setting":
        try:
            checked({key.name: given})
        except UsageError as error:
            raise ValueError(shown(str(error).removeprefix(f"{key.name}: "), _LONGEST_VALUE)) from None
        return given
    expected, is_right = _FORMS[key.kind]
    if not is_right(given):
        raise ValueError(f"must be {expected}, got {shown(repr(given))}")
    given = given.strip() if isinstance(given, str) else given
    if key.kind == "model" and given == "inherit":
        raise ValueError("there is nothing to inherit from; name a model")
    if key.kind == "on_lost":
        return given.replace("-", "_")
    return _folder(given, file, scope) if key.kind == "folder" else _store(given) if key.kind == "store" else given


def _folder(named: str, file: Path, scope: Scope) -> Path:
    folder = Path(os.path.abspath(file.parent / os.path.expanduser(named)))  # noqa: PTH100, PTH111 - never raise
    if scope == "project" and not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(file.parent)):
        raise ValueError("must be a folder inside the project")
    if not folder.is_dir():
        raise ValueError(f"{shown(str(folder), None)} is not a folder")
    return folder


def _store(store: str) -> str:
    if passwords(store) or "password=" in store.lower():
        raise ValueError("secrets do not belong in a config file; set SPECIALIST_STORE, or use ~/.pgpass")
    path = os.path.expanduser(store.removeprefix("sqlite:///"))  # noqa: PTH111 - never raises
    is_file = store.startswith("sqlite:") or "://" not in store
    if is_file and store.lower() != NONE and not Path(path).is_absolute():
        raise ValueError("must be an absolute path, or begin with ~/, because it applies in every folder")
    return path if store.startswith("~") else store


def holdings(config: Config) -> Iterator[Setting]:
    """Yield the value of each key with its source, in the order of the keys."""
    for name, key in KEYS.items():
        found = config.values.get(name)
        if key.variable and (named := os.environ.get(key.variable)):
            yield Setting(name, _as_json(key, named), Origin("environment", variable=key.variable))
        elif found is not None:
            yield Setting(name, _as_json(key, found.value), Origin(found.scope, found.line, path=found.path))
        elif key.kind == "setting":
            yield Setting(name, Specialist.model_fields[name].default, Origin("default"))
        else:
            own = {"model": choose_model(None, None), "store": place(None).url, "switch": False, "on_lost": "go_on"}
            own["specialist"] = DEFAULT_SPECIALIST
            yield Setting(name, _as_json(key, own.get(key.kind)), Origin("default"))


def _as_json(key: Key, value: object) -> object:
    """Return a value as JSON; the name of a store has no password."""
    if key.kind == "store":
        return shown_store(place(str(value)).url)
    if key.kind == "on_lost":
        return str(value).replace("_", "-")
    return str(value) if isinstance(value, Path) else value
