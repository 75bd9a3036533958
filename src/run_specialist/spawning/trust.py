"""Permissions that the user gave, stored by the content that they are for.

`RunContext.demands` is the one place that decides whether a value may have a power: by its origin and the table of
origins.
"""

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from run_specialist.errors import NotTrusted
from run_specialist.providers.local_servers import SERVERS, WEIGHTS, prefix_of, root_of
from run_specialist.providers.models import check_served, check_spelling
from run_specialist.specialist.checks import KEY
from run_specialist.specialist.fields import Rule, Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import NEVER, OriginKind, ValueOrigins, rule
from run_specialist.specialist.project import project_root
from run_specialist.store.location import default_folder
from run_specialist.tools.threads import in_thread

_FOLDER = "trusted"


@dataclass(frozen=True, slots=True)
class Demand:
    """One action that a file requires and the user has to allow."""

    place: str
    """Position of its key, as `file:line:column: key`."""
    action: str
    """Description, such as `start npx -y server` or `import app.tools`."""
    fingerprint: str | None
    """Text that changes with any of the files involved; None if they cannot all be known or compared."""
    refused: str = ""
    """Why trust cannot allow it, in one clause; empty if it can."""


def origins_of_stored(
    stored: Specialist, current: SpecialistFile, call: tuple[Specialist, ValueOrigins] | None = None
) -> ValueOrigins:
    """Return the origins of the settings of a stored run: others may have written to the store.

    A value has the origin of the same value in the call or in the specialist's current file; all others are data, also
    a default, which may allow more than the file does.
    call: the settings of the call that continues the run, with their origins; None if it only names the run.
    """
    known = [] if call is None else [call]
    of_current = ValueOrigins(dict.fromkeys(Specialist.model_fields, current.origin))
    # If the file is gone, only the defaults of this program are known.
    of_file = (Specialist(name="", description="", prompt=""), ValueOrigins())
    known.append(of_file if current.specialist is None else (current.specialist, of_current))
    kinds: dict[str, OriginKind] = {}
    for key, value in stored:
        kinds[key] = next((origins.of(key) for settings, origins in known if getattr(settings, key) == value), "data")
    return ValueOrigins(kinds)


