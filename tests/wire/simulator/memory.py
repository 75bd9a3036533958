"""The API's memory of its own replies: signatures of thinking blocks, paused turns, the calls of a tool loop."""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .models import Model
from .prompt import THINKING, Block, canonical, digest

SERVER_RESULT = re.compile(r"[a-z_]+_tool_result")
EXCEEDED = {
    "web_search": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    "web_fetch": {"type": "web_fetch_tool_result_error", "error_code": "max_uses_exceeded"},
}
"""The content of the result of a use beyond `max_uses`, by the name of the tool."""
_KEY = b"the simulator's seal; no secret"
_SIZE = 16


@dataclass(frozen=True)
class Issued:
    """Hold the facts needed later about a reply with a tool call."""

    thoughts: tuple[bytes, ...]
    mode: str


class Memory:
    """Sign outgoing replies and recognise them when they are sent back."""

    def __init__(self) -> None:
        self._calls: dict[str, Issued] = {}
        self._paused: set[bytes] = set()
        self._count = 0
        self._server: dict[tuple[str, str], bytes] = {}

    def issue(
        self,
        content: Sequence[Block],
        *,
        prefix: bytes,
        mode: str,
        paused: bool,
        max_uses: Mapping[str, int | None] | None = None,
        waiting: Sequence[Block] = (),
    ) -> list[Block]:
        """Return the blocks with ids and signatures, and remember them.

        prefix: digest of the prompt that is answered. mode: see `thinking_mode`.
        max_uses: bounds of the tools that the API runs, by name; a use beyond them gets an error as its result.
        waiting: uses in the prompt without a result.
        """
        self._count += 1
        issued: list[Block] = []
        left, open_uses = dict(max_uses or {}), [*waiting]
        for index, block in enumerate(content):
            stamped = _answered(dict(block), left, open_uses)
            if "input" in block and not block.get("id"):
                unique = digest(prefix, self._count.to_bytes(8, "big"), index.to_bytes(4, "big"))
                start = "toolu" if block["type"] == "tool_use" else "srvtoolu"
                stamped["id"] = f"{start}_{unique.hex()[:24]}"
                open_uses += [stamped] if start == "srvtoolu" else []
            elif block["type"] == "thinking":
                stamped["signature"] = seal(prefix, block["thinking"])
            elif block["type"] == "redacted_thinking":
                stamped["data"] = f"{seal(prefix, block['data'])}.{block['data']}"
            prefix = digest(prefix, b"messages", b"assistant", canonical(stamped))
            issued.append(stamped)
        self._server |= {key: canonical(block) for block in issued if (key := _server_key(block)) is not None}
        thoughts = tuple(canonical(block) for block in issued if block["type"] in THINKING)
        for block in issued:
            if "input" in block:
                self._calls[block["id"]] = Issued(thoughts, mode)
        if paused:
            self._paused.add(_whole(issued))
        return issued

    def server_block(self, block: Mapping[str, Any]) -> bytes | None:
        """Return a block of one of the API's own tools as it was sent; None if it is unknown or none."""
        key = _server_key(block)
        return None if key is None else self._server.get(key)

    def call(self, call_id: object) -> Issued | None:
        """Return what is known of the reply that held this call."""
        return self._calls.get(call_id) if isinstance(call_id, str) else None

    def is_paused(self, content: Sequence[Block]) -> bool:
        """Tell whether this is a turn that was sent with `pause_turn`."""
        return _whole(content) in self._paused


def seal(prefix: bytes, words: str) -> str:
    """Return a signature over a thought and the prompt in front of it."""
    return base64.b64encode(prefix.ljust(_SIZE, b"\0") + _mac(prefix, words)).decode()


def sealed_prefix(block: Mapping[str, Any]) -> bytes | None:
    """Return the digest of the prompt that a thinking block belongs to; None if it is not ours or was edited."""
    if block["type"] == "thinking":
        signature, words = block["signature"], block["thinking"]
    else:
        signature, _, words = block["data"].partition(".")
    try:
        raw = base64.b64decode(signature, validate=True)
    except ValueError:
        return None
    prefix = raw[:_SIZE]
    return prefix if hmac.compare_digest(raw[_SIZE:], _mac(prefix, words)) else None


def _answered(result: Block, left: dict[str, int | None], waiting: list[Block]) -> Block:
    """Return a result with the id of the oldest use that waits for it; an error once `left` is used up."""
    if _server_key(result) is None or result["type"] == "server_tool_use":
        return result
    name = result["type"].removesuffix("_tool_result")
    place = next(place for place, use in enumerate(waiting) if use["name"] == name)
    content, bound = result["content"], left.get(name)
    if bound is not None:
        content = content if bound > 0 else EXCEEDED[name]
        left[name] = bound - 1
    if isinstance(content, list):
        content = [{**one, "encrypted_content": encrypted(one)} for one in content]
    return {**result, "tool_use_id": waiting.pop(place)["id"], "content": content}


def is_sealed(result: Mapping[str, Any]) -> bool:
    """Tell whether the content of a search result belongs to its title and address."""
    return result.get("encrypted_content") == encrypted(result)


def thinking_mode(body: Mapping[str, Any], model: Model) -> str:
    """Return `on`, `off` or `between_tools`: how the request thinks, by option or by the model's default."""
    kind = (body.get("thinking") or {}).get("type")
    if kind is None:
        return "on" if model.always_thinks else "off"
    return {"disabled": "off", "between_tools": "between_tools"}.get(kind, "on")


def encrypted(result: Mapping[str, Any]) -> str:
    """Return the content of a search result, which only the API can read."""
    words = f"{result.get('title')} {result.get('url')}"
    return base64.b64encode(_mac(b"search", words) * 40).decode()


def _server_key(block: Mapping[str, Any]) -> tuple[str, str] | None:
    kind = str(block["type"])
    if kind == "server_tool_use":
        return kind, str(block.get("id"))
    is_result = kind != "tool_result" and SERVER_RESULT.fullmatch(kind)
    return (kind, str(block.get("tool_use_id"))) if is_result else None


def _mac(prefix: bytes, words: str) -> bytes:
    data = prefix + words.encode("utf-8", "surrogatepass")
    return hmac.digest(_KEY, data, "sha256")[:_SIZE]


def _whole(content: Sequence[Block]) -> bytes:
    return b"\n".join(canonical(block) for block in content)
