"""The fields of a specialist: the one declaration of each front matter key.

A field of `Specialist` has the type, the default and the description of its key, and in its metadata the other
spellings, what a value may do by its origin, and whether config files may set it. Loading, errors, presets, `show`, the
table of origins, the keys of config files and the schema for editors derive from it. Only the types of calls, at the
end, repeat the names, because type checkers cannot derive them.
"""

import ast
import difflib
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from run_specialist.budget import Preset, Style
from run_specialist.record.messages import CallChoice, FirstSearch
from run_specialist.record.outcome import EvidencePolicy, OfflinePolicy
from run_specialist.specialist.tool_names import BUILT_IN

Rule = Literal["free", "lower", "allowed", "trust", "never"]
"""What a value may do: everything, only lower what the user has set, name only what is allowed already, use a power
after the user has trusted the file by its content, or nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the values of a key may do, by origin; the caller may do everything."""

    project: Rule
    data: Rule


PLAIN = Rules("free", "never")
LIMIT = Rules("lower", "lower")
STYLE = Rules("free", "free")
POWER = Rules("trust", "never")
"""`trust` concerns only what is a power: a project's file may name `read` in `tools`, folders in `paths`, and models of
the usual server, and call specialists without powers."""
IN_CONFIG_FILES = "in config files"
"""Marks a key that config files may set, too."""


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected value of a field."""

    phrase: str
    """Noun phrase for error messages, following "must be"."""

    def complaint(self, found: object) -> str:
        """Return why a value is invalid, as one clause.

        found: the value, or its text in the file.
        """
        return f"must be {self.phrase}, got {found}"


class Number(Expected):
    """Expected number, which may be in quotes, with a warning."""


def _one_of(words: object) -> Expected:
    """Return what is expected of a field with this `Literal` type."""
    *others, last = get_args(words)
    return Expected(f"{', '.join(others)} or {last}")


def none_word(value: object) -> object:
    """Return None for the word `none`; other values unchanged."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _duration(value: object) -> object:
    match = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    return float(match[1]) * _SECONDS[match[2]] if match else value


def lower(value: object) -> object:
    """Return a text in lower case, without spaces at its ends; other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def _inside(folder: str) -> str:
    if not folder.strip():
        raise ValueError("empty")
    if folder.startswith(("/", "~")) or ".." in folder.replace("\\", "/").split("/"):
        raise ValueError("outside of the root")
    return folder


def no_markup(value: object) -> object:
    """Return the value; raise ValueError for a text that cannot be a path."""
    # Invalid YAML arrives as text and must not be used as a file name.
    if isinstance(value, str) and (value.startswith(("{", "[")) or "\n" in value):
        raise ValueError("not a path")
    return value


_Whole = Annotated[int, Field(strict=True, ge=0)]
_Positive = Annotated[int, Field(strict=True, ge=1)]
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]

_Word = BeforeValidator(lower)
_OrNone = BeforeValidator(none_word)
_Duration = BeforeValidator(_duration)


def _or_none(kind: str, least: int = 0) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, "minimum": least}, {"const": "none"}]})


_INTEGER, _COUNT, _NUMBER = _or_none("integer"), _or_none("integer", 1), _or_none("number")
_TEXT_OF_TIME = {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)? ?[smh]|none)$"}
_TIME = WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, _TEXT_OF_TIME]})

Limit = Annotated[_Whole | None, _OrNone, _INTEGER, Number("an integer of at least 0, or none"), LIMIT]
Money = Annotated[_Amount | None, _OrNone, _NUMBER, Number("an amount in USD of at least 0, or none"), LIMIT]
_IS_TIME = Number("a number of seconds, a duration like 90s, 10m or 1h, or none")
Time = Annotated[_Amount | None, _Duration, _OrNone, _TIME, _IS_TIME, LIMIT]
_IS_SECONDS = Number("a number of seconds above 0, or a duration like 90s or 10m")
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False), _Duration, _TIME, _IS_SECONDS, LIMIT]
Count = Annotated[_Positive, Number("an integer of at least 1"), LIMIT]
OptionalCount = Annotated[_Positive | None, _OrNone, _COUNT, Number("an integer of at least 1, or none")]
_TaskBudget = Annotated[int, Field(strict=True, ge=20_000)]
_IS_TASK_BUDGET = Number("an integer of at least 20000, or none")
Switch = Annotated[bool, Field(strict=True), Expected("true or false")]
_IS_SHARE = Expected("a share from 0.0 to 1.0, an integer number of calls left, or none")
Share = Annotated[_Whole | Annotated[float, Field(strict=True, ge=0, le=1)] | None, _OrNone, _NUMBER, _IS_SHARE]
AsList = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Names = Annotated[tuple[str, ...], AsList, Expected("a list of names")]
OptionalNames = Annotated[tuple[str, ...] | None, AsList, Expected("a list of names")]
InnerPath = Annotated[str, AfterValidator(_inside)]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]


MemoryScope = Literal["user", "project", "local"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
CountdownStyle = Literal["remaining", "budget", "json"]


def _countdown_word(value: object) -> object:
    return {"from": None, "warn_at": None} if none_word(value) is None else value


class Countdown(BaseModel):
    """When and how the remaining budget is appended to tool results, and when a warning is added."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    from_: Share = Field(default=0.5, validation_alias=AliasChoices("from", "from_"), serialization_alias="from")
    """Start of the countdown: a fraction is the share spent, a whole number the calls left; none = no countdown."""
    style: Annotated[CountdownStyle, _Word, _one_of(CountdownStyle)] = "remaining"
    """Wording of the countdown line; json adds fields to the last result, at the limit only."""
    warn_at: Share = None
    """Point of the one warning to finish, in the same units; none = never."""


