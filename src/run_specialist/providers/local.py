"""Providers of local models; one server for each file with weights."""

import asyncio
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.installation import adding
from run_specialist.providers.choose import NO_KEY, chat_client
from run_specialist.providers.errors import tidy
from run_specialist.providers.local_servers import (
    LLAMACPP,
    LMSTUDIO,
    OLLAMA,
    SERVERS,
    VLLM,
    WEIGHTS,
    WEIGHTS_ENDPOINT,
    LocalServer,
    is_loopback,
    root_of,
)
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:
    import httpx2


PATIENCE = 10.0
"""Timeout for the end of a killed process [s]."""
_SCRIPT = Path(__file__).with_name("llama_process.py")
_LONGEST_LINE = 2_000
_KEPT_LINES = 200
_ERROR = re.compile(r"^[\d.]+ E (?:[\w ~]{0,12} )?\s*\w*: (.*)$")
_LOADING = "error loading model: "
_UNKNOWN = "Failed to init server"
"""The message that xllamacpp gives for every failure; the real reason is in the log of llama.cpp."""


class LlamaServer:
    """A server that is loading, running or ended."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        """Start the process; `wait` returns when the model is loaded.

        name: of the model, for messages.
        config: as `llama_process.serve` reads it.
        """
        self._name = name
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)
        self._stopped = False
        # Threads that wait actively would slow down one another and this program.
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a script of this package
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Ctrl-C on the terminal is for this program, which then lands or ends its runs first.
            start_new_session=True,
        )
        self._drain = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._drain.start()
        with suppress(OSError):
            self._input.write(json.dumps(dict(config)).encode() + b"\n")
            self._input.flush()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        return self._process.stdin

    def wait(self) -> str:
        """Block until the model is loaded, and return the URL of the server.

        Raises UsageError with the reason if it cannot be loaded.
        """
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        line = self._process.stdout.readline()
        answer = json.loads(line) if line.endswith(b"\n") else {}
        if url := answer.get("url"):
            return str(url)
        self._process.wait()
        self._drain.join(PATIENCE)
        raise UsageError(f"`model={self._name}`: {self._reason(answer.get('error', ''))}")

    def failure(self, patience: float = 0) -> str:
        """Return why the server has ended; empty while it runs.

        patience: how long to wait for a process that is about to end [s].
        """
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return ""
        return f"llama.cpp ended while it served {self._name}: {self._reason('')}"

    def stop(self) -> None:
        """End the process and wait for its end; nothing in it needs to be saved."""
        self._stopped = True
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._drain.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError, AttributeError):
                pipe.close()  # type: ignore[union-attr] # all are pipes

    def _read_log(self, log: IO[bytes]) -> None:
        # The terminal stays clean; the last lines are kept, because they have the reason of a failure.
        with suppress(OSError, ValueError):
            while line := log.readline(_LONGEST_LINE):
                self._log.append(line.decode("utf-8", "replace").rstrip())

    def _reason(self, error: str) -> str:
        if error and _UNKNOWN not in error:
            return tidy(error)
        if found := reason_in(self._log):
            return tidy(found)
        code = self._process.poll() or 0
        if self._stopped:
            return "it was stopped"
        if code == -signal.SIGKILL:
            return "the system killed it, probably because the memory was full; use a smaller file"
        return f"llama.cpp ended with code {code}" + (f" ({tidy(self._log[-1])})" if self._log else "")


def reason_in(log: Iterable[str]) -> str:
    """Return the reason of a failure from the log of llama.cpp; empty if the log has none.

    log: lines like `0.00.005.005 E llama_model_load: error loading model: ...`, or output of the interpreter.
    """
    errors = [found[1] for line in log if (found := _ERROR.match(line))]
    for text in errors:
        if _LOADING in text:
            return text.partition(_LOADING)[2]
    return errors[0] if errors else ""


CONTEXT_VARIABLE = "SPECIALIST_LOCAL_CONTEXT"
"""Environment variable with the length of the context [tokens]."""
SHORTEST_CONTEXT = 256
"""Minimum of that variable [tokens]."""
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
        # What llama.cpp has chosen: the context of the model, or less if the memory is short of it.
        (props,) = await ask_all(url, shared.key, [PROPS])
        return with_context(provider, of_llamacpp(props.value))

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
                    report(f"loading {path.name} ({_size(path)})")
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
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise UsageError(f"`model={model}`: it is not a GGUF file; name a file with the ending .gguf")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"`model={model}`: {path} cannot be read: {reason}") from None
    return {"path": str(path), "name": path.name, "context": _given_context() or 0}


def _given_context() -> int | None:
    """Return the context length that the user has set; raises UsageError if it is invalid."""
    text = os.environ.get(CONTEXT_VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= SHORTEST_CONTEXT):  # noqa: PLR2004
        raise UsageError(
            f"{CONTEXT_VARIABLE}: must be a number of tokens of at least {SHORTEST_CONTEXT}, got {text[:40]!r}"
        )
    return int(text)


def _size(path: Path) -> str:
    """Return the size of the weights, including all parts of a split file, with its unit."""
    size = path.stat().st_size
    if found := _PART.search(path.name):
        stem = path.name[: found.start()]
        parts = (path.with_name(f"{stem}-{number:05}-of-{found[1]}.gguf") for number in range(1, int(found[1]) + 1))
        size = sum(part.stat().st_size for part in parts if part.is_file())
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"  # noqa: PLR2004 - the unit


QUERY_PATIENCE = 2.0
"""Timeout of all queries together [s]."""
LARGEST_ANSWER = 512 * 1024
"""Maximum size of a response; the largest real one has 120 KB of license texts and tensor names [bytes]."""


class NothingListens(RunSpecialistError):
    """The server does not accept connections."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """One request to a server."""

    path: str
    """Relative to the root of the server, with a leading slash."""
    body: Mapping[str, Any] | None = None
    """Sent with POST as JSON; None = GET."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """The response of a server."""

    status: int = 0
    """HTTP status; 0 = no response in time, or one that was too long."""
    value: Any = None
    """The parsed JSON; None if there is none."""


async def ask_all(root: str, key: str, questions: Sequence[ServerRequest]) -> list[ServerResponse]:
    """Ask questions concurrently and return the answers in their order.

    root: URL of the server.
    key: sent as a bearer token if not empty.
    Raises NothingListens if the server does not accept connections.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    # A proxy must not see what goes to a server on this machine, and could not reach it.
    async with httpx2.AsyncClient(headers=headers, timeout=QUERY_PATIENCE, trust_env=not is_loopback(root)) as client:
        return await asyncio.gather(*(_ask(client, root, question) for question in questions))


