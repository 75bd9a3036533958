"""One MCP server as a file tells of it: how it is reached, what trust it needs, how it is shown."""

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
    """How to reach one server; `${VARIABLES}` stand in it as they are written, so that it can be shown and kept."""

    name: str
    """Letters, digits, `_` and `-`: the middle of `mcp__server__tool`."""
    command: tuple[str, ...] | None = None
    """What is started, with its arguments; None where there is a URL."""
    url: str | None = field(default=None, repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables that the process gets beside a few harmless ones of ours."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Sent with every request to the URL."""
    cwd: str | None = None
    """Where the process works, seen from the root; None = the root."""
    timeout: float = START_TIMEOUT
    """What it may take until the server has told its tools [s]."""
    source: Path | None = None
    """The project's `.mcp.json` where that is what defines it; None where the specialist's own file does.

    Whoever trusts the specialist's file has not thereby trusted this one.
    """
    unusable: str = ""
    """Why it cannot be had; such a server has neither command nor URL."""

    @property
    def is_loopback(self) -> bool:
        """Whether its URL can only mean this machine; any of its users may listen there."""
        return self.url is not None and _is_loopback(self.url)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that are filled in, each once, in the order in which they appear."""
        pairs = [*self.env, *self.headers]
        texts = [*(self.command or ()), self.url or "", self.cwd or "", *(value for _, value in pairs)]
        return tuple(dict.fromkeys(match[1] for text in texts for match in _VARIABLE.finditer(text)))

    def starts_file_of(self, project: Path) -> bool:
        """Tell whether a relative path in its command leads to a file that is found in a project."""
        program, *words = self.command or ("",)
        folder = project / (self.cwd or "")
        # A program without a folder is looked up in PATH.
        relative = [word for word in (os.path.dirname(program) and program, *words) if not os.path.isabs(word)]  # noqa: PTH117, PTH120 - a word, which need not be a path
        return any(word and os.path.isfile(folder / word) for word in relative)  # noqa: PTH113 - any text, NUL included

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nobody is to read who reads what the server says: by its name a key, in whatever place it is given."""
        named = [*self.env, *self.headers, *(parse_qsl(urlsplit(self.url).query) if self.url else ())]
        told = [value for name, value in named if _SECRET.search(name)]
        # Of `Bearer TOKEN` a server may repeat the token alone.
        told += [word for value in told for word in value.split()]
        password = urlsplit(self.url).password if self.url else None
        return (*told, *([password, unquote(password)] if password else ()))

    @property
    def fingerprint(self) -> str:
        """What changes whenever anything of the server changes that trust was given for; variables unexpanded."""
        return json.dumps(asdict(replace(self, source=None)), sort_keys=True)

    def __str__(self) -> str:
        """Return what would be started or talked to, without the values of variables, headers and passwords.

        A command is whole, however long: who is asked whether to trust it must see its end.
        """
        if self.command is None:
            return shown(_without_secrets(self.url) if self.url else self.unusable, _LONGEST_SHOWN)
        words = [redact(shlex.join(self.command))]
        words += [f"with {', '.join(name for name, _ in self.env)} set"] if self.env else []
        words += [f"in {self.cwd}"] if self.cwd else []
        return shown(", ".join(words), None)

    def expanded(self, environment: Mapping[str, str]) -> "ServerConfig":
        """Return the server with its `${VAR}` and `${VAR:-default}` filled in; it is for starting only.

        Raises ValueError naming a variable that is not set and has no default.
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
    # As in a shell: `:-` also stands in for what is set and empty.
    value = environment.get(name) or default
    if value is None and name not in environment:
        raise ValueError(f"the environment variable {name} is not set")
    return value or ""


def _is_loopback(url: str) -> bool:
    """Tell whether a URL can only mean this machine, whatever its variables stand for."""
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
    """Return a URL without password and query, which may hold keys."""
    try:
        parts = urlsplit(url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    except ValueError:
        return "a URL that cannot be read"
