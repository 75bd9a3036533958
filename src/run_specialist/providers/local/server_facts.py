"""Read models and context length from the responses of local servers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SHORTEST_CONTEXT, LONGEST_CONTEXT = 256, 2**25
"""Range of plausible context lengths; others are ignored [tokens]."""
LONGEST_NAME = 300
"""Maximum length of a model name; longer ones are ignored [characters]."""
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContextLength:
    """The context length that a server gives to one request."""

    tokens: int | None = None
    """None = not known [tokens]."""
    note: str = ""
    """A warning for the user; empty = none."""


def length(value: object) -> int | None:
    """Return a context length; None for an implausible value [tokens]."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if SHORTEST_CONTEXT <= value <= LONGEST_CONTEXT else None


def model_names(listed: object) -> list[str]:
    """Return the ids in the answer to `GET /v1/models`, without invalid names."""
    return [entry["id"] for entry in _entries(listed) if _is_name(entry.get("id"))]


def loaded_names(listed: object) -> list[str]:
    """Return the ids of the models that llama.cpp has loaded; all models if it reports no status."""
    entries = [entry for entry in _entries(listed) if _is_name(entry.get("id"))]
    loaded = [entry for entry in entries if _at(entry, "status", "value") in {None, "loaded"}]
    return [entry["id"] for entry in loaded]


def of_llamacpp(props: object) -> ContextLength:
    """Return the length of one slot, from `GET /props`."""
    return ContextLength(length(_at(props, "default_generation_settings", "n_ctx")))


def of_vllm(name: str, listed: object) -> ContextLength:
    """Return the length in `GET /v1/models`, which is where vLLM reports it."""
    return ContextLength(next((length(entry.get("max_model_len")) for entry in _named(name, listed)), None))


def of_lmstudio(name: str, native: object, listed: object, assumed: int) -> ContextLength:
    """Return the length of a loaded model, from `GET /api/v0/models`.

    listed: answer to `GET /v1/models`, used if the native list does not have the model.
    assumed: length with which a model that is not loaded will be loaded [tokens].
    """
    for entry in _named(name, native):
        if loaded := length(entry.get("loaded_context_length")):
            return ContextLength(loaded)
        if longest := length(entry.get("max_context_length")):
            return _assumed(name, longest, assumed, "load it in LM Studio first")
    return of_vllm(name, listed)


def of_ollama(name: str, shown: object, running: object, assumed: int | None, default: int) -> ContextLength:
    """Return the length that Ollama gives to a request, which is often less than the model supports.

    shown: answer to `POST /api/show`.
    running: answer to `GET /api/ps`.
    assumed: OLLAMA_CONTEXT_LENGTH of this process [tokens]; None if not set.
    default: length with which Ollama loads a model on a machine with little memory [tokens].
    """
    info = shown.get("model_info") if isinstance(shown, dict) else None
    longest = next(
        (found for key, value in _pairs(info) if key.endswith(".context_length") and (found := length(value))), None
    )
    parameters = shown.get("parameters") if isinstance(shown, dict) else None
    fixed = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    # A request without `num_ctx` uses that of the model, even if another program has loaded it with more.
    if fixed and (told := length(int(fixed[1]))):
        return ContextLength(min(told, longest or told))
    for entry in _entries(running, "models"):
        if _with_tag(name) in {entry.get("name"), entry.get("model")} and (told := length(entry.get("context_length"))):
            return ContextLength(told)
    if longest is None:
        return ContextLength()
    if assumed is not None:
        return ContextLength(min(longest, assumed))
    return _assumed(
        name, longest, default, f"load it first (`ollama run {name}`), or set OLLAMA_CONTEXT_LENGTH here, too"
    )


def _assumed(name: str, longest: int, default: int, remedy: str) -> ContextLength:
    """Return the length for a model that is not loaded yet, with a note if it could be longer."""
    if longest <= default:
        return ContextLength(longest)
    note = (
        f"{name} is not loaded, so the server does not report the length of its context; "
        f"{default:,} of {longest:,} tokens are assumed; {remedy}"
    )
    return ContextLength(default, note)


def _with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _named(name: str, listed: object) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in _entries(listed) if entry.get("id") == name)


def _entries(listed: object, key: str = "data") -> list[dict[str, Any]]:
    entries = listed.get(key) if isinstance(listed, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable() and bool(value.strip())
