"""The MCP servers that a file names: their configurations and checks."""

import difflib
import ipaddress
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact
from run_specialist.safety.safe_files import open_file
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.front_matter import Field, FrontMatter
from run_specialist.specialist.positions import MappingNode, ScalarNode, SequenceNode
from run_specialist.specialist.problems import Problems, shown
from run_specialist.specialist.project import git_folder, ownership_problem

_KEY = "mcp_servers"
KEYS = (
    "name",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "type",
    "transport",
    "timeout",
    "disabled",
    "enabled",
)
"""Keys of an entry; other programs have more, so an unknown key is reported only if it resembles one of these."""


def check_servers(given: dict[str, Any], front: FrontMatter, problems: Problems) -> None:
    """Warn about unusable servers and remove them from `given`."""
    value = given.get(_KEY)
    if isinstance(value, dict):
        usable = {key: entry for key, entry in value.items() if _fits(str(key), entry, front.fields[_KEY], problems)}
        given[_KEY] = usable
    elif isinstance(value, list):
        field = front.fields[_KEY]
        given[_KEY] = [
            item for index, item in enumerate(value) if _fits(*named_entry(item), field, problems, index=index)
        ]


def _fits(name: str, entry: object, field: Field, problems: Problems, *, index: int | None = None) -> bool:
    server = None if entry is None else server_of(name, entry)
    why = listed_in_project(name, problems.path.parent) if entry is None else server.unusable if server else ""
    node, place = field.node, field.place
    if isinstance(node, SequenceNode) and index is not None and index < len(node.items):
        place = field.chunk.place(node.items[index].start)
    elif isinstance(node, MappingNode):
        named = (key for key, _ in node.pairs if isinstance(key, ScalarNode) and key.text == name)
        place = next((field.chunk.place(key.start) for key in named), place)
    for key in entry if isinstance(entry, dict) else ():
        near = difflib.get_close_matches(str(key), KEYS, 1)
        if str(key) not in KEYS and near:
            problems.warn(place, f"{shown(name)}: {shown(str(key))}: unknown key; did you mean {near[0]}?", _KEY)
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
        return self.url is not None and _is_loopback(self.url)

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

        def filled(text: str) -> str:
            return _VARIABLE.sub(value, text)

        return replace(
            self,
            command=None if self.command is None else tuple(map(filled, self.command)),
            url=None if self.url is None else filled(self.url),
            env=tuple((name, filled(text)) for name, text in self.env),
            headers=tuple((name, filled(text)) for name, text in self.headers),
            cwd=None if self.cwd is None else filled(self.cwd),
        )


