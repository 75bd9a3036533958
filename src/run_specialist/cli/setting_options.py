"""The options of `run-specialist` and `specialists resume` that override keys of the specialist's file."""

from dataclasses import dataclass
from typing import Any

from run_specialist.cli.flags import (
    CostLimit,
    EvidenceFlag,
    LandingStyle,
    PatienceTime,
    PresetName,
    ServerTools,
    TimeLimit,
    ToolCallFormat,
    ToolCallsLimit,
    ToolCharsLimit,
    TotalTokensLimit,
    TurnsLimit,
    settings,
)


@dataclass(frozen=True)
class LimitOptions:
    """Limits."""

    tool_calls_limit: ToolCallsLimit = None
    turns_limit: TurnsLimit = None
    total_tokens_limit: TotalTokensLimit = None
    cost_limit: CostLimit = None
    time_limit: TimeLimit = None
    patience: PatienceTime = None
    tool_chars_limit: ToolCharsLimit = None

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that were given, with their values."""
        return settings(**vars(self))


@dataclass(frozen=True)
class SettingOptions(LimitOptions):
    """Settings."""

    landing: LandingStyle = None
    evidence: EvidenceFlag = None
    tool_calls: ToolCallFormat = None
    server_tools: ServerTools = False
    preset: PresetName = None

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that were given, with their values."""
        given = vars(self) | {"server_tools": None}
        return settings(**given) | ({"server_tools": True} if self.server_tools else {})