async def _ask(client: "httpx2.AsyncClient", root: str, question: ServerRequest) -> ServerResponse:
    import httpx2  # noqa: PLC0415 - as above

    method = "GET" if question.body is None else "POST"
    try:
        async with (
            asyncio.timeout(QUERY_PATIENCE),
            client.stream(method, root + question.path, json=question.body) as response,
        ):
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > LARGEST_ANSWER:
                    return ServerResponse()
            return ServerResponse(response.status_code, _parsed(bytes(body)))
    except httpx2.ConnectError as error:
        raise NothingListens(str(error)) from error
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError):
        return ServerResponse()


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


SHORTEST_SERVED_CONTEXT, LONGEST_CONTEXT = 256, 2**25
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
    return value if SHORTEST_SERVED_CONTEXT <= value <= LONGEST_CONTEXT else None


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


DEFAULT_CONTEXT = 4_096
"""Default context length with which Ollama and LM Studio load a model [tokens]."""
REPLY_SHARE = 4
"""A reply takes at most one part in this many of the context."""
MODELS, PROPS = ServerRequest("/v1/models"), ServerRequest("/props")
_MOST_LISTED = 10
_MOST_DIGITS = 9
_NOT_FOUND = 404


async def local_provider(model: str) -> ChatProvider:
    """Return the provider of a model whose id has the prefix of a local server.

    Raises UsageError if nothing listens there, if the server does not have the model, or if the configuration is
    invalid.
    """
    prefix, _, name = model.partition(":")
    server, name = SERVERS[f"{prefix}:"], name.strip()
    try:
        url = server.base_url
    except ValueError as error:
        raise UsageError(f"{server.endpoint.url}: {error}") from None
    client = chat_client(model, server.endpoint, api_key=server.key or NO_KEY, base_url=url, direct=is_loopback(url))
    try:
        name, context = await _find(server, name, root_of(url))
    except NothingListens:
        await client.close()
        raise UsageError(
            f"nothing listens at {root_of(url)}; start {server.title} ({server.start}), or set {server.endpoint.url}"
        ) from None
    except BaseException:
        await client.close()
        raise
    return with_context(ChatProvider(name, client, server.endpoint), context)


