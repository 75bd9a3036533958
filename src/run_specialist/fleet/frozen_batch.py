"""The values of a batch that every host needs to run its items: specialist's file, settings, and name of the root."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.safe_files.safe_open import open_file
from run_specialist.specialist.loader import LARGEST, SpecialistFile, load
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry


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
            frozen.get("settings", {}),
            frozen.get("model"),
            frozen.get("at_once", 0),
            frozen.get("typical_cost", 0.0),
        )

    def file_on_this_host(self, registry: Registry, root: Path, copies: Path) -> SpecialistFile:
        """Return the specialist's file: the same one below the root or of this host, else a copy, which is data.

        Others may have written to the queue, so a copy gets no power, even with trust.
        registry: of the specialists of this host.
        copies: folder for the copy, which contains no other specialist.
        Raises UsageError for a place outside of the root, and for a content that is not that of the digest.
        """
        place = PurePosixPath(self.place.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or "\0" in self.place or Path(self.place).anchor:
            raise UsageError(f"the place of its file, {shown(self.place)}, is not below the root")
        with suppress(OSError, ValueError), open_file(root / place, root) as opened:
            if hashlib.sha256(opened.read(LARGEST + 1)).hexdigest() == self.digest:
                return registry.find(str(root / place))
        with suppress(UsageError):
            if (known := registry.find(self.name)).digest == self.digest:
                return known
        content = self.content.encode()
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise UsageError("the content of its file is not that of its digest")
        copies.mkdir(parents=True, exist_ok=True)
        copy = copies / (place.name or "specialist.md")
        copy.write_bytes(content)
        return replace(load(copy, copies), given_origin="data")


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
