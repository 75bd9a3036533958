"""One item of a batch: its input, and the question made from it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Input = str | Mapping[str, Any]
"""A text, or fields by name, with JSON values."""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """An input as it was read."""

    input: Input
    where: str = ""
    """Place of the input, `file:line` or the path of a file; empty for an input from a program."""
    content: str = ""
    """Digest of a file that the input names; empty for none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One input, and the question about it."""

    number: int
    """Its position in the batch, from 1."""
    input: Input
    question: str
    key: str
    """16 hexadecimal digits that stay the same when the batch is called again; see `keyed`."""
    where: str = ""
    """Place of the input, for errors; see `InputRecord`."""


@dataclass(frozen=True, slots=True)
class UnnumberedItem:
    """An input with its question, before it has a number and a key."""

    input: Input
    question: str
    content: str = ""
    """Digest of a file that the input names; empty for none."""
    where: str = ""
    """Place of the input, for errors; see `InputRecord`."""


def keyed(asked: Iterable[UnnumberedItem]) -> Iterator[Item]:
    """Number inputs and give each a key: the same input, question and file content have the same key in every call.

    Equal inputs get different keys, by how often the input occurred before.
    """
    seen: dict[bytes, int] = {}
    for number, one in enumerate(asked, 1):
        text = json.dumps([one.input, one.question, one.content], sort_keys=True, ensure_ascii=True)
        digest = hashlib.sha256(text.encode()).digest()
        count = seen[digest[:8]] = seen.get(digest[:8], 0) + 1
        key = digest if count == 1 else hashlib.sha256(digest + str(count).encode()).digest()
        yield Item(number, one.input, one.question, key[:8].hex(), one.where)
