"""The values of a batch that every host needs to run its items: specialist's file, settings, and name of the root."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True, slots=True)
class FrozenBatch:
    """The part of a batch that is the same on every host."""

    name: str
    """Name of the specialist."""
    content: str
    """Content of the specialist's file."""
    digest: str
    """SHA-256 of the file."""
    place: str
    """Path of the file, relative to the root if it is below it."""
    root: str
    """Name of the root folder; its path differs between workers."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the call, by key."""
    model: str | None = None
    at_once: int = 0
    """How many items the whole fleet may work on at the same time; 0 = any number."""
    typical_cost: float = 0.0
    """Cost of an item, from past runs; 0 = unknown [USD]."""

    def as_json(self) -> dict[str, Any]:
        """Return the value that the store keeps."""
        return {
            "file": {"name": self.name, "content": self.content, "digest": self.digest, "place": self.place},
            "root": self.root,
            "settings": dict(self.settings),
            "model": self.model,
            "at_once": self.at_once,
            "typical_cost": self.typical_cost,
        }

    @classmethod
    def from_json(cls, frozen: Mapping[str, Any]) -> "FrozenBatch":
        """Return the batch that `as_json` described; raises KeyError for other values."""
        file = frozen["file"]
        return cls(
            file["name"],
            file["content"],
            file["digest"],
            file["place"],
            frozen["root"],
            frozen["settings"],
            frozen["model"],
            frozen["at_once"],
            frozen["typical_cost"],
        )

    def file_on_this_host(self, root: Path, copies: Path) -> Path:
        """Return a file with this content: the one below the root if it is the same, else a copy.

        copies: folder for the copy, which contains no other specialist of this name.
        """
        here = root / self.place
        try:
            if hashlib.sha256(here.read_bytes()).hexdigest() == self.digest:
                return here
        except OSError:
            pass
        copies.mkdir(parents=True, exist_ok=True)
        copy = copies / (Path(self.place).name or f"{self.name}.md")
        copy.write_bytes(self.content.encode())
        return copy


def freeze(
    file: SpecialistFile, root: Path, settings: Mapping[str, Any], model: str | None = None, at_once: int = 0
) -> FrozenBatch:
    """Return the frozen values of a specialist's file; raises UsageError if it cannot be frozen.

    root: the root folder of the file tools; other hosts know it by its name.
    """
    data = file.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != file.digest:
        raise UsageError(f"{file.path}: changed while it was read; call the command again")
    try:
        content = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file.path}: is not UTF-8 text, which a batch for a queue needs; convert it") from None
    path, top = file.path.resolve(), root.resolve()
    place = path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name
    return FrozenBatch(file.name, content, file.digest, place, root_name(root), dict(settings), model, at_once)


def root_name(root: Path) -> str:
    """Return the name by which other hosts know a root: that of its folder."""
    return root.resolve().name or "root"
