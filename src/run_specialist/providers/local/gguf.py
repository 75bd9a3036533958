"""Read the facts from the header of a GGUF file that determine how much memory the model needs.

Source: the specification of GGUF, versions 2 and 3. The file is not trusted: every length is checked before use.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
_VERSIONS = {2, 3}
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_KEYS = 10_000
_LONGEST_KEY = 2**16
_LONGEST_ARRAY = 4_096
"""Longer arrays are skipped: needed ones have at most one item per layer."""
_MOST_SKIPPED = 2**21
"""Maximum number of texts in arrays, such as the vocabulary, that are skipped one by one; then reading ends."""
_KV_BYTES = 2
"""Size of one cache entry, 16 bits by default [bytes]."""
_LARGEST = 2**31


class NotGguf(ValueError):
    """The file is not a GGUF file, or its header cannot be read; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """The values of the header."""

    context: int | None = None
    """Length of the context that the model was trained with [tokens]; None = not stated."""
    cache_per_token: int | None = None
    """Cache memory per token of the context [bytes]; None = unknown."""


def read_header(path: Path) -> ModelHeader:
    """Return the facts in the header of a file.

    Raises NotGguf, or OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        try:
            return _header(_keys(file))
        except (struct.error, EOFError, OverflowError, MemoryError):
            raise NotGguf("its header is damaged or incomplete") from None


def _keys(file: BinaryIO) -> dict[str, object]:
    """Return the needed values of the header by key."""
    if file.read(4) != MAGIC:
        raise NotGguf("it is not a GGUF file")
    version, _, count = struct.unpack("<IQQ", file.read(20))
    if version not in _VERSIONS:
        raise NotGguf(f"its version of GGUF, {version}, is not supported")
    found: dict[str, object] = {}
    for _ in range(min(count, _MOST_KEYS)):
        key = _text(file, _LONGEST_KEY)
        (kind,) = struct.unpack("<I", file.read(4))
        if key.startswith("tokenizer.") and "general.architecture" in found:
            # What follows is large, and nothing that is needed comes after it.
            break
        found[key] = _value(file, kind)
    return found


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _STRING:
        return _text(file, _LARGEST)
    if kind == _ARRAY:
        return _array(file)
    if kind not in _SCALARS:
        raise NotGguf("its header is damaged or incomplete")
    code = f"<{_SCALARS[kind]}"
    return struct.unpack(code, file.read(struct.calcsize(code)))[0]


def _array(file: BinaryIO) -> list[object] | None:
    """Return the items of an array; None if it was skipped."""
    kind, count = struct.unpack("<IQ", file.read(12))
    if kind in _SCALARS and count > _LONGEST_ARRAY:
        file.seek(count * struct.calcsize(f"<{_SCALARS[kind]}"), 1)
        return None
    if kind == _ARRAY or count > _MOST_SKIPPED:
        raise NotGguf("its header is damaged or incomplete")
    items = [_value(file, kind) for _ in range(count)]
    return items if count <= _LONGEST_ARRAY else None


def _text(file: BinaryIO, longest: int) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > longest:
        raise NotGguf("its header is damaged or incomplete")
    data = file.read(length) if length <= _LONGEST_KEY else b""
    if length > _LONGEST_KEY:
        file.seek(length, 1)
    elif len(data) < length:
        raise EOFError
    return data.decode("utf-8", "replace")


def _header(found: dict[str, object]) -> ModelHeader:
    architecture = found.get("general.architecture")

    def numbers(name: str) -> list[int]:
        """Return a value as a list of positive integers: one per layer, or one for all layers."""
        value = found.get(f"{architecture}.{name}")
        items: Sequence[object] = value if isinstance(value, list) else [value]
        return [item for item in items if isinstance(item, int) and not isinstance(item, bool) and 0 < item < _LARGEST]

    def one(name: str) -> int | None:
        return next(iter(numbers(name)), None)

    layers, heads, width = one("block_count"), one("attention.head_count"), one("embedding_length")
    each = width // heads if width and heads else None
    key, value = one("attention.key_length") or each, one("attention.value_length") or each
    kv_heads = numbers("attention.head_count_kv") or numbers("attention.head_count")
    if not (layers and key and value and kv_heads):
        return ModelHeader(one("context_length"))
    # Models whose layers differ state the heads of each.
    all_heads = sum(kv_heads) if len(kv_heads) > 1 else layers * kv_heads[0]
    return ModelHeader(one("context_length"), all_heads * (key + value) * _KV_BYTES)