def _is_loopback(url: str) -> bool:
    """Return whether a URL points to this machine regardless of the values of its variables."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if "$" in parts.netloc or not _AUTHORITY.fullmatch(parts.netloc):
        return False
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_secrets(url: str) -> str:
    """Return a URL without password and query, which may contain credentials."""
    try:
        parts = urlsplit(url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    except ValueError:
        return "an invalid URL"


LONGEST_START = 600.0
PROJECT_FILE = ".mcp.json"
"""File in which a project lists its MCP servers for all programs, under `mcpServers`."""

_LARGEST_FILE = 1024 * 1024
_DISALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_STDIO = frozenset({"stdio", "local"})
_HTTP = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp", "remote"})
_SECRET_KEYS = frozenset({"env", "headers"})
_QUERY = re.compile(r"(://[^\s?#]*\?[^\s=&#]*=|(?<=&)[^\s=&#?]*=)(?!\$\{)[^\s&#]+")
_URLS = ("url", "httpUrl", "serverUrl")


def servers_of(settings: Specialist, root: Path) -> Mapping[str, ServerConfig]:
    """Return the servers of a specialist by name, including invalid ones with their `unusable` reason.

    root: Folder in the project whose `.mcp.json` defines the servers that are given by name only.
    """
    servers: dict[str, ServerConfig] = {}
    listed: Mapping[str, Any] | str | None = None
    path = project_file(root)
    for name, entry in named_entries(settings.mcp_servers):
        if entry is None:
            listed = _listed(path) if listed is None else listed
            server = _from_project(name, path, listed)
        else:
            server = server_of(name, entry)
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
        return _read(clean, entry)
    except ValueError as error:
        return ServerConfig(clean, unusable=str(error))


def named_entries(value: object) -> Iterator[tuple[str, object]]:
    """Yield name and entry of each server in a map or list; an entry of None is looked up by name."""
    if isinstance(value, Mapping):
        yield from ((str(name), entry) for name, entry in value.items())
    elif isinstance(value, list | tuple):
        for item in value:
            yield named_entry(item)


def named_entry(item: object) -> tuple[str, object]:
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
    if path is None and not any((place / ".git").exists() for place in (folder.absolute(), *folder.absolute().parents)):
        return ""
    server = _from_project(name, path, _listed(path))
    return server.unusable if server else ""


def _listed(path: Path | None) -> Mapping[str, Any] | str:
    """Return the servers that a project lists, or the reason why there are none."""
    if path is None:
        return f"has neither a command nor a url, and the project has no {PROJECT_FILE} that defines it"
    try:
        with open_file(path, git_folder(path.parent) or path.parent) as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            return f"{path} is larger than {_LARGEST_FILE // 1024**2} MiB"
        read = json.loads(data)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError):
        return f"{path} is not valid JSON"
    servers = read.get("mcpServers") if isinstance(read, dict) else None
    return servers if isinstance(servers, dict) else f"{path} has no map mcpServers"


def _from_project(name: str, path: Path | None, listed: Mapping[str, Any] | str) -> ServerConfig | None:
    if isinstance(listed, str):
        return replace(ServerConfig(_DISALLOWED.sub("_", name)), unusable=listed)
    if listed.get(name) is None:
        available = f"; available: {', '.join(map(shown, listed))}" if listed else ""
        return ServerConfig(_DISALLOWED.sub("_", name), unusable=f"{path} has no server of this name{available}")
    server = server_of(name, listed[name])
    return server and replace(server, source=path)


def _read(name: str, entry: Mapping[Any, Any]) -> ServerConfig:
    url = next((entry[key] for key in _URLS if entry.get(key)), None)
    command, kind = entry.get("command"), entry.get("type", entry.get("transport"))
    known = kind is None or (isinstance(kind, str) and kind.lower() in _STDIO | _HTTP)
    if not known:
        raise ValueError(f"type must be stdio or http, got {shown(str(kind))}")
    if command and url:
        raise ValueError("has both a command and a url; remove one of them")
    if isinstance(kind, str) and (kind.lower() in _STDIO if url else command and kind.lower() in _HTTP):
        raise ValueError(f"the type {shown(kind)} does not fit a {'url' if url else 'command'}")
    timeout = START_TIMEOUT if entry.get("timeout") is None else entry["timeout"]
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_START:
        raise ValueError(f"timeout must be above 0 and at most {LONGEST_START:g} seconds, got {shown(str(timeout))}")
    if url:
        if not isinstance(url, str) or ("${" not in url and not re.match(r"https?://[^/]", url)):
            raise ValueError(f"url must begin with http:// or https://, got {shown(str(url))}")
        return ServerConfig(name, url=url, headers=_pairs(entry, "headers"), timeout=float(timeout))
    if not command:
        raise ValueError("has no command and no url")
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise ValueError("cwd must be a folder")
    return ServerConfig(
        name, _command(command, entry.get("args")), env=_pairs(entry, "env"), cwd=cwd or None, timeout=float(timeout)
    )


def _command(command: object, arguments: object) -> tuple[str, ...]:
    if isinstance(command, str) and arguments is None:
        # Without `args` the command is split like a shell command; with `args` it is one word, including blanks.
        parts: list[Any] = shlex.split(command)
    else:
        parts = command if isinstance(command, list) else [command]
    if arguments is not None and not isinstance(arguments, list):
        raise ValueError("args must be a list")
    parts = [*parts, *(arguments or [])]
    if not parts or any(isinstance(part, dict | list) or part is None for part in parts):
        raise ValueError("command and args must be texts")
    return tuple(_text(part) for part in parts)


def _pairs(entry: Mapping[Any, Any], key: str) -> tuple[tuple[str, str], ...]:
    value = entry.get(key)
    if value is None:
        return ()
    if not isinstance(value, Mapping) or any(isinstance(item, dict | list) for item in value.values()):
        raise ValueError(f"{key} must be a map of names to texts")
    return tuple(sorted((str(name), "" if item is None else _text(item)) for name, item in value.items()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