class Specialist(BaseModel):
    """Settings of a specialist that can be run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, PLAIN]
    """Name of the specialist; defaults to the file name."""
    description: Annotated[str, PLAIN]
    """When a parent should use it."""
    prompt: Annotated[str, PLAIN]
    """System prompt of the child: the body of the file."""
    path: Annotated[Path | None, PLAIN] = None
    """File that it was read from."""
    tools: Annotated[OptionalNames, POWER] = None
    """Allow-list of tools; omitted = all read-only built-ins, [] = none. Globs like `mcp__server__*` are allowed."""
    paths: Annotated[tuple[InnerPath, ...] | None, AsList, Expected("folders or globs under the root"), POWER] = None
    """Folders or globs under the root that the file tools may read, after `else` alternatives; omitted = all."""
    disallowed_tools: Annotated[Names, PLAIN] = ()
    """Tools to remove; takes precedence over `tools`."""
    model: Annotated[str | None, Rules("trust", "allowed")] = None
    """Alias (sonnet, opus, haiku), full model id, local model such as ollama:NAME, or inherit."""
    fallback_models: Annotated[Names, Rules("trust", "allowed"), AliasChoices("fallback_model")] = ()
    """Models to use instead, in this order, if the model cannot answer."""
    effort: Annotated[
        Effort | None,
        _Word,
        _one_of(Effort),
        STYLE,
        AliasChoices("reasoning_effort", "model_reasoning_effort", "thinking_level"),
    ] = None
    """Effort level sent to the model."""
    tool_calls_limit: Annotated[Limit, AliasChoices("max_tool_calls", "tool_call_limit"), IN_CONFIG_FILES] = 30
    """Maximum tool calls per run; 0 = answer without any, none = no limit."""
    turns_limit: Annotated[Limit, AliasChoices("max_turns", "max_steps", "steps"), IN_CONFIG_FILES] = None
    """Maximum model replies per run."""
    total_tokens_limit: Annotated[Limit, IN_CONFIG_FILES] = None
    """Maximum input and output tokens per run."""
    task_budget: Annotated[_TaskBudget | None, _OrNone, _IS_TASK_BUDGET, PLAIN] = None
    """Tokens that the Messages API counts down for the model; not enforced."""
    cost_limit: Annotated[Money, AliasChoices("max_cost_usd"), IN_CONFIG_FILES] = None
    """Maximum cost per run in USD; needs a model with a known price."""
    time_limit: Annotated[Time, AliasChoices("timeout", "timeout_mins"), IN_CONFIG_FILES] = None
    """Maximum wall time per run: seconds, or a duration like 90s, 10m, 1h."""
    patience: Annotated[Time, IN_CONFIG_FILES] = 120.0
    """Maximum time for which one request is retried while the model's API is busy or unreachable; 0 = never."""
    tool_chars_limit: Annotated[Limit, AliasChoices("max_total_chars"), IN_CONFIG_FILES] = None
    """Maximum characters of all tool results per run."""
    parallel_tools_limit: Annotated[Count, AliasChoices("max_parallel_tools")] = 4
    """Maximum tool calls running at once in one turn."""
    tool_timeout: Seconds = 60.0
    """Timeout of one tool call, in seconds."""
    tool_result_limit: Count = 20_000
    """Maximum characters of one tool result; longer results are truncated with a hint on how to read the rest."""
    tool_calls: Annotated[
        CallChoice, _Word, Expected("auto, native or json (tool_calls_limit is their limit)"), STYLE, IN_CONFIG_FILES
    ] = "auto"
    """How the model calls tools: native, json that the endpoint constrains, or auto: json on local servers."""
    first_search: Annotated[FirstSearch, _Word, _one_of(FirstSearch), STYLE, IN_CONFIG_FILES] = "auto"
    """Whether the best passages of a search for the question are sent with it; auto: if calls are JSON."""
    landing: Annotated[Style, _Word, _one_of(Style), STYLE, IN_CONFIG_FILES] = "auto"
    """How the final answer is obtained at the limit; `none` asks for text without tools."""
    landing_prompt: Annotated[str | None, PLAIN] = None
    """Text of the final instruction, in place of the default."""
    evidence: Annotated[EvidencePolicy, _Word, _one_of(EvidencePolicy), STYLE, IN_CONFIG_FILES] = "check"
    """Whether quotes are checked against what the run has read, and whether an answer needs a verified one."""
    offline: Annotated[OfflinePolicy, _Word, _one_of(OfflinePolicy), PLAIN] = "answer"
    """Whether it may be answered offline if there is no model; refuse if its answer is a judgement."""
    budget_notice: Annotated[Switch, PLAIN] = True
    """Whether the system prompt states the budget."""
    countdown: Annotated[
        Countdown, BeforeValidator(_countdown_word), Expected("a map with from, style and warn_at, or none"), PLAIN
    ] = Countdown()
    """Countdown line in tool results: start, wording, warning; or none."""
    summarize_at: Annotated[OptionalCount, PLAIN, AliasChoices("max_token")] = None
    """Estimated tokens of context that trigger summarizing; none = never."""
    context_target: Annotated[OptionalCount, PLAIN, AliasChoices("context_token_limit")] = None
    """Target size of the context after summarizing, in tokens."""
    summary_limit: Annotated[OptionalCount, PLAIN, AliasChoices("summary_token_limit")] = None
    """Maximum tokens of one summary."""
    output_schema: Annotated[
        dict[str, Any] | str | None, AfterValidator(no_markup), Expected("a JSON Schema, or the path of one"), PLAIN
    ] = None
    """Schema of the answer: a JSON Schema, or the path of one."""
    agents: Annotated[Names, POWER] = ()
    """Specialists that this one may call; `*` = all that are found."""
    share_budget: Annotated[Switch, Rules("lower", "never")] = True
    """Whether child runs spend from their parent's remaining budget."""
    disable_model_invocation: Annotated[Switch, PLAIN] = False
    """Whether to hide it from models that do not name it: it is not served over MCP, and `*` does not include it."""
    mcp_servers: Annotated[
        dict[str, Any] | list[Any] | None, Expected("a list or a map of servers"), Field(repr=False), POWER
    ] = None
    """MCP servers that provide tools."""
    required_mcp_servers: Annotated[Names, PLAIN] = ()
    """MCP servers without which it must not run, by name or part of a name."""
    skills: Annotated[Names, POWER] = ()
    """Skills whose SKILL.md is added to the prompt."""
    project_instructions: Annotated[Switch, PLAIN, AliasChoices("inherit_project_context")] = False
    """Whether AGENTS.md or CLAUDE.md of the project is added to the prompt."""
    memory: Annotated[MemoryScope | None, _Word, _OrNone, _one_of(MemoryScope), POWER] = None
    """Where to keep notes from run to run, which are added to the prompt; omitted = no notes."""
    python_tools: Annotated[tuple[FunctionName, ...], AsList, Expected("a list of module:function"), POWER] = ()
    """Python functions of the project to use as tools."""
    allowed_domains: Annotated[Names, POWER] = ()
    """Domains, with their subdomains, that `fetch` and `web_search` may read; empty = all public ones."""
    server_tools: Annotated[Switch, POWER] = False
    """Whether the API may run `web_search`, which it bills, and `fetch` itself, if `tools` names them."""
    writable: Annotated[tuple[InnerPath, ...], AsList, Expected("folders or globs under the root"), POWER] = ()
    """Folders or globs under the root that tools may change; empty = nothing."""
    preset: Annotated[Preset | None, _Word, _one_of(Preset), STYLE, IN_CONFIG_FILES] = None
    """Named set of the settings above; keys in the file override it."""