def with_context(provider: ChatProvider, context: ContextLength) -> ChatProvider:
    """Return a provider that knows the length of its context, which bounds its replies."""
    if context.tokens is not None:
        known = provider.capabilities
        provider.capabilities = replace(
            known,
            max_output_tokens=min(known.max_output_tokens, max(context.tokens // REPLY_SHARE, 1)),
            context_tokens=context.tokens,
            context_note=context.note,
        )
    return provider


async def _find(server: LocalServer, name: str, root: str) -> tuple[str, ContextLength]:
    """Return the server's name of a model, and the length of its context.

    name: as the user wrote it; may be empty only for llama.cpp.
    """
    if server is LLAMACPP:
        return await _llamacpp(name, root)
    if not name:
        (listed,) = await ask_all(root, server.key, [MODELS])
        raise UsageError(f"`model={server.prefix}` needs the name of a model; {_on_offer(server, root, listed)}")
    if server is OLLAMA:
        return name, await _ollama(name, root)
    if server is LMSTUDIO:
        native, listed = await ask_all(root, server.key, [ServerRequest("/api/v0/models"), MODELS])
        return name, of_lmstudio(name, native.value, listed.value, DEFAULT_CONTEXT)
    (listed,) = await ask_all(root, server.key, [MODELS])
    names = model_names(listed.value)
    if names and name not in names:
        raise UsageError(f"{VLLM.title} has no model {name}; {_on_offer(server, root, listed)}")
    return name, of_vllm(name, listed.value)


async def _llamacpp(name: str, root: str) -> tuple[str, ContextLength]:
    listed, props = await ask_all(root, LLAMACPP.key, [MODELS, PROPS])
    if not name:
        names = loaded_names(listed.value)
        if len(names) != 1:
            raise UsageError(
                f"`model={LLAMACPP.prefix}` needs the name of a model, unless exactly one is loaded; "
                f"{_on_offer(LLAMACPP, root, listed)}"
            )
        name = names[0]
    return name, of_llamacpp(props.value)


async def _ollama(name: str, root: str) -> ContextLength:
    shown, running, listed = await ask_all(
        root, OLLAMA.key, [ServerRequest("/api/show", {"model": name}), ServerRequest("/api/ps"), MODELS]
    )
    if shown.status == _NOT_FOUND and isinstance(shown.value, dict):
        raise UsageError(
            f"{OLLAMA.title} has no model {name}; get it with `ollama pull {name}`; {_on_offer(OLLAMA, root, listed)}"
        )
    given = os.environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
    assumed = length(int(given)) if given.isdecimal() and len(given) <= _MOST_DIGITS else None
    return of_ollama(name, shown.value, running.value, assumed, DEFAULT_CONTEXT)


def _on_offer(server: LocalServer, root: str, listed: ServerResponse) -> str:
    """Return the models that a server lists, as the end of a message."""
    names = model_names(listed.value)
    if names:
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        return f"{root} has {', '.join(names[:_MOST_LISTED])}{more}"
    if isinstance(listed.value, dict) and listed.value.get("data") in ([], None) and listed.status == 200:  # noqa: PLR2004
        return f"{root} has no models yet"
    why = f" (HTTP {listed.status}; set {server.endpoint.key})" if listed.status in {401, 403} else ""
    return f"{root} does not list its models{why}"
