"""The kinds of local model servers: each has a prefix, and an environment variable with its address."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.local.addresses import base_url_of, ollama_url

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
