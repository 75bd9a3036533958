"""Trust in a local model that a file names: a project must not choose the weights or the server by itself."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from run_specialist.providers.local.local_servers import SERVERS, WEIGHTS, prefix_of, root_of
from run_specialist.providers.model_names import check_served, check_spelling
from run_specialist.spawning.trust import Claim, Demand, Trust
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.model_list import KEY
from run_specialist.specialist.origins import OriginKind, rule
from run_specialist.specialist.registry import project_root
from run_specialist.tools.threads import in_thread


async def check_model(  # noqa: PLR0913, PLR0917 - called in one place
    file: SpecialistFile, model: str | None, root: Path, trust: Trust, key: str, kind: OriginKind
) -> Sequence[str]:
    """Check that the model of a file may be used; return warnings.

    model: as the file, or a stored run, names it; models that are not local need credentials instead of trust.
    root: Folder visible to the file tools.
    key: names the model in the file.
    kind: origin of the name.
    Raises UsageError for a misspelt name and for one that no endpoint can serve, and NotTrusted if the user has to
    allow a local model first.
    """
    if model is None:
        return ()
    place = f"{file.place(key)}: {key}"
    check_spelling(model, place)
    check_served(model, place)
    if prefix_of(model) is None:
        return ()
    # Disks may be slow and must not block the event loop.
    warnings: Sequence[str] = await in_thread(lambda: trust.check(model_claim(file, model, root, key, kind)))
    return warnings


def model_claims(file: SpecialistFile, settings: Specialist, root: Path) -> list[Claim]:
    """Return the permission that a file needs for each local model that its settings name."""
    named = [("model", settings.model or ""), *((KEY, model) for model in settings.fallback_models)]
    return [model_claim(file, model, root, key, file.origin) for key, model in named if prefix_of(model)]


def model_claim(file: SpecialistFile, model: str, root: Path, key: str, kind: OriginKind) -> Claim:
    """Return the permission for a file with a local model; without demands if it and the weights are the user's own.

    key: names the model in the file.
    kind: origin of the name.
    """
    project = project_root(root)
    found, prefix = rule(key, kind), prefix_of(model) or ""
    place, own = f"{file.place(key)}: {key}", found == "free"
    demand = to_load(place, model, project, own=own) if prefix == WEIGHTS else to_ask(place, prefix, own=own)
    if demand is not None and found not in {"free", "trust"}:
        demand = replace(demand, refused="neither its file nor the call names this model; name it with `model`")
    return Claim(file.path, file.digest, project, (demand,) if demand else ())


def to_ask(place: str, prefix: str, *, own: bool) -> Demand | None:
    """Return the permission for a model on a local server.

    place: position of the key.
    prefix: one of those of `SERVERS`.
    own: whether the user wrote the key.
    """
    server = SERVERS[prefix]
    # If the variable is set, the user has chosen the server. The default port may belong to any user of the machine.
    if own or os.environ.get(server.endpoint.url, "").strip():
        return None
    address = root_of(server.base_url)
    action = f"send the question and the tool results to {server.title} at {address}"
    return Demand(place, action, address)


def to_load(place: str, model: str, project: Path, *, own: bool) -> Demand | None:
    """Return the permission for a file with weights; the arguments are those of `to_ask`."""
    # Weights are parsed by native code.
    path = Path(os.path.realpath(Path(model.removeprefix(WEIGHTS)).expanduser()))
    if own and not path.is_relative_to(os.path.realpath(project)):
        return None
    return Demand(place, f"load {path}", _fingerprint(path))


def _fingerprint(path: Path) -> str:
    """Return a text that changes with a file; reading gigabytes before each run would take too long."""
    try:
        found = path.stat()
    except OSError:
        return f"{path} missing"
    # The time of the last change of its entry cannot be set by programs, as the time of modification can.
    return f"{path} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
