"""Typed fields of a specialist."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from run_specialist.budget.ladder import Style
from run_specialist.record.messages import CallFormat
from run_specialist.record.outcome import EvidencePolicy, OfflinePolicy
from run_specialist.specialist.field_types import (
    AsList,
    Count,
    Expected,
    FunctionName,
    InnerPath,
    Limit,
    Money,
    Names,
    OptionalCount,
    OptionalNames,
    Seconds,
    Share,
    Switch,
    Time,
    lower,
    none_word,
    path_not_markup,
)
from run_specialist.specialist.presets import Preset

MemoryScope = Literal["user", "project", "local"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]


def _scope(value: object) -> object:
    return lower(none_word(value))


def _countdown_word(value: object) -> object:
    return {"from": None, "warn_at": None} if none_word(value) is None else value


class Countdown(BaseModel):
    """When and how the remaining budget is appended to tool results, and when a warning is added."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    from_: Share = Field(default=0.5, validation_alias=AliasChoices("from", "from_"), serialization_alias="from")
    """Start of the countdown: a fraction is the share spent, a whole number the calls left; none = no countdown."""
    style: Annotated[
        Literal["remaining", "budget", "json"], BeforeValidator(lower), Expected("remaining, budget or json")
    ] = "remaining"
    """Wording of the countdown line; json adds fields to the last result, at the limit only."""
    warn_at: Share = None
    """Point of the one warning to finish, in the same units; none = never."""


class Specialist(BaseModel):
    """Settings of a specialist that can be run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """Name of the specialist; defaults to the file name."""
    description: str
    """When a parent should use it."""
    prompt: str
    """System prompt of the child: the body of the file."""
    path: Path | None = None
    """File that it was read from."""
    tools: OptionalNames = None
    """Allow-list of tools; omitted = all read-only built-ins, [] = none. Globs like `mcp__server__*` are allowed."""
    paths: Annotated[
        tuple[InnerPath, ...] | None,
        AsList,
        Expected("folders or globs under the root"),
    ] = None
    """Folders or globs under the root that the file tools may read; omitted = all."""
    disallowed_tools: Names = ()
    """Tools to remove; takes precedence over `tools`."""
    model: str | None = None
    """Alias (sonnet, opus, haiku), full model id, local model such as ollama:NAME, or inherit."""
    fallback_models: Names = ()
    """Models to use instead, in this order, if the model cannot answer."""
    effort: Annotated[Effort | None, BeforeValidator(lower), Expected("low, medium, high, xhigh or max")] = None
    """Effort level sent to the model."""
    tool_calls_limit: Limit = 30
    """Maximum tool calls per run; 0 = answer without any, none = no limit."""
    turns_limit: Limit = None
    """Maximum model replies per run."""
    total_tokens_limit: Limit = None
    """Maximum input and output tokens per run."""
    cost_limit: Money = None
    """Maximum cost per run in USD; needs a model with a known price."""
    time_limit: Time = None
    """Maximum wall time per run: seconds, or a duration like 90s, 10m, 1h."""
    patience: Time = 120.0
    """Maximum time for which one request is retried while the model's API is busy or unreachable; 0 = never."""
    tool_chars_limit: Limit = None
    """Maximum characters of all tool results per run."""
    parallel_tools_limit: Count = 4
    """Maximum tool calls running at once in one turn."""
    tool_timeout: Seconds = 60.0
    """Timeout of one tool call, in seconds."""
    tool_result_limit: Count = 20_000
    """Maximum characters of one tool result; longer results are truncated with a hint on how to read the rest."""
    tool_calls: Annotated[
        CallFormat, BeforeValidator(lower), Expected("native or json", if_number="tool_calls_limit")
    ] = "native"
    """How the model calls tools: native, or as constrained JSON, for models that are bad at native calls."""
    landing: Annotated[
        Style, BeforeValidator(lower), Expected("auto, force, order, schema, none, finalize or stop")
    ] = "auto"
    """How the final answer is obtained at the limit; `none` asks for text without tools."""
    landing_prompt: str | None = None
    """Text of the final instruction, in place of the default."""
    evidence: Annotated[EvidencePolicy, BeforeValidator(lower), Expected("off, check or require")] = "check"
    """Whether quotes are checked against what the run has read, and whether an answer needs a verified one."""
    offline: Annotated[OfflinePolicy, BeforeValidator(lower), Expected("answer or refuse")] = "answer"
    """Whether it may be answered offline if there is no model; refuse if its answer is a judgement."""
    budget_notice: Switch = True
    """Whether the system prompt states the budget."""
    countdown: Annotated[
        Countdown, BeforeValidator(_countdown_word), Expected("a map with from, style and warn_at, or none")
    ] = Countdown()
    """Countdown line in tool results: start, wording, warning; or none."""
    summarize_at: OptionalCount = None
    """Estimated tokens of context that trigger summarizing; none = never."""
    context_target: OptionalCount = None
    """Target size of the context after summarizing, in tokens."""
    summary_limit: OptionalCount = None
    """Maximum tokens of one summary."""
    output_schema: Annotated[
        dict[str, Any] | str | None, AfterValidator(path_not_markup), Expected("a JSON Schema, or the path of one")
    ] = None
    """Schema of the answer: a JSON Schema, or the path of one."""
    agents: Names = ()
    """Specialists that this one may call; `*` = all that are found."""
    share_budget: Switch = True
    """Whether child runs spend from their parent's remaining budget."""
    disable_model_invocation: Switch = False
    """Whether to hide it from models that do not name it: it is not served over MCP, and `*` does not include it."""
    mcp_servers: Annotated[
        dict[str, Any] | list[Any] | None, Expected("a list or a map of servers"), Field(repr=False)
    ] = None
    """MCP servers that provide tools."""
    required_mcp_servers: Names = ()
    """MCP servers without which it must not run, by name or part of a name."""
    skills: Names = ()
    """Skills whose SKILL.md is added to the prompt."""
    project_instructions: Switch = False
    """Whether AGENTS.md or CLAUDE.md of the project is added to the prompt."""
    memory: Annotated[MemoryScope | None, BeforeValidator(_scope), Expected("user, project or local")] = None
    """Where to keep notes from run to run, which are added to the prompt; omitted = no notes."""
    python_tools: Annotated[tuple[FunctionName, ...], AsList, Expected("a list of module:function")] = ()
    """Python functions of the project to use as tools."""
    allowed_domains: Names = ()
    """Domains, with their subdomains, that `fetch` and `web_search` may read; empty = all public ones."""
    server_tools: Switch = False
    """Whether the API may run `web_search`, which it bills, and `fetch` itself, if `tools` names them."""
    writable: Annotated[tuple[InnerPath, ...], AsList, Expected("folders or globs under the root")] = ()
    """Folders or globs under the root that tools may change; empty = nothing."""
    preset: Annotated[
        Preset | None,
        BeforeValidator(lower),
        Expected("soft-landing, soft-warning, finalize, budget-notice or openai-loop"),
    ] = None
    """Named set of the settings above; keys in the file override it."""
