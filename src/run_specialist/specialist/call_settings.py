"""Types of the settings that a call can override, so that editors complete them and type checkers refuse others."""

from typing import Any, Literal, TypedDict

from run_specialist.budget.ladder import Style
from run_specialist.record.messages import CallFormat
from run_specialist.record.outcome import EvidencePolicy, OfflinePolicy
from run_specialist.specialist.presets import Preset

Names = list[str] | tuple[str, ...]
Share = float | Literal["none"] | None
Countdown = TypedDict(
    "Countdown", {"from": Share, "style": Literal["remaining", "budget", "json"], "warn_at": Share}, total=False
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

    tools: Names | None
    paths: Names | None
    disallowed_tools: Names
    fallback_models: Names
    """Models with which a run continues if the model of the file cannot answer; a model of the call replaces them."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None
    patience: float | str | None
    """Maximum time for which one request is retried: seconds, or a duration such as `2m`."""
    offline: OfflinePolicy
    parallel_tools_limit: int
    tool_timeout: float | str
    tool_result_limit: int
    tool_calls: CallFormat
    landing: Style
    landing_prompt: str | None
    evidence: EvidencePolicy
    budget_notice: bool
    countdown: Countdown | Literal["none"] | None
    summarize_at: int | None
    context_target: int | None
    summary_limit: int | None
    output_schema: dict[str, Any] | str | None
    """A JSON Schema, or the path of one."""
    agents: Names
    share_budget: bool
    disable_model_invocation: bool
    mcp_servers: dict[str, Any] | list[Any] | None
    required_mcp_servers: Names
    skills: Names
    project_instructions: bool
    memory: Literal["user", "project", "local", "none"] | None
    """Where notes are kept from run to run."""
    python_tools: Names
    allowed_domains: Names
    server_tools: bool
    writable: Names
    preset: Preset | None


class Settings(Limits, OtherSettings, total=False):
    """The keys of a specialist's file that a call can override, except `model`; docs/reference.md has them."""
