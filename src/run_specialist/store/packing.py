"""Encode untrusted text as bytes: a lone surrogate or a NUL in a text column would fail the whole transaction.

The first byte is 1 if the rest is compressed with zlib, else 0.
"""

import zlib

PACKED_FROM = 2_000
"""Minimum size of compressed texts [bytes]."""


def pack(text: str) -> bytes:
    """Encode a text, compressed if it is long."""
    plain = text.encode("utf-8", "surrogatepass")
    return b"\0" + plain if len(plain) < PACKED_FROM else b"\1" + zlib.compress(plain, 1)


def unpack(packed: bytes) -> str:
    """Return the original text."""
    rest = bytes(packed[1:])
    return (zlib.decompress(rest) if packed[0] else rest).decode("utf-8", "surrogatepass")
