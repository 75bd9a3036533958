"""Preview what a run of a `Runner` would get, without starting a model or server, and without imports."""

from dataclasses import replace
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.providers.choose import check_credentials, default_reason
from run_specialist.providers.chosen_models import choose_models
from run_specialist.providers.described import DescribedModel, described
from run_specialist.providers.local.local_servers import prefix_of
from run_specialist.providers.model_names import check_served, check_spelling
from run_specialist.spawning.effective import EffectiveModel, EffectiveSettings, effective
from run_specialist.spawning.extra_tools import ExtraTools, wanted_by
from run_specialist.spawning.model_trust import model_claims
from run_specialist.spawning.prompt_texts import missing_skill, skills_claim
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.model_list import KEY
from run_specialist.specialist.resolve import Data, ResolvedSettings, resolve
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.tools.base import Tool

_NOT_STARTED: dict[str, Any] = {"python_tools": (), "mcp_servers": None, "required_mcp_servers": (), "paths": None}
"""Settings for an environment that connects to nothing, imports nothing and searches nothing."""


_NOT_ALLOWED = "the imports, commands and servers of the file must be allowed once with --trust"


async def effective_of(
    runner: Runner,
    file: SpecialistFile,
    settings: dict[str, Any],
    asked: str | None = None,
    data: Data | None = None,
) -> EffectiveSettings:
    """Return what a run of a specialist gets.

    file: a file without errors.
    settings: those of the call, as for `Runner.prepare`.
    asked: the model of the call; None = that of the file, of the environment or of a config file.
    data: settings that are not the caller's own, such as those of a batch in a queue.
    """
    resolved = resolve(file, settings, data=data)
    settled = resolved.settings
    name, *others = choose_models(asked, settled.model, runner.default_model, settled.fallback_models).names
    model = described(name)
    source = "the call" if asked else str(resolved.origin("model"))
    if not asked and settled.model in {None, "inherit"}:
        source = default_reason(runner.default_model)
    environment, reasons, notes = await _environment(runner, file, resolved, model)
    found = effective(file, resolved, EffectiveModel.of(name, source, model), environment)
    place = f"{file.place('model')}: model" if settled.model == name else ""
    refusals = [*_refusals(name, place), *(line for one in others for line in _refusals(one, _place_of(file, one)))]
    reasons = [*refusals, *reasons, *found.cannot_run]
    following = tuple(EffectiveModel.of(one, _source_of(resolved, one), described(one)) for one in others)
    return replace(found, following=following, cannot_run=tuple(reasons), at_run_time=tuple(notes))


def _place_of(file: SpecialistFile, model: str) -> str:
    """Return the place where a file names a fallback model, as for `check_spelling`; empty if it names none."""
    named = file.specialist is not None and model in file.specialist.fallback_models
    return f"{file.place(KEY)}: {KEY}" if named else ""


def _source_of(resolved: ResolvedSettings, model: str) -> str:
    by_settings = model in resolved.settings.fallback_models
    return str(resolved.origin(KEY)) if by_settings else "SPECIALIST_MODEL or a config file"


def _refusals(model: str, place: str) -> list[str]:
    """Return the known reasons why a run with a model would not begin, without contacting the model.

    place: as for `check_spelling`.
    """
    try:
        check_spelling(model, place)
        check_served(model, place)
        if prefix_of(model) is None:
            check_credentials(model)
    except UsageError as error:
        return [str(error)]
    return []


async def _environment(
    runner: Runner, file: SpecialistFile, resolved: ResolvedSettings, model: DescribedModel
) -> tuple[RunEnvironment, list[str], list[str]]:
    """Return the environment of a run before anything is started, reasons not to run, and notes."""
    settled, origins = resolved.settings, resolved.kinds
    idle = settled.model_copy(update=_NOT_STARTED)
    reasons, notes = [], []
    if lacking := missing_skill(file, settled, runner.root):
        reasons.append(f"{file.place('skills')}: skills: {lacking}")
        idle = idle.model_copy(update={"skills": ()})
    elif why := runner.environments.trust.why_not(skills_claim(file, settled, runner.root, origins)):
        reasons.append(f"{file.place('skills')}: skills: {why}")
        idle = idle.model_copy(update={"skills": ()})
    environment = await runner.environments.make(
        runner.root, file, idle, model.provider, None, origins=origins, capped=resolved.capped
    )
    servers: list[str] = []
    try:
        declared = wanted_by(file, settled, runner.root, origins)
        servers = [*declared.servers]
        claims = [declared.claim]
        claims += model_claims(file, settled, runner.root)
        demands = [demand for claim in claims for demand in claim.demands]
        if refused := [f"{one.place}: would {one.action}; {one.refused}" for one in demands if one.refused]:
            reasons += refused
        elif not all(runner.environments.trust.allows(claim) for claim in claims):
            reasons.append(_NOT_ALLOWED)
    except UsageError as error:
        reasons.append(str(error))
    functions = tuple(_declared(reference) for reference in settled.python_tools)
    allowed = resolve_tools(None, settled.disallowed_tools, [tool.name for tool in functions]).names
    functions = tuple(tool for tool in functions if tool.name in allowed)
    if functions:
        notes.append(f"the names of {', '.join(settled.python_tools)}, which are imported then and may set others")
    if servers:
        notes.append(f"the tools of the MCP servers {', '.join(servers)}, with which get_tool_response is offered")
    if model.is_local:
        notes.append("the context of the local model, which may lower tool_result_limit and set summarize_at")
    extra_tools: ExtraTools = replace(environment.extra_tools, functions=functions)
    return replace(environment, extra_tools=extra_tools), reasons, notes


def _declared(reference: str) -> Tool:
    """Return a stand-in for a project function, with its name unless the function defines another one itself."""
    return Tool(reference.rpartition(":")[2].rpartition(".")[2], "", lambda: "")
