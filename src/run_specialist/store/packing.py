"""Text from outside, as bytes: a lone surrogate or a NUL would spoil the transaction of all who share it.

The first byte says whether the rest is compressed.
"""

import zlib

PACKED_FROM = 2_000
"""Longer texts are compressed [bytes]."""


def pack(text: str) -> bytes:
    """Encode a text, and pack it where it is long."""
    plain = text.encode("utf-8", "surrogatepass")
    return b"\0" + plain if len(plain) < PACKED_FROM else b"\1" + zlib.compress(plain, 1)


def unpack(packed: bytes) -> str:
    """Return the text as it was."""
    rest = bytes(packed[1:])
    return (zlib.decompress(rest) if packed[0] else rest).decode("utf-8", "surrogatepass")
