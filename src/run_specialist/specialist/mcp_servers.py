"""The MCP servers that a file names: their configurations and checks."""

import difflib
import ipaddress
import json
import os
import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact
from run_specialist.specialist.fields import Specialist, lower
from run_specialist.specialist.front_matter import FrontMatter
from run_specialist.specialist.positions import MappingNode, ScalarNode, SequenceNode, read_file
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.project import git_folder, ownership_problem

_KEY = "mcp_servers"


def check_servers(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about unusable servers and remove them from `given`."""
    value = given.get(_KEY)
    entries = enumerate(named_entries(value))
    fitting = [_fits(name, entry, index, front, problems) for index, (name, entry) in entries]
    if isinstance(value, dict):
        given[_KEY] = dict(compress(value.items(), fitting))
    elif isinstance(value, list):
        given[_KEY] = list(compress(value, fitting))


def _fits(name: str, entry: object, index: int, front: FrontMatter, problems: Problems) -> bool:
    """Return whether a server can be used; otherwise warn."""
    field = front.fields[_KEY]
    node, place = field.node, field.place
    if isinstance(node, SequenceNode) and index < len(node.items):
        place = field.chunk.place(node.items[index].start)
    elif isinstance(node, MappingNode):
        named = (one for one, _ in node.pairs if isinstance(one, ScalarNode) and one.text == name)
        place = next((field.chunk.place(one.start) for one in named), place)
    for inner in entry if isinstance(entry, dict) else ():
        near = difflib.get_close_matches(str(inner), _KEYS, 1)
        if str(inner) not in _KEYS and near:
            problems.warn(place, f"{shown(name)}: {shown(str(inner))}: unknown key; did you mean {near[0]}?", _KEY)
    server = None if entry is None else server_of(name, entry)
    why = listed_in_project(name, problems.path.parent) if entry is None else server.unusable if server else ""
    if why:
        problems.warn(place, f"{shown(name)}: {shown(why, None)}; ignored", _KEY)
    return not why


START_TIMEOUT = 30.0

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_AUTHORITY = re.compile(r"(?:[^@]*@)?(?:\[[^\[\]]*\]|[^\[\]:@]*)(?::[0-9]*)?")
_SECRET = re.compile(r"key|token|secret|passw|pwd|auth(?!or(?!i))|credential|cookie|signature", re.IGNORECASE)
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How to reach one server; `${VARIABLES}` are not expanded, so that it can be shown and stored."""

    name: str
    """Letters, digits, `_` and `-`: the middle of `mcp__server__tool`."""
    command: tuple[str, ...] | None = None
    """Program to start and its arguments; None for a server with a URL."""
    url: str | None = field(default=None, repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Environment variables for the process, in addition to a few harmless ones of this process."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers of every request to the URL."""
    cwd: str | None = None
    """Working directory of the process, relative to the root; None = the root."""
    timeout: float = START_TIMEOUT
    """Timeout for starting the server and listing its tools [s]."""
    source: Path | None = None
    """`.mcp.json` of the project, if it defines the server; None if the specialist file does.

    Trusting the specialist file does not imply trusting this one.
    """
    unusable: str = ""
    """Reason why the server cannot be used; such a server has neither command nor URL."""

    @property
    def is_loopback(self) -> bool:
        """Whether its URL always points to this machine, where any user may run the server."""
        with suppress(ValueError):
            parts = urlsplit(self.url or "")
            host = parts.hostname or ""
            if "$" not in parts.netloc and _AUTHORITY.fullmatch(parts.netloc):
                return host == "localhost" or ipaddress.ip_address(host).is_loopback
        return False

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables that it refers to, without duplicates, in order of appearance."""
        pairs = [*self.env, *self.headers]
        texts = [*(self.command or ()), self.url or "", self.cwd or "", *(value for _, value in pairs)]
        return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))

    def starts_file_of(self, project: Path) -> bool:
        """Return whether a relative path in its command is a file of a project."""
        program, *arguments = self.command or ("",)
        folder = project / (self.cwd or "")
        # A program without a folder is looked up in PATH.
        relative = [word for word in (os.path.dirname(program) and program, *arguments) if not os.path.isabs(word)]  # noqa: PTH117, PTH120 - arguments need not be paths
        return any(word and os.path.isfile(folder / word) for word in relative)  # noqa: PTH113 - any text, NUL included

    @property
    def secrets(self) -> tuple[str, ...]:
        """Credentials to redact from the server's output.

        These are variables, headers and query parameters with names like `API_KEY`, and the password of the URL.
        """
        named = [*self.env, *self.headers, *(parse_qsl(urlsplit(self.url).query) if self.url else ())]
        found = [value for name, value in named if _SECRET.search(name)]
        # Given `Bearer TOKEN`, a server may print the token alone.
        found += [word for value in found for word in value.split()]
        password = urlsplit(self.url).password if self.url else None
        return (*found, *([password, unquote(password)] if password else ()))

    @property
    def fingerprint(self) -> str:
        """Text that identifies the trusted configuration; any change of the server changes it. Variables unexpanded."""
        return json.dumps(asdict(replace(self, source=None)), sort_keys=True)

    def __str__(self) -> str:
        """Return the command or URL, without the values of variables, headers and passwords.

        Commands are never truncated: a user who decides whether to trust one must see its end.
        """
        if self.command is None:
            return shown(_without_secrets(self.url) if self.url else self.unusable, _LONGEST_SHOWN)
        parts = [redact(shlex.join(self.command))]
        parts += [f"with {', '.join(name for name, _ in self.env)} set"] if self.env else []
        parts += [f"in {self.cwd}"] if self.cwd else []
        return shown(", ".join(parts), None)

    def expanded(self, environment: Mapping[str, str]) -> "ServerConfig":
        """Return the server with `${VAR}` and `${VAR:-default}` expanded, for starting it only.

        Raises ValueError for a variable that is not set and has no default.
        """

        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            # As in a shell, `:-` also replaces a variable that is set but empty.
            if default is None and name not in environment:
                raise ValueError(f"the environment variable {name} is not set")
            return environment.get(name) or default or ""

        def filled(part: Any) -> Any:  # noqa: ANN401 - texts, tuples of them, or None
            if isinstance(part, str):
                return _VARIABLE.sub(value, part)
            return tuple(map(filled, part)) if isinstance(part, tuple) else part

        parts = ("command", "url", "env", "headers", "cwd")
        return replace(self, **{name: filled(getattr(self, name)) for name in parts})


def _without_secrets(url: str) -> str:
    """Return a URL without password and query, which may contain credentials."""
    with suppress(ValueError):
        parts = urlsplit(url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return "an invalid URL"


LONGEST_START = 600.0
PROJECT_FILE = ".mcp.json"
"""File in which a project lists its MCP servers for all programs, under `mcpServers`."""

_LARGEST_FILE = 1024 * 1024
_DISALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_SECRET_KEYS = frozenset({"env", "headers"})
_QUERY = re.compile(r"(://[^\s?#]*\?[^\s=&#]*=|(?<=&)[^\s=&#?]*=)(?!\$\{)[^\s&#]+")
_KINDS = Literal["stdio", "local", "http", "streamable-http", "streamable_http", "streamablehttp", "remote"]


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_Text = Annotated[str, BeforeValidator(_text)]
_Pairs = dict[str, Annotated[_Text, BeforeValidator(lambda value: "" if value is None else value)]] | None


class _Entry(BaseModel):
    """The keys of an entry, with what each must be; other programs have more."""

    command: list[_Text] = Field([], description="a command with its arguments")
    args: list[_Text] | None = Field(None, description="a list of texts")
    env: _Pairs = Field(None, description="a map of names to texts")
    cwd: str | None = Field(None, description="a folder")
    url: Annotated[str, Field(pattern=r"^https?://[^/]|\$\{")] | None = Field(
        None, validation_alias=AliasChoices("url", "httpUrl", "serverUrl"), description="an http:// or https:// URL"
    )
    headers: _Pairs = Field(None, description="a map of names to texts")
    type: Annotated[_KINDS | None, BeforeValidator(lower)] = Field(
        None, validation_alias=AliasChoices("type", "transport"), description="stdio or http"
    )
    timeout: Annotated[float, Field(strict=True, gt=0, le=LONGEST_START)] | None = Field(
        None, description=f"above 0 and at most {LONGEST_START:g} seconds"
    )

    @model_validator(mode="before")
    @classmethod
    def _split(cls, entry: dict[str, Any]) -> dict[str, Any]:
        command = entry.get("command") or []
        if isinstance(command, str):
            # With `args` the command is one word, including blanks.
            command = shlex.split(command) if entry.get("args") is None else [command]
        return {**entry, "command": command}


_KEYS = (*_Entry.model_fields, "name", "transport", "disabled", "enabled")


def servers_of(settings: Specialist, root: Path) -> Mapping[str, ServerConfig]:
    """Return the servers of a specialist by name, including invalid ones with their `unusable` reason.

    root: Folder in the project whose `.mcp.json` defines the servers that are given by name only.
    """
    servers: dict[str, ServerConfig] = {}
    path = project_file(root)
    for name, entry in named_entries(settings.mcp_servers):
        server = _from_project(name, path) if entry is None else server_of(name, entry)
        if server is None:
            continue
        key = server.name
        if key in servers:
            reason = f"{shown(name)} has the same normalized name as another server, {key}"
            key, server = name, ServerConfig(server.name, unusable=reason)
        servers[key] = server
    return servers


def server_of(name: str, entry: object) -> ServerConfig | None:
    """Parse the entry of one server; None for a disabled one."""
    clean = _DISALLOWED.sub("_", name.strip()).strip("_") or "server"
    if isinstance(entry, str) and "://" in entry:
        entry = {"url": entry}
    if not isinstance(entry, Mapping):
        return ServerConfig(clean, unusable="must be a map with a command or a url")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    try:
        read = _Entry.model_validate(dict(entry))
    except ValidationError as error:
        key = str(next(iter(error.errors()[0]["loc"]), "command"))
        key = {"httpUrl": "url", "serverUrl": "url", "transport": "type"}.get(key, key)
        return ServerConfig(clean, unusable=f"{key} must be {_Entry.model_fields[key].description}")
    command = (*read.command, *(read.args or ())) if read.command else ()
    if bool(command) == bool(read.url):
        both = "has both a command and a url; remove one of them"
        return ServerConfig(clean, unusable=both if command else "has no command and no url")
    env, headers = (tuple(sorted((pairs or {}).items())) for pairs in (read.env, read.headers))
    timeout = START_TIMEOUT if read.timeout is None else read.timeout
    if read.url:
        return ServerConfig(clean, url=read.url, headers=headers, timeout=timeout)
    return ServerConfig(clean, command, env=env, cwd=read.cwd or None, timeout=timeout)


def named_entries(value: object) -> list[tuple[str, object]]:
    """Return name and entry of each server in a map or list; an entry of None is looked up by name."""
    if isinstance(value, Mapping):
        return [(str(name), entry) for name, entry in value.items()]
    return [_named_entry(item) for item in value] if isinstance(value, list | tuple) else []


def _named_entry(item: object) -> tuple[str, object]:
    """Return name and entry of a list item."""
    if not isinstance(item, Mapping):
        return (item, None) if isinstance(item, str) else (str(item), "")
    if "name" in item:
        rest = {key: value for key, value in item.items() if key != "name"}
        return str(item["name"]), rest or None
    if len(item) == 1 and not isinstance(next(iter(item.values())), str):
        return next((str(name), entry) for name, entry in item.items())
    return "server", ""


def without_secrets(value: Any) -> Any:  # noqa: ANN401 - what YAML holds
    """Return a server configuration with each literal secret masked, for storing and showing."""
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _masked(inner) if key in _SECRET_KEYS else without_secrets(inner) for key, inner in value.items()}
    # Query parameters of a URL may be credentials whatever their names.
    return _QUERY.sub(rf"\1{MASK}", redact(value)) if isinstance(value, str) else value


def _masked(values: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(values, Mapping):
        return {name: _masked(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_masked(value) for value in values]
    return values if values is None or "${" in str(values) else MASK


def project_file(start: Path) -> Path | None:
    """Return the `.mcp.json` of the project that contains a folder, or None.

    Files in parent folders that belong to another user are ignored.
    """
    for folder in (start, *start.parents):
        if folder != start and ownership_problem(folder, folder / PROJECT_FILE) is not None:
            return None
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
        if (folder / ".git").exists():
            return None
    return None


def listed_in_project(name: str, folder: Path) -> str:
    """Return why a server name cannot be resolved in the project that contains a folder; empty if it can.

    Also empty outside of a project, because the run may take place in one.
    """
    path = project_file(folder.absolute())
    if path is None and git_folder(folder.absolute()) is None:
        return ""
    server = _from_project(name, path)
    return server.unusable if server else ""


def _listed(path: Path | None) -> Mapping[str, Any] | str:
    """Return the servers that a project lists, or the reason why there are none."""
    if path is None:
        return f"has neither a command nor a url, and the project has no {PROJECT_FILE} that defines it"
    try:
        read = json.loads(read_file(path, git_folder(path.parent) or path.parent, _LARGEST_FILE))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return f"{path} is not valid JSON"
    except ValueError as error:
        return f"{path} {error}"
    servers = read.get("mcpServers") if isinstance(read, dict) else None
    return servers if isinstance(servers, dict) else f"{path} has no map mcpServers"


def _from_project(name: str, path: Path | None) -> ServerConfig | None:
    listed = _listed(path)
    if isinstance(listed, str):
        return ServerConfig(_DISALLOWED.sub("_", name), unusable=listed)
    if listed.get(name) is None:
        available = f"; available: {', '.join(map(shown, listed))}" if listed else ""
        return ServerConfig(_DISALLOWED.sub("_", name), unusable=f"{path} has no server of this name{available}")
    server = server_of(name, listed[name])
    return server and replace(server, source=path)


def missing_server(settings: Specialist, servers: Collection[str]) -> str:
    """Return the missing required server, in one clause; empty if there is none.

    servers: Names of the available servers. A required name is a part of one of them, in any case.
    """
    known = [name.lower() for name in servers]
    missing = [name for name in settings.required_mcp_servers if not any(name.lower() in one for one in known)]
    return f"it requires the MCP server {', '.join(missing)}" if missing else ""
