"""Search for known secrets in everything that a test produced."""

import sqlite3
import traceback
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

PIECE = 10
"""Length of a piece that counts as a leak [characters]."""


def values_with_secret(secret: str, *told: object) -> list[str]:
    """Return what contains a piece of a secret: texts, values as text, and errors including their causes."""
    pieces = {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}
    return [one[:2_000] for one in map(_text, told) if any(piece in one for piece in pieces)]


def stored(folder: Path) -> Iterator[str]:
    """Yield the contents of all files below a folder as text, and the unpacked values of stores."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            yield path.read_bytes().decode("utf-8", "replace")
    for path in folder.rglob("*.db"):
        with closing(sqlite3.connect(path)) as store:
            names = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
            for name in names:
                for row in store.execute(f"select * from {name}"):  # noqa: S608 - a name from the store itself
                    yield from map(_unpacked, row)


def _unpacked(value: object) -> str:
    if not isinstance(value, bytes) or not value:
        return str(value)
    rest = zlib.decompress(value[1:]) if value[0] == 1 else value
    return rest.decode("utf-8", "replace")


def _text(one: object) -> str:
    if isinstance(one, BaseException):
        return "".join(traceback.format_exception(one)) + repr(one)
    return one if isinstance(one, str) else f"{one!r} {one}"
