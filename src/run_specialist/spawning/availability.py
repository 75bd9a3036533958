"""Say what cannot work here, and why: the model, the tools, the paths of a file; and what fits a question."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

from run_specialist.budget import Budget, Kind
from run_specialist.errors import NothingToRead, RunSpecialistError, ToolError, UsageError
from run_specialist.providers.choose import check_credentials, choose_model, why_offline
from run_specialist.providers.local_servers import prefix_of
from run_specialist.spawning.trust import Claim, RunContext, Trust, model_claims
from run_specialist.specialist.dialects import unserved
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers import missing_server, servers_of
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.problems import Problem, shown
from run_specialist.specialist.skills import missing_skill
from run_specialist.tools.sandbox import ELSE, Sandbox, chosen, holds_any
from run_specialist.tools.threads import in_thread, within

VARIABLE = "SPECIALIST_REQUIRE_MODEL"
"""Environment variable that requires a model for every run."""
_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Whether all runs require a language model, or only runs whose file requires one."""

    is_required: bool = False
    """Whether every run requires a model."""
    by: str = ""
    """The environment variable that requires it; empty if the caller does."""

    @classmethod
    def of(cls, require: bool | None) -> "ModelRule":  # noqa: FBT001 - as the argument of `Runner`
        """Return the rule for a program or a command.

        require: None = as the environment variable says, where an unclear value counts as yes.
        """
        if require is None:
            is_on = os.environ.get(VARIABLE, "").strip().lower() not in _OFF
            return cls(is_on, VARIABLE)
        return cls(require)

    def refusal(self, settings: Specialist, why: str) -> str:
        """Return why a specialist cannot be asked without a model, in one clause; empty if it can.

        why: why there is no model, and how to get one.
        """
        if settings.offline == "refuse":
            return f"the answer is a judgement (offline: refuse) and needs a model, but {why}"
        by = f" ({self.by})" if self.by else ""
        return f"a model is required{by}, but {why}" if self.is_required else ""

    def check(self, file: SpecialistFile, settings: Specialist, why: str) -> None:
        """Raise UsageError if a specialist cannot be asked without a model.

        why: as for `refusal`.
        """
        if refusal := self.refusal(settings, why):
            by_file = settings.offline == "refuse" and "offline" in file.lines
            raise UsageError(f"{file.place('offline') if by_file else settings.name}: {refusal}")


# Timeout of the search for the files of all specialists; those not checked in time count as available [s].
_LONGEST_LOOK = 1.0
# Returns why the model of a specialist prevents a run, in one clause; empty if it does not.
_ModelObstacle = Callable[[Specialist], str]


def model_obstacle(rule: ModelRule, settings: Specialist, default: str | None, asked: str | None = None) -> str:
    """Return why the model of a specialist prevents a run: a required one, or its credentials, are missing.

    default: the model of a config file.
    asked: the model of the call.
    """
    why = why_offline(asked, settings.model, default)
    if refusal := rule.refusal(settings, why) if why else "":
        return refusal
    model = choose_model(asked, settings.model, default, settings.fallback_models)
    if why := unserved(model):
        return f"{model}: {why}"
    try:
        if prefix_of(model) is None:
            check_credentials(model)
    except UsageError as error:
        return str(error)
    return ""


def obstacles(
    files: Iterable[SpecialistFile], root: Path, of_model: _ModelObstacle, seconds: float = _LONGEST_LOOK
) -> Mapping[Path, str]:
    """Return why specialists cannot work here, by the path of their file; omits those that can.

    root: the folder that the file tools can read.
    seconds: maximum time.
    """
    end = time.monotonic() + seconds
    found: dict[Path, str] = {}
    for file in files:
        if (settings := file.specialist) is None:
            continue  # its errors are reported already
        lacking = missing_server(settings, servers_of(settings, root)) if settings.required_mcp_servers else ""
        lacking = lacking or (missing_skill(file, settings, root) if settings.skills else "")
        if why := lacking or _path_obstacle(settings, root, end) or of_model(settings):
            found[file.path] = why
    return found


def sentences(files: Iterable[SpecialistFile], reasons: Mapping[Path, str]) -> list[str]:
    """Return one line per reason, with the names of all specialists affected by it.

    reasons: as `obstacles` returns them.
    """
    names: dict[str, list[str]] = {}
    for file in files:
        if file.path in reasons:
            names.setdefault(reasons[file.path], []).append(shown(file.name))
    return [f"{', '.join(named)} cannot work here: {shown(why, None)}" for why, named in names.items()]


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


def no_file(root: Path, paths: Sequence[str]) -> str:
    """Return the clause that no file matches."""
    return f"no file under {root} matches {', '.join(paths).replace(f'{ELSE}, ', f'{ELSE} ') or 'an empty list'}"