@dataclass(frozen=True, slots=True)
class Claim:
    """A file with all actions that it requires."""

    file: Path
    digest: str
    """SHA-256 of its bytes."""
    project: Path
    demands: tuple[Demand, ...]

    @property
    def can_be_remembered(self) -> bool:
        """Whether every change of the files involved can be detected."""
        return all(demand.fingerprint is not None for demand in self.demands)

    @property
    def fingerprint(self) -> str:
        """Key under which trust is stored; the same content in another project has another key."""
        content = [os.path.realpath(self.project), self.digest, *(demand.fingerprint for demand in self.demands)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class Trust:
    """Permissions that this user has given, one small file per claim, so that no lock is needed."""

    def __init__(
        self, *, given: bool = False, folder: Path | None = None, on_allowed: Callable[[str], None] | None = None
    ) -> None:
        """Set the default answer and the folder.

        given: Allow every claim and store the permission.
        folder: Folder of the stored permissions; None for one in the user's data directory.
        on_allowed: Called, from any thread, with a line for each action that was not allowed before.
        """
        self._given = given
        self._on_allowed = on_allowed
        self._folder = folder
        self._allowed: set[str] = set()
        # The runs of a batch check the same claims at the same time, in threads.
        self._lock = threading.Lock()

    def check(self, claim: Claim) -> tuple[str, ...]:
        """Check that a claim is allowed; return warnings.

        Raises NotTrusted if the user has to allow it first.
        """
        if refused := [demand for demand in claim.demands if demand.refused]:
            raise NotTrusted("; ".join(f"{one.place}: would {one.action}; {one.refused}" for one in refused))
        if not claim.demands or claim.fingerprint in self._allowed:
            return ()
        known = self._is_stored(claim)
        if not known and not self._given:
            wants = "; ".join(f"{demand.place}: would {demand.action}" for demand in claim.demands)
            once = "not every file that it executes can be known and compared, so it must be allowed each time"
            raise NotTrusted(
                f"{wants}; this is not allowed yet, or has changed since; review it, then allow it once with "
                f"`trust=True`{'' if claim.can_be_remembered else f' ({once})'}"
            )
        warnings = () if known or not claim.can_be_remembered else self._store(claim)
        with self._lock:
            is_first = claim.fingerprint not in self._allowed
            self._allowed.add(claim.fingerprint)
        if is_first and not known and self._on_allowed is not None:
            until = "remembered until it changes" if claim.can_be_remembered and not warnings else "not remembered"
            for demand in claim.demands:
                self._on_allowed(f"{demand.place}: `trust` allows it to {demand.action}; {until}")
        return warnings

    def allows(self, claim: Claim) -> bool:
        """Return whether `check` would raise nothing."""
        return not self.why_not(claim)

    def why_not(self, claim: Claim) -> str:
        """Return why a claim is not allowed, and how to allow it, in one clause; empty if it is allowed."""
        for demand in claim.demands:
            if demand.refused:
                return f"it would {demand.action}; {demand.refused}"
        if self._given or claim.fingerprint in self._allowed or self.is_known(claim):
            return ""
        return f"it would {claim.demands[0].action}; allow it once, with --trust"

    def is_known(self, claim: Claim) -> bool:
        """Return whether the claim is allowed already or requires nothing."""
        return not claim.demands or (not any(one.refused for one in claim.demands) and self._is_stored(claim))

    def _is_stored(self, claim: Claim) -> bool:
        with suppress(OSError, ValueError, RecursionError):
            stored = json.loads(self._path(claim).read_bytes()) if claim.can_be_remembered else None
            return isinstance(stored, dict) and stored.get("mark") == claim.fingerprint
        return False

    def _store(self, claim: Claim) -> tuple[str, ...]:
        path = self._path(claim)
        permission = {
            "mark": claim.fingerprint,
            "file": str(claim.file),
            "project": str(claim.project),
            "allowed": [demand.action for demand in claim.demands],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Concurrent readers see the old content, or no file.
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
                json.dump(permission, file, indent=1)
            Path(file.name).replace(path)
        except OSError as error:
            return (
                f"cannot store the permission in {path.parent} ({error.strerror or error}); it ends with this process",
            )
        return ()

    def _path(self, claim: Claim) -> Path:
        return (self._folder or default_folder() / _FOLDER) / f"{claim.fingerprint}.json"


@dataclass(frozen=True)
class RunContext:
    """A specialist in a folder: its settings with their origins, and what its user has allowed."""

    file: SpecialistFile
    """The file in its current state."""
    settings: Specialist
    root: Path
    """The folder that the file tools can read."""
    trust: Trust = field(default_factory=Trust)
    origins: ValueOrigins | None = None
    """Those of the settings; None = all are those of the file."""
    resumed: bool = False
    """Whether the settings are those stored with a run, which has its prompt already."""

    @cached_property
    def project(self) -> Path:
        """The project that contains the root."""
        return project_root(self.root)

    def place(self, key: str) -> str:
        """Return a key with its place in the file, for messages."""
        return f"{self.file.place(key)}: {key}"

    def rule(self, key: str) -> Rule:
        """Return what the value of a setting may do, by its origin."""
        return rule(key, self.file.origin if self.origins is None else self.origins.of(key))

    def demands(
        self, keys: Sequence[str], action: str, fingerprint: str | None, *, of_project: bool = False
    ) -> list[Demand]:
        """Return what the user has to allow before settings get a power; empty if their origin is enough.

        keys: the settings that together ask for the power; the least trusted one decides, the first one is reported.
        of_project: whether content of the project is used, such as a module, so that even the user's own file needs
            trust.
        """
        rules = {self.rule(key) for key in keys}
        refused = NEVER if rules & {"never", "allowed"} else ""
        if not refused and "trust" not in rules and not of_project:
            return []
        return [Demand(self.place(keys[0]), action, fingerprint, refused)]

    def claim(self, demands: Iterable[Demand]) -> Claim:
        """Return the claim with these demands, each once."""
        return Claim(self.file.path, self.file.digest, self.project, tuple(dict.fromkeys(demands)))


async def check_model(context: RunContext, model: str, key: str) -> Sequence[str]:
    """Check that the model of a file may be used; return warnings.

    model: as the file, or a stored run, names it; models that are not local need credentials instead of trust.
    key: names the model in the file.
    Raises UsageError for a misspelt name and for one that no endpoint can serve, and NotTrusted if the user has to
    allow a local model first.
    """
    check_spelling(model, context.place(key))
    check_served(model, context.place(key))
    # Disks may be slow and must not block the event loop.
    return await in_thread(lambda: context.trust.check(model_claim(context, model, key))) if prefix_of(model) else ()


def model_claims(context: RunContext) -> list[Claim]:
    """Return the permission that a file needs for each local model that its settings name."""
    settings = context.settings
    named = [("model", settings.model or ""), *((KEY, model) for model in settings.fallback_models)]
    return [model_claim(context, model, key) for key, model in named if prefix_of(model)]


def model_claim(context: RunContext, model: str, key: str) -> Claim:
    """Return the permission for a file with a local model; without demands if it and the weights are the user's own.

    key: names the model in the file.
    """
    found = context.rule(key)
    demand = local_demand(context.place(key), model, context.project, own=found == "free")
    if demand is not None and found not in {"free", "trust"}:
        demand = replace(demand, refused="neither its file nor the call names this model; name it with `model`")
    return context.claim([demand] if demand else [])


def local_demand(place: str, model: str, project: Path, *, own: bool) -> Demand | None:
    """Return the permission for a local model; None if it needs none.

    place: position of the key.
    own: whether the user wrote the key.
    """
    prefix = prefix_of(model) or ""
    if prefix != WEIGHTS:
        server = SERVERS[prefix]
        # If the variable is set, the user has chosen the server. The default port may belong to any user here.
        if own or os.environ.get(server.endpoint.url, "").strip():
            return None
        address = root_of(server.base_url)
        return Demand(place, f"send the question and the tool results to {server.title} at {address}", address)
    # Weights are parsed by native code.
    path = Path(os.path.realpath(Path(model.removeprefix(WEIGHTS)).expanduser()))
    if own and not path.is_relative_to(os.path.realpath(project)):
        return None
    # Reading gigabytes before each run would take too long. Programs cannot set `st_ctime`, as they can `st_mtime`.
    fingerprint = f"{path} missing"
    with suppress(OSError):
        found = path.stat()
        fingerprint = f"{path} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    return Demand(place, f"load {path}", fingerprint)
