"""Typed fields of a specialist."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from run_specialist.budget.ladder import Style
from run_specialist.record.messages import CallFormat
from run_specialist.record.outcome import EvidencePolicy, OfflinePolicy
from run_specialist.specialist.presets import Preset

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

Effort = Literal["low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected value of a field."""

    phrase: str
    """Noun phrase for error messages, following "must be"."""
    number: bool = False
    """Whether a quoted number is read as a number, with a warning."""
    if_number: str = ""
    """The key that a number given here was probably meant for; empty if there is none."""

    def hint(self, found: object) -> str:
        """Return what to do about an invalid value, as the end of the error message; empty if nothing is known.

        found: the value, or its text in the file.
        """
        is_limit = re.fullmatch(r"[0-9]+|none", str(found).strip().strip("'\""), re.IGNORECASE)
        return f"; to limit their number use {self.if_number}" if self.if_number and is_limit else ""


def _none_word(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _duration(value: object) -> object:
    match = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    return float(match[1]) * _SECONDS[match[2]] if match else value


def _countdown_word(value: object) -> object:
    return {"from": None, "warn_at": None} if _none_word(value) is None else value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _share_or_calls(value: object) -> object:
    if isinstance(value, float) and value > 1:
        raise ValueError("a share is at most 1.0")
    return value


def _inside(folder: str) -> str:
    if not folder.strip():
        raise ValueError("empty")
    if folder.startswith(("/", "~")) or ".." in folder.replace("\\", "/").split("/"):
        raise ValueError("outside of the root")
    return folder


def _path_not_markup(value: object) -> object:
    # Invalid YAML arrives as text and must not be used as a file name.
    if isinstance(value, str) and (value.startswith(("{", "[")) or "\n" in value):
        raise ValueError("not a path")
    return value


def _function(name: str) -> str:
    if not _FUNCTION.fullmatch(name):
        raise ValueError("not module:function")
    return name


def _schema(kind: str, *, none: bool = False, least: int = 0, text: bool = False) -> WithJsonSchema:
    """Return the schema for editors: a number, or the string "none" or a duration."""
    choices: list[dict[str, Any]] = [{"type": kind, "minimum": least}]
    if text:
        choices.append({"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)? ?[smh]|none)$"})
    elif none:
        choices.append({"const": "none"})
    return WithJsonSchema({"anyOf": choices} if len(choices) > 1 else choices[0])


_Whole = Annotated[int, Field(strict=True, ge=0)]
_Positive = Annotated[int, Field(strict=True, ge=1)]
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]

_OrNone = BeforeValidator(_none_word)
Limit = Annotated[
    _Whole | None, _OrNone, _schema("integer", none=True), Expected("an integer of at least 0, or none", number=True)
]
Money = Annotated[
    _Amount | None,
    _OrNone,
    _schema("number", none=True),
    Expected("an amount in USD of at least 0, or none", number=True),
]
Time = Annotated[
    _Amount | None,
    BeforeValidator(_duration),
    _OrNone,
    _schema("number", text=True),
    Expected("a number of seconds, a duration like 90s, 10m or 1h, or none", number=True),
]
Seconds = Annotated[
    Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)],
    BeforeValidator(_duration),
    _schema("number", text=True),
    Expected("a number of seconds above 0, or a duration like 90s or 10m", number=True),
]
Count = Annotated[_Positive, _schema("integer", least=1), Expected("an integer of at least 1", number=True)]
OptionalCount = Annotated[
    _Positive | None,
    _OrNone,
    _schema("integer", none=True, least=1),
    Expected("an integer of at least 1, or none", number=True),
]
Switch = Annotated[bool, Field(strict=True), Expected("true or false")]
Share = Annotated[
    Annotated[int, Field(strict=True, ge=0)] | Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None,
    _OrNone,
    AfterValidator(_share_or_calls),
    _schema("number", none=True),
    Expected("a share from 0.0 to 1.0, an integer number of calls left, or none"),
]
_AsList = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
Names = Annotated[tuple[str, ...], _AsList, Expected("a list of names")]
OptionalNames = Annotated[tuple[str, ...] | None, _AsList, Expected("a list of names")]


class Countdown(BaseModel):
    """When and how the remaining budget is appended to tool results, and when a warning is added."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    from_: Share = Field(default=0.5, validation_alias=AliasChoices("from", "from_"), serialization_alias="from")
    """Start of the countdown: a fraction is the share spent, a whole number the calls left; none = no countdown."""
    style: Annotated[
        Literal["remaining", "budget", "json"], BeforeValidator(_lower), Expected("remaining, budget or json")
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
        tuple[Annotated[str, AfterValidator(_inside)], ...] | None,
        _AsList,
        Expected("folders or globs under the root"),
    ] = None
    """Folders or globs under the root that the file tools may read; omitted = all."""
    disallowed_tools: Names = ()
    """Tools to remove; takes precedence over `tools`."""
    model: str | None = None
    """Alias (sonnet, opus, haiku), full model id, local model such as ollama:NAME, or inherit."""
    effort: Annotated[Effort | None, BeforeValidator(_lower), Expected("low, medium, high, xhigh or max")] = None
    """Effort level sent to the model."""
    tool_calls_limit: Limit = 30
    """Maximum tool calls per run; 0 = answer at once, none = no limit."""
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
        CallFormat, BeforeValidator(_lower), Expected("native or json", if_number="tool_calls_limit")
    ] = "native"
    """How the model calls tools: native, or as JSON that the endpoint constrains, for models that call badly."""
    landing: Annotated[
        Style, BeforeValidator(_lower), Expected("auto, force, order, schema, none, finalize or stop")
    ] = "auto"
    """How the final answer is obtained at the limit; `none` asks for text without tools."""
    landing_prompt: str | None = None
    """Text of the final instruction, in place of the default."""
    evidence: Annotated[EvidencePolicy, BeforeValidator(_lower), Expected("off, check or require")] = "check"
    """Whether quotes are looked up in what was read, and whether an answer needs one that is found there."""
    offline: Annotated[OfflinePolicy, BeforeValidator(_lower), Expected("answer or refuse")] = "answer"
    """Whether it is answered offline where there is no model; refuse if its answer is a judgement."""
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
        dict[str, Any] | str | None, AfterValidator(_path_not_markup), Expected("a JSON Schema, or the path of one")
    ] = None
    """Schema of the answer: a JSON Schema, or the path of one."""
    agents: Names = ()
    """Specialists that this one may call."""
    share_budget: Switch = True
    """Whether child runs spend from the remaining budget of their parent."""
    mcp_servers: Annotated[
        dict[str, Any] | list[Any] | None, Expected("a list or a map of servers"), Field(repr=False)
    ] = None
    """MCP servers that provide tools."""
    python_tools: Annotated[
        tuple[Annotated[str, AfterValidator(_function)], ...], _AsList, Expected("a list of module:function")
    ] = ()
    """Python functions of the project to use as tools."""
    preset: Annotated[
        Preset | None,
        BeforeValidator(_lower),
        Expected("soft-landing, soft-warning, finalize, budget-notice or openai-loop"),
    ] = None
    """Named set of the settings above; keys in the file override it."""
