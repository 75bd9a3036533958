"""Configuration of one MCP server: how to reach it, its credentials, and its text form."""

import ipaddress
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from run_specialist.redaction import redact
from run_specialist.specialist.problems import shown

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

        def filled(text: str) -> str:
            return _VARIABLE.sub(lambda match: _value(match, environment), text)

        return replace(
            self,
            command=None if self.command is None else tuple(map(filled, self.command)),
            url=None if self.url is None else filled(self.url),
            env=tuple((name, filled(value)) for name, value in self.env),
            headers=tuple((name, filled(value)) for name, value in self.headers),
            cwd=None if self.cwd is None else filled(self.cwd),
        )


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = match.groups()
    # As in a shell, `:-` also replaces a variable that is set but empty.
    value = environment.get(name) or default
    if value is None and name not in environment:
        raise ValueError(f"the environment variable {name} is not set")
    return value or ""


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
