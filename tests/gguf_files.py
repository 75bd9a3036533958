"""GGUF files that consist of a header only."""

import struct
from typing import Any


def text(value: str) -> bytes:
    """Return a string as the format stores it."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """Return a value with its type: a string, an integer, or an array of either."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, list):
        kind = 8 if item and isinstance(item[0], str) else 4
        parts = [text(one) if kind == 8 else struct.pack("<I", one) for one in item]
        return struct.pack("<IIQ", 9, kind, len(item)) + b"".join(parts)
    return struct.pack("<II", 4, item)


def gguf(version: int = 3, **keys: Any) -> bytes:
    """Return a file with these keys; `__` means a dot."""
    pairs = [text(name.replace("__", ".")) + value(item) for name, item in keys.items()]
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + b"".join(pairs)


def llama(context: int = 8192, layers: int = 30, heads: Any = 3, **keys: Any) -> bytes:
    """Return the header of a small model, with the keys of SmolLM2-135M; its cache takes 23,040 bytes a token."""
    given = {
        "general__architecture": "llama",
        "general__tags": ["a", "b"],
        "llama__context_length": context,
        "llama__block_count": layers,
        "llama__embedding_length": 576,
        "llama__attention__head_count": 9,
        "llama__attention__head_count_kv": heads,
    }
    return gguf(**(given | keys), tokenizer__ggml__tokens=["<s>"] * 9)
