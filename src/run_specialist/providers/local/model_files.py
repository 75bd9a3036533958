"""Models in files: one llama.cpp server per file, shared by all runs of a `Runner`."""

import asyncio
import os
import re
import secrets
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.installation import adding
from run_specialist.providers.choose import chat_client
from run_specialist.providers.local.gguf import ModelHeader, NotGguf, read_header
from run_specialist.providers.local.llama_server import LlamaServer
from run_specialist.providers.local.local_provider import with_context
from run_specialist.providers.local.local_servers import WEIGHTS, WEIGHTS_ENDPOINT
from run_specialist.providers.local.machine import free_memory, useful_threads
from run_specialist.providers.local.server_facts import ContextLength
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.tools.threads import in_thread

CONTEXT_VARIABLE = "SPECIALIST_LOCAL_CONTEXT"
"""Environment variable with the length of the context [tokens]."""
MIB = 2**20
WORKING_MEMORY = 512 * MIB
"""Memory for computations, besides weights and cache [bytes]."""
CACHE_SHARE = 2
"""The context cache takes at most one part in this many of the memory left by the weights."""
LARGEST_PROMPT_CACHE = 2_048
"""Memory for earlier prompts, so that alternating runs are not read again [MiB]."""
SHORTEST_CONTEXT = 2_048
"""Minimum context length; a model without memory for it is too large [tokens]."""
UNKNOWN_CONTEXT = 8_192
"""Context length if the file or the memory of the machine is unknown [tokens]."""
STEP = 256
"""Context lengths are multiples of this [tokens]."""
_PART = re.compile(r"-00001-of-(\d{5})\.gguf\Z")

Report = Callable[[str], None]
"""Called with a line while a model is loaded."""


