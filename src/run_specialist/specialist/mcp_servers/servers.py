"""Parse the MCP servers of a file, in any of the common formats; nothing is started."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from run_specialist.redaction import MASK, redact
from run_specialist.safe_files.safe_open import open_file
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.mcp_servers.server_config import START_TIMEOUT, ServerConfig
from run_specialist.specialist.ownership import ownership_problem
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import git_folder

__all__ = ["ServerConfig", "listed_in_project", "named_entry", "server_of", "servers_of", "without_secrets"]

LONGEST_START = 600.0
PROJECT_FILE = ".mcp.json"
"""File in which a project lists its MCP servers for all programs, under `mcpServers`."""

_LARGEST_FILE = 1024 * 1024
_DISALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_STDIO = frozenset({"stdio", "local"})
_HTTP = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp", "remote"})
_SECRET = frozenset({"env", "headers"})
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
        return {key: _masked(inner) if key in _SECRET else without_secrets(inner) for key, inner in value.items()}
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
    timeout = _seconds(entry.get("timeout"))
    if url:
        if not isinstance(url, str) or ("${" not in url and not re.match(r"https?://[^/]", url)):
            raise ValueError(f"url must begin with http:// or https://, got {shown(str(url))}")
        return ServerConfig(name, url=url, headers=_pairs(entry, "headers"), timeout=timeout)
    if not command:
        raise ValueError("has no command and no url")
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise ValueError("cwd must be a folder")
    return ServerConfig(
        name, _command(command, entry.get("args")), env=_pairs(entry, "env"), cwd=cwd or None, timeout=timeout
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


def _seconds(value: object) -> float:
    if value is None:
        return START_TIMEOUT
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_START:
        raise ValueError(f"timeout must be above 0 and at most {LONGEST_START:g} seconds, got {shown(str(value))}")
    return float(value)
