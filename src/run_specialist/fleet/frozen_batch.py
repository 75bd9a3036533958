"""The values of a batch that every host needs to run its items: specialist's file, settings, and name of the root."""

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.fleet.roots import root_ids, root_name
from run_specialist.safe_files.safe_write import read_content
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry

MOST_AT_ONCE = 1_000_000
"""Maximum number of items that a batch may ask the fleet to work on at the same time."""


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
    """The model of all runs, one or several names; None = the one that the file names."""
    require_model: bool = False
    """Whether no item may be answered offline."""
    root_ids: tuple[str, ...] = ()
    """Ids of the root where the batch was put into the queue, see `roots.root_ids`."""
    at_once: int = 0
    """How many items the whole fleet may work on at the same time; 0 = any number."""
    typical_cost: float = 0.0
    """Cost of an item, from past runs; 0 = unknown [USD]."""
    priority: int = 0
    """Batches with a higher priority are taken first."""

    def as_json(self) -> dict[str, Any]:
        """Return the value that the store keeps."""
        return {
            "file": {"name": self.name, "content": self.content, "digest": self.digest, "place": self.place},
            "root": self.root,
            "root_ids": [*self.root_ids],
            "settings": dict(self.settings),
            "model": self.model,
            "require_model": self.require_model,
            "at_once": self.at_once,
            "typical_cost": self.typical_cost,
            "priority": self.priority,
        }

    @classmethod
    def from_json(cls, frozen: Mapping[str, Any]) -> "FrozenBatch":
        """Return the batch that `as_json` described; raises UsageError for other values."""
        file = _value(frozen, "file", dict)
        model = frozen.get("model")
        batch = cls(
            _value(file, "name", str),
            _value(file, "content", str),
            _value(file, "digest", str),
            _value(file, "place", str),
            _value(frozen, "root", str),
            _value(frozen, "settings", dict, {}),
            None if model is None else _value(frozen, "model", str),
            _value(frozen, "require_model", bool, default=False),
            tuple(_value(frozen, "root_ids", list, [])),
            _value(frozen, "at_once", int, 0),
            float(_value(frozen, "typical_cost", (int, float), 0.0)),
            _value(frozen, "priority", int, 0),
        )
        if not 0 <= batch.at_once <= MOST_AT_ONCE or not 0 <= batch.typical_cost < math.inf:
            raise UsageError("at_once or typical_cost is out of range")
        if not all(isinstance(one, str) for one in batch.root_ids):
            raise UsageError("root_ids must be texts")
        try:
            digest = hashlib.sha256(batch.content.encode()).hexdigest()
        except UnicodeEncodeError:
            digest = ""
        if digest != batch.digest:
            raise UsageError("the content of its file does not have its digest")
        return batch

    def file_on_this_host(self, registry: Registry, root: Path, copies: Path) -> SpecialistFile:
        """Return the specialist's file: the same one below the root or of this host, else a copy, which is data.

        Others may have written to the queue, so a copy gets no power, even with trust.
        registry: of the specialists of this host.
        copies: folder for the copy, which contains no other specialist.
        Raises UsageError for a place outside of the root.
        """
        place = PurePosixPath(self.place.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or "\0" in self.place or Path(self.place).anchor:
            raise UsageError(f"the place of its file, {shown(self.place)}, is not below the root")
        data = self.content.encode()
        # A place may also be a FIFO or a device, which would be read for ever.
        with suppress(OSError, ValueError):
            if read_content(root, str(place), len(data)) == data:
                return registry.find(str(root / place))
        with suppress(UsageError):
            if (known := registry.find(self.name)).digest == self.digest:
                return known
        copies.mkdir(parents=True, exist_ok=True)
        copy = copies / (place.name or "specialist.md")
        copy.write_bytes(data)
        return replace(load(copy, copies), given_origin="data")


def _value(values: Mapping[str, Any], key: str, kind: type | tuple[type, ...], default: object = None) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value; raises UsageError if it is missing without a default, or of another type."""
    value = values.get(key, default)
    if value is None:
        raise UsageError(f"{key!r} is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{key!r} is of the type {type(value).__name__}")
    return value


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
    return FrozenBatch(
        file.name,
        content,
        file.digest,
        place,
        root_name(root),
        dict(settings),
        model,
        root_ids=tuple(root_ids(root)),
        at_once=at_once,
    )