async def check_paths(file: SpecialistFile, settings: Specialist, root: Path) -> tuple[float, tuple[str, ...]]:
    """Look for one file that matches `paths`, in a thread; return how long that took [s], and warnings.

    If its first alternative has none, a warning names those that are read instead.
    If the search exceeds `tool_timeout` or the time until the run's landing, the run starts anyway, with a warning.
    Raises NothingToRead if no file matches, UsageError if the root cannot be listed.
    """
    if settings.paths is None:
        return 0, ()
    paths, begun, place = settings.paths, time.monotonic(), f"{file.place('paths')}: paths"
    left = Budget.of({Kind.TIME: settings.time_limit})[Kind.TIME].until_landing

    def look() -> tuple[bool, list[str]]:
        used = chosen(root, paths)
        # An alternative to the first paths is named in a warning, without the parts that match nothing.
        is_first = used == paths[: len(used)]
        instead = [] if is_first else [one for one in used if holds_any(Sandbox(root, [one]))]
        return bool(instead) or (bool(used) and is_first and holds_any(Sandbox(root, used))), instead

    try:
        async with asyncio.timeout(settings.tool_timeout if left is None else min(settings.tool_timeout, left)):
            found, instead = await in_thread(look)
    except TimeoutError:
        seconds = time.monotonic() - begun
        return seconds, (f"{place}: no matching file was found within {seconds:.3g} s",)
    except ToolError as error:
        raise UsageError(f"{place}: {error}") from error
    if not found:
        raise NothingToRead(
            f"{place}: {no_file(root, paths)}; set another folder with `root`, or create a specialist for the files "
            "there with `specialists new`"
        )
    missing = ", ".join(paths[: paths.index(ELSE)] if instead else ())
    warning = f"{place}: no file matches {missing}; these are read instead: {', '.join(instead)}"
    return time.monotonic() - begun, (warning,) if instead else ()


def with_trust_noted(files: Sequence[SpecialistFile], root: Path, trust: Trust) -> list[SpecialistFile]:
    """Return files with a notice for each tool that needs trust, and does not have it yet."""
    from run_specialist.spawning.extra_tools import offer_claims  # noqa: PLC0415 - fast `specialists list`

    noted = []
    for file in files:
        context = RunContext(file, file.specialist, root, trust) if file.specialist else None
        notices: list[Problem] = []
        for name, key, claim in offer_claims(context) if context else ():
            if not trust.is_known(claim):
                text = f"`{name}` is offered once it is allowed with --trust: it would {claim.demands[0].action}"
                notices.append(Problem(file.path, file.lines.get(key, 1), 1, key, text, "notice"))
        noted.append(file.with_problems((*file.problems, *notices)))
    return noted


# As in a project, where each power needs a permission.
_OF_PROJECT = ValueOrigins(dict.fromkeys(Specialist.model_fields, "project"))


def _claims(context: RunContext) -> list[Claim]:
    from run_specialist.spawning.extra_tools import offer_claims, wanted_by  # noqa: PLC0415 - as above

    claims = [claim for _, _, claim in offer_claims(context)]
    with suppress(UsageError):  # without its module it cannot run
        claims.append(wanted_by(context).claim)
    return claims


def powers(context: RunContext) -> list[str]:
    """Return what a specialist may do beyond reading its project, as far as it is allowed that itself."""
    asked, needed = (_claims(one) for one in (replace(context, origins=_OF_PROJECT), context))
    allowed = (power for power, claim in zip(asked, needed, strict=True) if context.trust.allows(claim))
    return [demand.action for power in allowed for demand in power.demands]


def only_reads(file: SpecialistFile, root: Path) -> bool:
    """Return whether a run only reads the project and needs no permission, so that its user need not name it."""
    if file.specialist is None:
        return False
    from run_specialist.spawning.prompt_texts import skills_claim  # noqa: PLC0415 - as above

    context, trust = RunContext(file, file.specialist, root), Trust()
    claims = (*_claims(replace(context, origins=_OF_PROJECT)), *model_claims(context), skills_claim(context))
    return not any(claim.demands and not trust.is_known(claim) for claim in claims)


# Words that search ignores, but that tell an explanation from a reason.
_TELLING = frozenset({"how", "where", "why"})
# Part of a question that is compared [characters].
_COMPARED = 4_000


def best_first(question: str, files: Sequence[SpecialistFile], default: str) -> list[SpecialistFile]:
    """Return files by how well names and descriptions fit a question; among equals, the default is the first.

    Each word that a text shares with the question counts by its rarity, in relation to the length of the text.
    Source: BM25, with the words of a name counted twice.
    """
    from run_specialist.tools.search import STOP_WORDS, parts, stem, tokens  # noqa: PLC0415 - as above

    def words(text: str) -> list[str]:
        found = (part for token in tokens(text) for part in parts(token))
        return [stem(part) for part in found if part not in STOP_WORDS or part in _TELLING]

    texts = [Counter(words(f"{file.name} {file.name} {file.description}")) for file in files]
    asked = sorted({*words(question[:_COMPARED])})
    usual = sum(text.total() for text in texts) / max(len(texts), 1)
    rarity = {word: log((len(texts) + 1) / (sum(word in text for text in texts) + 0.5)) for word in asked}

    def fit(place: int) -> float:
        text, file = texts[place], files[place]
        named = words(file.name)
        shared = sum(rarity[word] * (2 if word in named else 1) for word in asked if word in text)
        return shared / (0.25 + 0.75 * text.total() / usual)

    order = sorted(range(len(files)), key=lambda place: (-fit(place), files[place].name != default))
    return [files[place] for place in order]