# Tools that a file may name; `respond` is always offered.
_TOOLS = tuple(name for name in BUILT_IN if name != "respond")


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field; pydantic would look for them in every process that imports the model."""
    declared: Any = ast.parse(inspect.getsource(model)).body[0]
    pairs = ((line, text) for line, text in pairwise(declared.body) if isinstance(line, ast.AnnAssign))
    return {line.target.id.rstrip("_"): text.value.value for line, text in pairs if isinstance(text, ast.Expr)}  # type: ignore[union-attr, attr-defined]


def json_schema(models: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the canonical keys; any other key is allowed.

    models: Names of models that editors suggest; any other name is valid too.
    """
    whole = Specialist.model_json_schema()
    for model, keys in ((Specialist, whole["properties"]), (Countdown, whole["$defs"]["Countdown"]["properties"])):
        for name, text in descriptions(model).items():
            keys[name] = dict(sorted({**keys[name], "description": text}.items()))
    properties = {key: whole["properties"][key] for key in CANONICAL}
    for key in ("tools", "disallowed_tools"):
        properties[key]["anyOf"] = [{"type": "string"}, {"type": "array", "items": _suggested(_TOOLS)}]
    one = _suggested(models) if models else {"type": "string"}
    properties["model"]["anyOf"] = [one, {"type": "array", "items": {"type": "string"}}]
    # A validator expands the string "none" to a map, so the model's own schema does not allow it.
    properties["countdown"]["anyOf"] = [{"$ref": properties["countdown"].pop("$ref")}, {"const": "none"}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Specialist",
        "description": "Front matter of a specialist's Markdown file.",
        "type": "object",
        "properties": properties,
        "additionalProperties": True,
        "$defs": whole["$defs"],
    }


