"""The model, tools and limits that a run of a specialist would get, computed by `spawn` without running anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.loop.job import Job
from run_specialist.providers.choose import check_credentials, choose_models, default_reason, described
from run_specialist.providers.local_servers import prefix_of
from run_specialist.providers.models import Price, check_served, check_spelling
from run_specialist.record.messages import Usage
from run_specialist.spawning.extra_tools import wanted_by
from run_specialist.spawning.prompt_texts import AddedText, skills_claim
from run_specialist.spawning.spawner import LIMITS, DroppedTool, choose_tools, spawn
from run_specialist.spawning.trust import RunContext, model_claims
from run_specialist.specialist.checks import KEY
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.settings import Data, Setting, resolve
from run_specialist.specialist.skills import missing_skill
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.tools.base import Tool

_OTHER_LIMITS = ("parallel_tools_limit", "tool_timeout", "tool_result_limit", "summarize_at")
# Settings for an environment that connects to nothing, imports nothing and searches nothing.
_NOT_STARTED: dict[str, Any] = {"python_tools": (), "mcp_servers": None, "required_mcp_servers": (), "paths": None}
_NOT_ALLOWED = "the imports, commands and servers of the file must be allowed once with --trust"


@dataclass(frozen=True, slots=True)
class EffectiveModel:
    """The model that a run would use."""

    name: str
    """The alias or id that was chosen."""
    id: str
    """The id in requests and outcomes."""
    source: str
    """The source of the choice: `line 4`, `SPECIALIST_MODEL` or a state of the environment."""
    price: Price | None
    """Price; None if it is unknown, or if the model costs nothing."""
    is_free: bool
    """True if no model is billed, as offline."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        price = self.price
        return {
            "name": self.name,
            "id": self.id,
            "source": self.source,
            "usd_per_million_tokens": price and {"input": price.input, "output": price.output},
            "higher_price_above_tokens": price and price.higher_above,
        }


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The model, tools and limits of a run."""

    model: EffectiveModel
    following: Sequence[EffectiveModel]
    """The fallback models, in order."""
    offered: Sequence[str] | None
    """Names of the tools in the first request, sorted; None if they cannot be determined, e.g. because none exists."""
    dropped: Sequence[DroppedTool]
    limits: Mapping[str, Setting]
    """By key of the file."""
    at_run_time: Sequence[str]
    """Details that are known only when a run begins."""
    added_to_prompt: Sequence[AddedText]
    """The additions to the prompt of the file."""
    cannot_run: Sequence[str]
    """Reasons why a run would not begin; empty if none is known."""

    def as_json(self, file: SpecialistFile) -> dict[str, Any]:
        """Return plain values; the lines are those of the file."""
        return {
            "tools": {
                "offered": None if self.offered is None else list(self.offered),
                "dropped": [
                    {"name": one.name, "reason": one.reason, "key": one.key, "line": file.lines.get(one.key or "")}
                    for one in self.dropped
                ],
            },
            "model": self.model.as_json(),
            "fallback_models": [one.as_json() for one in self.following],
            "limits": {key: limit.as_json() for key, limit in self.limits.items()},
            "added_to_prompt": [one.as_json() for one in self.added_to_prompt],
            "known_at_run_time": list(self.at_run_time),
            "cannot_run": list(self.cannot_run),
        }


async def effective_of(
    runner: Runner, file: SpecialistFile, settings: dict[str, Any], asked: str | None = None, data: Data | None = None
) -> EffectiveSettings:
    """Return what a run of a specialist gets.

    file: a file without errors.
    settings: those of the call, as for `Runner.prepare`.
    asked: the model of the call; None = that of the file, of the environment or of a config file.
    data: settings that are not the caller's own, such as those of a batch in a queue.
    """
    resolved = resolve(file, settings, data=data)
    settled, trust = resolved.settings, runner.environments.trust
    reasons, notes, models = list[str](), list[str](), list[EffectiveModel]()
    for name in choose_models(asked, settled.model, runner.default_model, settled.fallback_models).names:
        if models:
            is_own = name in settled.fallback_models
            source = str(resolved.origin(KEY)) if is_own else "SPECIALIST_MODEL or a config file"
            in_file = file.specialist is not None and name in file.specialist.fallback_models
            place = f"{file.place(KEY)}: {KEY}" if in_file else ""
        else:
            source = "the call" if asked else str(resolved.origin("model"))
            if not asked and settled.model in {None, "inherit"}:
                source = default_reason(runner.default_model)
            place = f"{file.place('model')}: model" if settled.model == name else ""
        try:
            check_spelling(name, place)
            check_served(name, place)
            if prefix_of(name) is None:
                check_credentials(name)
        except UsageError as error:
            reasons.append(str(error))
        one = described(name)
        is_free = one.provider.cost(Usage(1)) == 0
        models.append(EffectiveModel(name, one.provider.model, source, one.price, is_free))
    context = RunContext(file, settled, runner.root, trust, resolved.kinds)
    update = dict(_NOT_STARTED)
    if why := missing_skill(file, settled, runner.root) or trust.why_not(skills_claim(context)):
        reasons.append(f"{context.place('skills')}: {why}")
        update["skills"] = ()
    idle, model = replace(context, settings=settled.model_copy(update=update)), described(models[0].name)
    environment = await runner.environments.make(idle, model.provider, capped=resolved.capped)
    servers: Sequence[str] = ()
    try:
        declared = wanted_by(context)
        servers, claims = [*declared.servers], [declared.claim, *model_claims(context)]
        demands = [demand for claim in claims for demand in claim.demands]
        if refused := [f"{one.place}: would {one.action}; {one.refused}" for one in demands if one.refused]:
            reasons += refused
        elif not all(trust.allows(claim) for claim in claims):
            reasons.append(_NOT_ALLOWED)
    except UsageError as error:
        reasons.append(str(error))
    # Each function is called by its name, unless it defines another one itself.
    names = [reference.rpartition(":")[2].rpartition(".")[2] for reference in settled.python_tools]
    allowed = resolve_tools(None, settled.disallowed_tools, names).names
    functions = tuple(Tool(name, "", lambda: "") for name in names if name in allowed)
    if functions:
        notes.append(f"the names of {', '.join(settled.python_tools)}, which are imported then and may set others")
    if servers:
        notes.append(f"the tools of the MCP servers {', '.join(servers)}, with which get_tool_response is offered")
    if model.is_local:
        notes.append("the context of the local model, which may lower tool_result_limit and set summarize_at")
    environment = replace(environment, extra_tools=replace(environment.extra_tools, functions=functions))
    job: Job | None = None
    dropped: Sequence[DroppedTool] = ()
    try:
        job = spawn(file, settled, "", environment)
        _, dropped = choose_tools(file, settled, environment)
    except UsageError as error:
        reasons.append(str(error))
    limits = {key: getattr(settled if job is None else job.settings, key) for key in (*LIMITS, *_OTHER_LIMITS)}
    if job is not None:
        limits |= {key: job.budget[kind].limit for key, kind in LIMITS.items()}
    offered, added = None if job is None else job.opening.tools.names, environment.prompt_texts.texts
    shown = {key: Setting(key, value, resolved.origin(key)) for key, value in limits.items()}
    return EffectiveSettings(models[0], models[1:], offered, dropped, shown, notes, added, reasons)
