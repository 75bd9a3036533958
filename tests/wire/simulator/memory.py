"""The API's memory of its own replies: signatures of thinking blocks, paused turns, the calls of a tool loop."""

import base64
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .models import Model
from .prompt import THINKING, Block, canonical, digest

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

    def issue(self, content: Sequence[Block], *, prefix: bytes, mode: str, paused: bool) -> list[Block]:
        """Return the blocks with ids and signatures, and remember them.

        prefix: digest of the prompt that is answered. mode: see `thinking_mode`.
        """
        self._count += 1
        issued: list[Block] = []
        for index, block in enumerate(content):
            stamped = dict(block)
            if "input" in block and not block.get("id"):
                unique = digest(prefix, self._count.to_bytes(8, "big"), index.to_bytes(4, "big"))
                start = "toolu" if block["type"] == "tool_use" else "srvtoolu"
                stamped["id"] = f"{start}_{unique.hex()[:24]}"
            elif block["type"] == "thinking":
                stamped["signature"] = seal(prefix, block["thinking"])
            elif block["type"] == "redacted_thinking":
                stamped["data"] = f"{seal(prefix, block['data'])}.{block['data']}"
            prefix = digest(prefix, b"messages", b"assistant", canonical(stamped))
            issued.append(stamped)
        thoughts = tuple(canonical(block) for block in issued if block["type"] in THINKING)
        for block in issued:
            if "input" in block:
                self._calls[block["id"]] = Issued(thoughts, mode)
        if paused:
            self._paused.add(_whole(issued))
        return issued

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


def thinking_mode(body: Mapping[str, Any], model: Model) -> str:
    """Return `on`, `off` or `between_tools`: how the request thinks, by option or by the model's default."""
    kind = (body.get("thinking") or {}).get("type")
    if kind is None:
        return "on" if model.always_thinks else "off"
    return {"disabled": "off", "between_tools": "between_tools"}.get(kind, "on")


def _mac(prefix: bytes, words: str) -> bytes:
    data = prefix + words.encode("utf-8", "surrogatepass")
    return hmac.digest(_KEY, data, "sha256")[:_SIZE]


def _whole(content: Sequence[Block]) -> bytes:
    return b"\n".join(canonical(block) for block in content)
