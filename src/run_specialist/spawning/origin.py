"""The stored origin of a run: file, settings, project, and the limits that differ from the file."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from run_specialist.budget.budget import Kind
from run_specialist.providers.model_chain import models_of
from run_specialist.safe_files.safe_open import open_file
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers.servers import without_secrets
from run_specialist.specialist.project import project_path
from run_specialist.specialist.resolve import resolve

_DIGITS = 12
"""Number of characters of a digest in a message."""


def origin(
    file: SpecialistFile,
    settings: Specialist,
    schema: AnswerSchema | None,
    environment: RunEnvironment,
    warnings: Sequence[str],
) -> Mapping[str, Any]:
    """Return the JSON values from which the same job can be built again, even if the file has changed."""
    overridden = _overridden(file, settings)
    return {
        "settings": settings_of(settings, schema),
        "given": sorted(settings.model_fields_set),
        "file": str(file.path),
        # The digest of the content that was read: the file may have changed since.
        "digest": file.digest or digest(file.path),
        "root": str(environment.root),
        "project": project_path(environment.root),
        "changed_limits": _changed_limits(overridden, is_child=environment.parent is not None),
        "overridden": overridden,
        "given_tools": [tool.name for tool in environment.tools],
        "parents": environment.parent.names if environment.parent else (),
        "warnings": list(warnings),
        **({"dry_run": True} if environment.patch is not None else {}),
        **({"models": models} if len(models := [one.model for one in models_of(environment.provider)]) > 1 else {}),
    }


def settings_of(settings: Specialist, schema: AnswerSchema | None) -> dict[str, Any]:
    """Return settings as a run stores them.

    schema: the content of `output_schema`.
    """
    replaced = {
        "output_schema": schema and dict(schema.schema),
        "mcp_servers": without_secrets(settings.mcp_servers),
        "path": None,
    }
    return settings.model_copy(update=replaced).model_dump(mode="json", by_alias=True)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; empty if it cannot be read or does not exist."""
    with suppress(OSError, ValueError), open_file(path, None) as file:
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def digests(begun: str, current: str) -> str:
    """Return a clause with the digest of the file that a run began with, and the current one."""
    return f"its digest was {begun[:_DIGITS] or 'none'} and is {current[:_DIGITS] or 'none'}"


def resumed(stored: Mapping[str, Any], changed: Sequence[Kind], question: str | None) -> Mapping[str, Any]:
    """Return the values that a resumption changes.

    stored: the values so far.
    changed: the limits that the resumption sets.
    question: a further question.
    """
    settings = stored["settings"]
    # By these the run is recognized when it is taken up.
    begun = {kind.key: settings[kind.key] for kind in changed if kind.key in settings} | stored.get("begun_limits", {})
    return {
        **({"begun_limits": begun} if begun else {}),
        "changed_limits": sorted({*stored["changed_limits"], *(kind.key for kind in changed)}),
        "questions": [*stored.get("questions", ()), *([question] if question else [])],
    }


def _overridden(file: SpecialistFile, settings: Specialist) -> list[str]:
    """Return the keys of settings that differ from the file, because of a flag or of a parent's smaller budget."""
    if file.specialist is None:
        return []
    by_file = resolve(file, {}).settings
    return [key for key in Specialist.model_fields if getattr(settings, key) != getattr(by_file, key)]


def _changed_limits(overridden: Collection[str], *, is_child: bool) -> list[str]:
    """Return the keys of limits that differ from the file.

    The time of a child does not count, because the parent's time always limits it.
    """
    return [kind.key for kind in Kind if kind.key in overridden and not (is_child and kind is Kind.TIME)]