class ModelFiles:
    """The servers of the files that runs have named; safe to use from several event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, _Shared] = {}
        self._is_closed = False
        # Ends the processes even if the program never calls `aclose`.
        weakref.finalize(self, _stop_all, self._servers)

    async def provider(self, model: str, report: Report | None = None) -> ChatProvider:
        """Return a provider for the running event loop; start the server on first use.

        model: `local:` and the path of a GGUF file, relative to the current folder.
        Raises UsageError if the file cannot be used, or if a package is missing.
        """
        if missing := [name for name in ("xllamacpp", "openai") if not _is_installed(name)]:
            raise UsageError(
                f"`model={model}` needs a package that is not installed (no module named {missing[0]!r}); "
                f"{adding('local')}"
            )
        shared = await in_thread(lambda: self._shared(model, report))
        url = await asyncio.shield(asyncio.wrap_future(shared.url))
        client = chat_client(
            model, WEIGHTS_ENDPOINT, api_key=shared.key, base_url=f"{url}/v1", direct=True, max_retries=0
        )
        provider = ChatProvider(model.removeprefix(WEIGHTS), client, WEIGHTS_ENDPOINT, shared.server.failure)
        return with_context(provider, ContextLength(shared.context))

    def _shared(self, model: str, report: Report | None) -> "_Shared":
        """Return the server of a file; called in a thread, because disks are slow."""
        path = Path(os.path.realpath(Path(model.removeprefix(WEIGHTS)).expanduser()))
        config = _config(model, path)
        with self._lock:
            if self._is_closed:
                raise UsageError(f"`model={model}`: the Runner was closed meanwhile")
            found = self._servers.get(str(path))
            if found is None or found.has_ended:
                if found:
                    found.server.stop()
                if report:
                    report(f"loading {path.name} ({_gigabytes(_size(path))})")
                found = self._servers[str(path)] = _Shared(model, config)
        return found

    async def aclose(self) -> None:
        """End all servers, including those that are still loading."""

        def stop() -> None:
            with self._lock:
                self._is_closed = True
            _stop_all(self._servers)

        await in_thread(stop)


class _Shared:
    """A server and its API key, which keeps other users of the machine out."""

    def __init__(self, model: str, config: dict[str, Any]) -> None:
        self.key = secrets.token_urlsafe(24)
        self.context = int(config["context"])
        self.server = LlamaServer(model, {**config, "key": self.key})
        self.url: Future[str] = Future()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """True if loading has failed, or the process has ended since."""
        return bool(self.server.failure()) or (self.url.done() and self.url.exception() is not None)

    def _wait(self) -> None:
        try:
            self.url.set_result(self.server.wait())
        except UsageError as error:
            self.url.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the pipe was closed by `stop`, or the answer is not JSON
            self.url.set_exception(UsageError(f"llama.cpp did not start: {error}"))


def _stop_all(servers: dict[str, _Shared]) -> None:
    while servers:
        servers.popitem()[1].server.stop()


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:
        # Something has blocked the module.
        return False


def _config(model: str, path: Path) -> dict[str, Any]:
    """Return the configuration for a file, as `llama_process.serve` reads it, without the key.

    Raises UsageError if it is missing or not a GGUF file, or if the variable with the context is invalid.
    """
    try:
        if path.is_dir():
            raise UsageError(f"`model={model}`: {path} is a folder; name the GGUF file in it")
        if not path.is_file():
            raise UsageError(f"`model={model}`: there is no file {path}")
        header, size = read_header(path), _size(path)
    except NotGguf as error:
        raise UsageError(f"`model={model}`: {error}; name a file with the ending .gguf") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"`model={model}`: {path} cannot be read: {reason}") from None
    free = free_memory()
    given = _given_context()
    context = given or context_that_fits(header, size, free)
    left = max((free or 0) - size - WORKING_MEMORY - context * (header.cache_per_token or 0), 0)
    return {
        "path": str(path),
        "name": path.name,
        "context": context,
        "threads": useful_threads(),
        "cache_mib": min(LARGEST_PROMPT_CACHE, left // CACHE_SHARE // MIB),
        "too_large": _too_large(header, size, free, context if given else SHORTEST_CONTEXT),
    }


def context_that_fits(header: ModelHeader, size: int, free: int | None) -> int:
    """Return the context length: that of the model, limited so that its cache fits half of the remaining memory.

    size: of the weights [bytes]. free: memory [bytes]; None if not known.
    """
    longest = header.context or UNKNOWN_CONTEXT
    if free is None or not header.cache_per_token:
        return min(longest, UNKNOWN_CONTEXT)
    fits = max(free - size - WORKING_MEMORY, 0) // CACHE_SHARE // header.cache_per_token
    return min(longest, max(fits // STEP * STEP, min(longest, SHORTEST_CONTEXT)))


def _too_large(header: ModelHeader, size: int, free: int | None, context: int) -> str:
    """Return why a model with this context does not fit the memory; empty if it fits, or if that is unknown."""
    cache = context * (header.cache_per_token or 0)
    needed = size + cache + WORKING_MEMORY
    if free is None or needed <= free:
        return ""
    return (
        f"the model needs {_gigabytes(needed)} of memory ({_gigabytes(size)} for the weights, {_gigabytes(cache)} for "
        f"a context of {context:,} tokens), but only {_gigabytes(free)} are free; use a smaller file"
    )


def _given_context() -> int | None:
    """Return the context length that the user has set; raises UsageError if it is invalid."""
    text = os.environ.get(CONTEXT_VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= STEP):  # noqa: PLR2004
        raise UsageError(f"{CONTEXT_VARIABLE}: must be a number of tokens of at least {STEP}, got {text[:40]!r}")
    return int(text)


def _size(path: Path) -> int:
    """Return the size of the weights, including all parts of a split file [bytes]."""
    found = _PART.search(path.name)
    if not found:
        return path.stat().st_size
    stem = path.name[: found.start()]
    parts = (path.with_name(f"{stem}-{number:05}-of-{found[1]}.gguf") for number in range(1, int(found[1]) + 1))
    return sum(part.stat().st_size for part in parts if part.is_file())


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"  # noqa: PLR2004 - the unit
