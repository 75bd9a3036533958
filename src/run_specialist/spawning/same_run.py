"""Check that a stored run matches the call that names its id."""

from collections.abc import Iterator, Mapping
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.spawning.origin import digest, digests, settings_of
from run_specialist.spawning.spawner import answer_schema
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.store.known_run import KnownRun

SHOWN = 60
"""Maximum length of a value in an error [characters]."""


def check_same(known: KnownRun, file: SpecialistFile, settings: Specialist, question: str, *, force: bool) -> None:
    """Raise UsageError with each difference unless a stored run has this question and this specialist.

    force: ignore a changed file and other settings; another question or specialist is always another run.
    """
    found = [("question", known.question, question), ("specialist", known.specialist, settings.name)]
    differences = [_difference(name, then, now) for name, then, now in found if then != now]
    if not force:
        differences += _of_file_or_settings(known.frozen, file, settings)
    if differences:
        raise UsageError(f"{known.run_id} is stored as another run: {'; '.join(differences)}; use another id")


def _of_file_or_settings(frozen: Mapping[str, Any], file: SpecialistFile, settings: Specialist) -> Iterator[str]:
    if frozen["digest"] != (now := file.digest or digest(file.path)):
        # Settings of the file may differ as well.
        yield f"{file.path} has another content, {digests(frozen['digest'], now)}"
        return
    begun = Specialist.model_validate(frozen["settings"], extra="ignore")
    stored = settings_of(begun, None) | frozen.get("begun_limits", {})
    wanted = settings_of(settings, answer_schema(file, settings))
    stored["output_schema"] = frozen["settings"].get("output_schema")
    # Settings that were not given depend on the model and the version of this program.
    for key in sorted(settings.model_fields_set | {*frozen.get("given", begun.model_fields_set)}):
        if key in wanted and stored.get(key) != wanted[key]:
            yield _difference(key, stored.get(key), wanted[key])


def _difference(name: str, then: object, now: object) -> str:
    return f"{name} was {_short(then)} and is {_short(now)}"


def _short(value: object) -> str:
    return "none" if value is None else shown(str(value), SHOWN)
