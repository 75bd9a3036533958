"""Find specialists that cannot work here, with the reasons: a missing model, credentials or files."""

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.providers.choose import check_credentials, why_offline
from run_specialist.providers.chosen_models import choose_model
from run_specialist.providers.local.local_servers import prefix_of
from run_specialist.spawning.model_rule import ModelRule
from run_specialist.spawning.paths_check import no_file
from run_specialist.spawning.prompt_texts import missing_skill
from run_specialist.spawning.required_servers import missing_server
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.foreign_models import unserved
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers.servers import servers_of
from run_specialist.specialist.problems import shown
from run_specialist.tools.sandbox.listing import holds_any
from run_specialist.tools.sandbox.sandbox import Sandbox
from run_specialist.tools.search.terms import content_terms
from run_specialist.tools.threads import within

LONGEST_LOOK = 1.0
"""Timeout of the search for the files of all specialists; those not checked in time count as available [s]."""
MOST_NAMED = 3
"""Maximum number of specialists that a message names."""
_ALIKE = 0.6
"""Minimum similarity of words in two names that count as alike, such as analyzer and analyst."""
_WORD = re.compile(r"[^\W_]{3,}")

ModelObstacle = Callable[[Specialist], str]
"""Returns why the model of a specialist prevents a run, in one clause; empty if it does not."""


def without_model(rule: ModelRule, settings: Specialist, default: str | None) -> str:
    """Return why a specialist that needs a model cannot be asked, in one clause; empty if it can.

    default: the model of a config file.
    """
    why = why_offline(None, settings.model, default)
    return rule.refusal(settings, why) if why else ""


def without_credentials(settings: Specialist, default: str | None) -> str:
    """Return the credentials that are missing for a specialist's model; empty for none, and for a local model.

    default: the model of a config file.
    """
    model = choose_model(None, settings.model, default, settings.fallback_models)
    if why := unserved(model):
        return f"{model}: {why}"
    try:
        if prefix_of(model) is None:
            check_credentials(model)
    except UsageError as error:
        return str(error)
    return ""


def obstacles(
    files: Iterable[SpecialistFile], root: Path, of_model: ModelObstacle, seconds: float = LONGEST_LOOK
) -> Mapping[Path, str]:
    """Return why specialists cannot work here, by the path of their file; omits those that can.

    root: the folder that the file tools can read.
    seconds: maximum time.
    """
    end = time.monotonic() + seconds
    found = {file.path: _obstacle(file, root, of_model, end) for file in files}
    return {path: why for path, why in found.items() if why}


def sentences(files: Iterable[SpecialistFile], reasons: Mapping[Path, str]) -> list[str]:
    """Return one line per reason, with the names of all specialists affected by it.

    reasons: as `obstacles` returns them.
    """
    names: dict[str, list[str]] = {}
    for file in files:
        if file.path in reasons:
            names.setdefault(reasons[file.path], []).append(shown(file.name))
    return [f"{', '.join(named)} cannot work here: {shown(why, None)}" for why, named in names.items()]


def alternatives(file: SpecialistFile, question: str, working: Sequence[SpecialistFile]) -> str:
    """Return, as a clause, specialists that can be asked instead, the most similar first; empty if there are none.

    working: the specialists that can work here.
    """
    others = [one for one in working if one.name != file.name]
    asked = _words(question)
    ranked = sorted(others, key=lambda one: -_similarity(file, one, asked))[:MOST_NAMED]
    if not ranked:
        return ""
    first, *more = (one.name for one in ranked)
    also = f", as {'does' if len(more) == 1 else 'do'} {' and '.join(more)}" if more else ""
    return f"{first} works here{also}"


def _obstacle(file: SpecialistFile, root: Path, of_model: ModelObstacle, end: float) -> str:
    settings = file.specialist
    if settings is None:
        return ""  # its errors are reported already
    lacking = missing_server(settings, servers_of(settings, root)) if settings.required_mcp_servers else ""
    lacking = lacking or (missing_skill(file, settings, root) if settings.skills else "")
    return lacking or _path_obstacle(settings, root, end) or of_model(settings)


def _path_obstacle(settings: Specialist, root: Path, end: float) -> str:
    paths, left = settings.paths, end - time.monotonic()
    if paths is None or left <= 0:
        return ""
    try:
        if not paths or not within(left, lambda: holds_any(Sandbox(root, paths))):
            return no_file(root, paths)
    except TimeoutError:
        return ""
    except (RunSpecialistError, OSError) as error:
        return str(error)
    return ""


def _similarity(file: SpecialistFile, other: SpecialistFile, asked: frozenset[str]) -> float:
    """Return how similar two specialists are by name and description, and how much of a question the other mentions."""
    pairs = [(one, two) for one in _WORD.findall(file.name[:100]) for two in _WORD.findall(other.name[:100])]
    closest = max((difflib.SequenceMatcher(None, one, two).ratio() for one, two in pairs), default=0)
    names = closest if closest >= _ALIKE else 0
    own, others = _words(file.description), _words(f"{other.name} {other.description}")
    shared = len(own & others) / max(len(own | others), 1)
    return names + shared + len(asked & others) / max(len(asked), 1)


def _words(text: str) -> frozenset[str]:
    return frozenset(content_terms(text[:4000].casefold()))