def _suggested(names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a text for which editors suggest names."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}


_T = TypeVar("_T")


def declared(key: str, kind: type[_T], model: type[BaseModel] = Specialist) -> _T | None:
    """Return the metadata of a kind that a field has, such as `Rules`; None if it has none."""
    return next((item for item in model.model_fields[key].metadata if isinstance(item, kind)), None)


EXPECTED = {
    f"{prefix}{name.rstrip('_')}": one
    for prefix, model in (("", Specialist), ("countdown.", Countdown))
    for name in model.model_fields
    if (one := declared(name, Expected, model))
}
"""The expected values by key, those of the countdown by `countdown.from` and so on."""
CANONICAL = tuple(key for key in Specialist.model_fields if key not in ("prompt", "path"))
"""All keys of a file."""
ALIASES: dict[str, str] = {
    str(alias): key for key in CANONICAL if (names := declared(key, AliasChoices)) for alias in names.choices
}
"""Other spellings, in snake_case; camelCase and kebab-case are converted before the lookup."""
CONFIG_KEYS = tuple(key for key in CANONICAL if IN_CONFIG_FILES in Specialist.model_fields[key].metadata)
"""Keys that config files may set, too."""
TEXTS = frozenset(key for key in CANONICAL if Specialist.model_fields[key].annotation in (str, str | None))
"""Keys whose value is a text."""
NAMES = frozenset(key for key in CANONICAL if AsList in Specialist.model_fields[key].metadata)
"""Keys whose value is a list of names."""

KEPT_BY_READING = frozenset({"isolation", "permission_mode", "read_only", "readonly", "sandbox", "sandbox_mode"})
"""Restrictions of other programs that hold here too, as long as all tools only read."""

# Other programs restrict an agent by these keys. They have no effect here, so each gets a warning.
RESTRICTING = frozenset(
    """
    allowed_tools approval_mode blocked_tools denied_tools deny_tools exclude_tools excluded_tools hooks isolation
    permission permission_mode permissions readonly read_only sandbox sandbox_mode
    """.split()  # noqa: SIM905
)

# Keys of other programs, accepted without effect.
INERT = RESTRICTING | frozenset(
    """
    agent aliases always_apply apply_to argument_hint arguments author auto_load
    autoload background capabilities categories category color colour command compatibility context created date
    default_context default_progress default_reads dependencies disable disabled display_name domain
    emoji enabled examples expertise expertise_level extends globs handoffs hidden icon id
    include_mcp_json infer inherit_skills initial_prompt input inputs is_background keyboard_shortcut
    keywords kind language last_updated license max_output_tokens max_tokens metadata mode model_provider
    model_reasoning_summary model_verbosity nickname_candidates omit_claude_md output outputs
    owner priority proactive prompt provider reasoning requires role scope skill source
    specialization status subagent_type system_prompt system_prompt_mode tags target temperature text_verbosity
    thinking title tool_aliases tool_choice tools_settings top_k top_p triggers type updated
    use_when user_invocable user_invokable variant version voice_id welcome_message when_to_use whento_use
    """.split()  # noqa: SIM905, a list of a hundred quoted words is harder to read
)

# Keys that are also common before a colon in prose and examples.
_PROSE = frozenset(
    """
    agent arguments command context date domain emoji examples expertise id input inputs language output outputs
    owner prompt provider reasoning requires role scope source status title triggers type
    """.split()  # noqa: SIM905
)

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_SUGGESTED = 40


def canonical(key: str) -> str:
    """Return the canonical form of a key: converted to snake_case, aliases resolved."""
    snake = _HUMP.sub("_", key.strip()).replace("-", "_").lower()
    return ALIASES.get(snake, snake)


def is_known(key: str) -> bool:
    """Return whether a key, in any spelling, belongs to this program or to another known one."""
    folded = canonical(key)
    return folded in CANONICAL or folded in INERT


def starts_field_in_prose(key: str) -> bool:
    """Return whether `key:` at the start of a line ends the field before it, even a description."""
    return key[:1].islower() and is_known(key) and canonical(key) not in _PROSE


def nearest(key: str) -> str | None:
    """Return the most similar canonical key, or None."""
    folded = canonical(key)
    if len(folded) > _LONGEST_SUGGESTED:
        return None
    close = difflib.get_close_matches(folded, (*CANONICAL, *ALIASES), n=1, cutoff=0.75)
    return ALIASES.get(close[0], close[0]) if close else None


# The types of the settings of a call: what a file may give, in Python.

_NamesOfCall = list[str] | tuple[str, ...]
_ShareOfCall = float | Literal["none"] | None
CountdownSetting = TypedDict(
    "CountdownSetting",
    {"from": _ShareOfCall, "style": CountdownStyle, "warn_at": _ShareOfCall},
    total=False,
)


class OtherLimits(TypedDict, total=False):
    """The limits of a run except its cost; None means no limit."""

    tool_calls_limit: int | None
    turns_limit: int | None
    total_tokens_limit: int | None
    """Input and output tokens."""
    time_limit: float | str | None
    """Seconds, or a duration such as `90s`, `10m` or `1h`."""
    tool_chars_limit: int | None
    """Characters of all tool results."""


class Limits(OtherLimits, total=False):
    """The limits of a run; None means no limit."""

    cost_limit: float | None
    """[USD]"""


class OtherSettings(TypedDict, total=False):
    """The keys of a specialist's file that a call can override, except `model` and the limits."""

    tools: _NamesOfCall | None
    paths: _NamesOfCall | None
    disallowed_tools: _NamesOfCall
    fallback_models: _NamesOfCall
    """Models with which a run continues if the model of the file cannot answer; a model of the call replaces them."""
    effort: Effort | None
    task_budget: int | None
    patience: float | str | None
    """Maximum time for which one request is retried: seconds, or a duration such as `2m`."""
    offline: OfflinePolicy
    parallel_tools_limit: int
    tool_timeout: float | str
    tool_result_limit: int
    tool_calls: CallChoice
    first_search: FirstSearch
    landing: Style
    landing_prompt: str | None
    evidence: EvidencePolicy
    budget_notice: bool
    countdown: CountdownSetting | Literal["none"] | None
    summarize_at: int | None
    context_target: int | None
    summary_limit: int | None
    output_schema: dict[str, Any] | str | None
    """A JSON Schema, or the path of one."""
    agents: _NamesOfCall
    share_budget: bool
    disable_model_invocation: bool
    mcp_servers: dict[str, Any] | list[Any] | None
    required_mcp_servers: _NamesOfCall
    skills: _NamesOfCall
    project_instructions: bool
    memory: MemoryScope | Literal["none"] | None
    """Where notes are kept from run to run."""
    python_tools: _NamesOfCall
    allowed_domains: _NamesOfCall
    server_tools: bool
    writable: _NamesOfCall
    preset: Preset | None


class Settings(Limits, OtherSettings, total=False):
    """The keys of a specialist's file that a call can override, except `model`; docs/reference.md has them."""
