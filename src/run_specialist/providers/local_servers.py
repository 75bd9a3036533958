"""The kinds of local model servers: each has a prefix, and an environment variable with its address."""

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from run_specialist.providers.errors import Endpoint

API = "/v1"
"""Path of the chat completions API."""
_LARGEST_PORT = 65535
_SCHEME_PORTS = {"http": 80, "https": 443}


def base_url_of(given: str, port: int) -> str:
    """Return the base URL for a variable such as VLLM_BASE_URL; a missing path is completed.

    given: `http://host:port` or `http://host:port/path`; empty = the default port on loopback.
    Raises ValueError with the reason if it is not an HTTP URL.
    """
    text = given.strip().rstrip("/")
    if not text:
        return f"http://127.0.0.1:{port}{API}"
    parts = urlsplit(text)
    if parts.scheme not in _SCHEME_PORTS or not parts.hostname:
        raise ValueError(f"must be a URL like http://127.0.0.1:{port}{API}")
    _refuse_user(parts.netloc)
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    return f"{parts.scheme}://{_netloc(parts.hostname, parts.port)}{parts.path or API}"


def ollama_url(given: str, port: int) -> str:
    """Return the base URL for a value of OLLAMA_HOST, read as Ollama itself reads it.

    given: `host`, `host:port`, `:port`, `http://host:port` or `https://host/path`, possibly in quotes. With a scheme
        and no port, the port is that of the scheme. The address of all interfaces means this machine.
    Raises ValueError with the reason if it has no valid port.
    Source: `envconfig.Host` of Ollama.
    """
    text = given.strip().strip("\"'")
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "http", text
    elif scheme not in _SCHEME_PORTS:
        raise ValueError("must be a host, host:port or an http URL")
    else:
        port = _SCHEME_PORTS[scheme]
    place, _, path = rest.partition("/")
    _refuse_user(place)
    if _is_address(place.strip("[]")):
        # An IPv6 address may be written without brackets, but then has no port.
        return f"{scheme}://{_netloc(place.strip('[]'), port)}{_api_below(path)}"
    parts = urlsplit(f"//{place}")
    place = _netloc(parts.hostname or "127.0.0.1", port if parts.port is None else parts.port)
    return f"{scheme}://{place}{_api_below(path)}"


def root_of(base_url: str) -> str:
    """Return the URL to which a server's own paths are relative, without a trailing slash."""
    return base_url.removesuffix(API)


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine by a loopback address or as localhost."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _api_below(path: str) -> str:
    return f"/{path.strip('/')}{API}" if path.strip("/") else API


def _netloc(host: str, port: int | None) -> str:
    if _is_address(host):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            # This address tells a server to listen on all interfaces; a client cannot connect to it everywhere.
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004
        host = str(address) if address.version == 4 else f"[{address}]"  # noqa: PLR2004
    if port is not None and not 0 < port <= _LARGEST_PORT:
        raise ValueError(f"port {port} is not valid")
    return host if port is None else f"{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _refuse_user(place: str) -> None:
    # A request has only one Authorization header, which contains the key.
    if "@" in place:
        raise ValueError("contains a user name or a password; remove it")


WEIGHTS = "local:"
"""Prefix of the path of a weights file."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """One kind of server."""

    title: str
    """Name in messages."""
    endpoint: Endpoint
    port: int
    """Port that it listens on by default."""
    start: str
    """Command or action that starts it, for messages."""
    parse: Callable[[str, int], str] = base_url_of
    """Returns the base URL for the value of its variable and its default port; raises ValueError."""

    @property
    def prefix(self) -> str:
        """Prefix of its models, with the colon."""
        return self.endpoint.prefix

    @property
    def base_url(self) -> str:
        """Base URL of its chat completions API: from its variable, otherwise its default port on loopback.

        Raises ValueError with the reason if the variable is invalid.
        """
        return self.parse(os.environ.get(self.endpoint.url, ""), self.port)

    @property
    def key(self) -> str:
        """API key from the environment; empty if none is set."""
        return os.environ.get(self.endpoint.key, "").strip()


def _endpoint(name: str, url_variable: str = "") -> Endpoint:
    upper = name.upper()
    return Endpoint("openai", "chat completions", name, f"{upper}_API_KEY", url_variable or f"{upper}_BASE_URL")


LLAMACPP = LocalServer("llama.cpp", _endpoint("llamacpp"), 8080, "`llama-server -m FILE.gguf --jinja`")
OLLAMA = LocalServer("Ollama", _endpoint("ollama", "OLLAMA_HOST"), 11434, "`ollama serve`", ollama_url)
LMSTUDIO = LocalServer("LM Studio", _endpoint("lmstudio"), 1234, "`lms server start`")
VLLM = LocalServer("vLLM", _endpoint("vllm"), 8000, "`vllm serve NAME`")
SERVERS = {server.prefix: server for server in (OLLAMA, LMSTUDIO, LLAMACPP, VLLM)}
"""Servers by their prefix."""
WEIGHTS_ENDPOINT = Endpoint("openai", "chat completions", WEIGHTS.removesuffix(":"), "the key", "the file of the model")
"""Endpoint of a server started by this program; it has no environment variable."""


def prefix_of(model: str) -> str | None:
    """Return the prefix of a local model with its colon; None for any other model."""
    prefix = model.partition(":")[0] + ":"
    return prefix if ":" in model and (prefix in SERVERS or prefix == WEIGHTS) else None
