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


def unpack(packed: bytes, most: int | None = None) -> str:
    """Return the original text.

    most: maximum size [bytes]; None = any.
    Raises zlib.error, ValueError or IndexError for other bytes than those of `pack`, and for a larger text.
    """
    rest = bytes(packed[1:])
    if packed[0] and most is None:
        rest = zlib.decompress(rest)
    elif packed[0] and most is not None:
        reader = zlib.decompressobj()
        rest = reader.decompress(rest, most + 1)
        if not reader.eof and len(rest) <= most:
            raise zlib.error("incomplete or truncated stream")
    if most is not None and len(rest) > most:
        raise ValueError(f"it is larger than {most // 1024**2} MiB")
    return rest.decode("utf-8", "surrogatepass")
