"""Loopback servers that speak as Ollama, LM Studio, llama.cpp and vLLM do: chat completions, model lists, context."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.wire.chat import ChatSimulator
from tests.wire.chat.rules import PATH
from tests.wire.simulator.server import Incoming
from tests.wire.simulator.wire import Wire

Route = Any
"""What a path answers: JSON, bytes sent as HTML, a function of the wire, or a function of the JSON body."""


class LocalApi(ChatSimulator):
    """Serve one kind of server; any path that the real one does not have is a 404."""

    def __init__(self, routes: Mapping[str, Route], replies: Any = (), **options: Any) -> None:
        """Take the routes, by method and path, and the script of the model."""
        super().__init__(replies, **options)
        self.routes = dict(routes)
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        """The requests beside those to the model: method and path, and headers."""

    @property
    def url(self) -> str:
        """The address without the path of the API."""
        return self.base_url.removesuffix("/v1")

    def _answer(self, incoming: Incoming, connect: Callable[[str], Wire]) -> None:
        place = f"{incoming.method} {incoming.path}"
        if incoming.path == PATH and place not in self.routes:
            super()._answer(incoming, connect)
            return
        self.asked.append((place, incoming.headers))
        wire, route = connect("req"), self.routes.get(place)
        if callable(route):
            route(wire)
        elif isinstance(route, bytes):
            wire.send(200, route, kind="text/html")
        elif place == "POST /api/show" and isinstance(route, dict):
            shown = route.get(json.loads(incoming.raw)["model"])
            wire.send(200 if shown else 404, json.dumps(shown or {"error": "model not found"}).encode())
        elif route is None:
            wire.send(404, b'{"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}')
        else:
            wire.send(200, json.dumps(route).encode())


def listed(*names: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to `GET /v1/models`."""
    return {"object": "list", "data": [{"id": name, "object": "model", **fields} for name in names]}


def llamacpp(n_ctx: Any = 8192, *names: str) -> dict[str, Route]:
    """Return the routes of llama.cpp's server with these models."""
    models = listed(*(names or ("qwen.gguf",)), meta={"n_ctx_train": 131072})
    return {
        "GET /v1/models": models,
        "GET /props": {
            "default_generation_settings": {"id": 0, "n_ctx": n_ctx},
            "total_slots": 1,
            "chat_template": "x",
        },
    }


def ollama(
    length: Any = 40960, *names: str, num_ctx: int | None = None, running: Any = (), arch: str = "qwen3"
) -> dict[str, Route]:
    """Return the routes of Ollama: `num_ctx` of the model file, and the length of the `running` first model."""
    parameters = 'stop    "<|im_end|>"' + (f"\nnum_ctx                        {num_ctx}" if num_ctx else "")
    shown = {
        "license": "x" * 11_000,
        "parameters": parameters,
        "model_info": {"general.architecture": arch, f"{arch}.block_count": 36, f"{arch}.context_length": length},
    }
    known = names or ("qwen3:8b",)
    loaded = [] if running == () else [{"name": known[0], "model": known[0], "context_length": running}]
    return {
        "GET /v1/models": listed(*known, owned_by="library"),
        "POST /api/show": dict.fromkeys(known, shown),
        "GET /api/ps": {"models": loaded},
    }


def lmstudio(longest: Any = 32768, loaded: Any = None, name: str = "qwen2.5-7b") -> dict[str, Route]:
    """Return the routes of LM Studio with one model, which is loaded if its loaded length is given."""
    entry = {"id": name, "type": "llm", "state": "loaded" if loaded else "not-loaded", "max_context_length": longest}
    entry |= {"loaded_context_length": loaded} if loaded else {}
    return {"GET /v1/models": listed(name), "GET /api/v0/models": {"object": "list", "data": [entry]}}


def vllm(length: Any = 16384, *names: str) -> dict[str, Route]:
    """Return the routes of vLLM."""
    return {"GET /v1/models": listed(*(names or ("Qwen/Qwen3-8B",)), owned_by="vllm", max_model_len=length)}


ROUTES = {"llamacpp": llamacpp, "ollama": ollama, "lmstudio": lmstudio, "vllm": vllm}
VARIABLES = {
    "llamacpp": "LLAMACPP_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "lmstudio": "LMSTUDIO_BASE_URL",
    "vllm": "VLLM_BASE_URL",
}
MODELS = {
    "llamacpp": "llamacpp:qwen.gguf",
    "ollama": "ollama:qwen3:8b",
    "lmstudio": "lmstudio:qwen2.5-7b",
    "vllm": "vllm:Qwen/Qwen3-8B",
}
"""Ids of the models that the servers have by default."""
