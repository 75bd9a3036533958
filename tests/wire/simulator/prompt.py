"""The prompt behind a request body: its blocks in the order tools, system, messages."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Block = dict[str, Any]
Level = Literal["tools", "system", "messages"]

THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True)
class Segment:
    """Hold one block of the prompt and where it came from."""

    level: Level
    where: str
    """Path in the body, such as `messages.3.content.0`."""
    block: Block
    data: bytes
    """The block as the model reads it: serialised, without cache markers."""
    role: str = ""
    message: int = -1
    ttl: str | None = None
    """Lifetime asked for by the cache marker on this block, None without a marker."""

    @property
    def kind(self) -> str:
        """Return the block's type; a tool definition is of type `tool`."""
        return "tool" if self.level == "tools" else str(self.block.get("type"))

    @property
    def can_be_cached(self) -> bool:
        """Tell whether a cache marker may stand here."""
        return self.kind not in THINKING and not (self.kind == "text" and not self.block.get("text"))


def as_blocks(content: object) -> list[Block]:
    """Return content as blocks: a string is short for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, Sequence) else []


def serialise(value: object) -> bytes:
    """Return compact UTF-8 JSON; a quarter of its length counts as the tokens of a block."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def canonical(block: Mapping[str, Any]) -> bytes:
    """Return what the model reads of a block, the same bytes for two spellings of one prompt.

    Cache markers, absent options and the order of a block's own keys are not part of the prompt. The order of
    keys within a tool's input or schema is.
    """
    return serialise(_plain(block))


def _plain(block: Mapping[str, Any]) -> Block:
    kept = {key: block[key] for key in sorted(block) if key != "cache_control" and block[key] is not None}
    if kept.get("type") == "tool_result":
        if kept.get("is_error") is False:
            del kept["is_error"]
        kept["content"] = [_plain(part) for part in as_blocks(kept.get("content"))]
    return kept


def segments(body: Mapping[str, Any]) -> list[Segment]:
    """Return every block of a request whose shape has been checked."""
    return [*_tools(body), *_system(body), *_messages(body)]


def tokens(size: int) -> int:
    """Return the tokens of so many bytes of prompt."""
    return size // 4


def digest(before: bytes, *parts: bytes) -> bytes:
    """Return the digest of a prefix that is longer by `parts`."""
    state = hashlib.blake2b(before, digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def prefixes(blocks: Sequence[Segment]) -> list[bytes]:
    """Return the digest of the prompt before each block, and at the end that of the whole prompt.

    Independent of options such as `tool_choice`; messages of one role in a row count as one.
    """
    found = [b""]
    for segment in blocks:
        found.append(digest(found[-1], segment.level.encode(), segment.role.encode(), segment.data))
    return found


def _ttl(block: Mapping[str, Any]) -> str | None:
    marker = block.get("cache_control")
    return None if marker is None else str(marker.get("ttl", "5m"))


def _tools(body: Mapping[str, Any]) -> Iterator[Segment]:
    for index, tool in enumerate(body.get("tools") or ()):
        yield Segment("tools", f"tools.{index}", tool, canonical(tool), ttl=_ttl(tool))


def _system(body: Mapping[str, Any]) -> Iterator[Segment]:
    system = body.get("system")
    if system == "":
        return
    for index, block in enumerate(as_blocks(system)):
        yield Segment("system", f"system.{index}", block, canonical(block), ttl=_ttl(block))


def _messages(body: Mapping[str, Any]) -> Iterator[Segment]:
    for number, message in enumerate(body["messages"]):
        for index, block in enumerate(as_blocks(message["content"])):
            ttl = _ttl(block)
            if block.get("type") == "tool_result":  # a marker on a part of a result counts for the result
                inner = [_ttl(part) for part in as_blocks(block.get("content"))]
                ttl = next((mark for mark in (ttl, *inner) if mark), None)
            yield Segment(
                "messages",
                f"messages.{number}.content.{index}",
                block,
                canonical(block),
                role=message["role"],
                message=number,
                ttl=ttl,
            )
