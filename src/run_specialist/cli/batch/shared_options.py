"""The options that `specialists map` and `specialists eval` share, and the runner that they configure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.batch.option_values import amount
from run_specialist.cli.console import say_allowed
from run_specialist.cli.flags import (
    Dir,
    EvidenceFlag,
    FilesRoot,
    LandingStyle,
    Model,
    OnLostFlag,
    PatienceTime,
    PresetName,
    RequestsAtOnce,
    RequireModel,
    StoreUrl,
    Strict,
    TimeLimit,
    ToolCallFormat,
    ToolCallsLimit,
    ToolCharsLimit,
    TotalTokensLimit,
    TurnsLimit,
    settings,
)
from run_specialist.cli.from_config import configured_runner
from run_specialist.cli.trust_flag import TrustFlag

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.config.config import Config

AT_ONCE = 8
"""Default number of runs at the same time."""
CONFIRM_ABOVE = 1.0
"""Forecast above which the command asks for confirmation [USD]."""


def at_once_option(help_: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--at-once`."""
    return typer.Option(metavar="N", min=1, help=help_)


def cost_limit_option(of: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--cost-limit`.

    of: what the limit applies to, for the help text.
    """
    return typer.Option(metavar="USD|none", parser=amount, help=f"Maximum cost of {of}.  [default: none]")


def confirm_above_option(what: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--confirm-above`.

    what: what would be confirmed, for the help text.
    """
    return typer.Option(
        metavar="USD",
        parser=amount,
        help=f"Ask before {what} that may cost more; without a terminal, refuse it.  "
        f"[default: {CONFIRM_ABOVE:.2f} on a terminal]",
    )


@dataclass(frozen=True)
class MoneyOptions:
    """Cost."""

    cost_limit: float | None
    confirm_above: float | None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False

    @property
    def limit(self) -> float | None:
        """The cost limit of all runs together; None = no limit [USD]."""
        return None if self.cost_limit == float("inf") else self.cost_limit


@dataclass(frozen=True)
class EachRunOptions:
    """Each run."""

    model: Model = None
    require_model: RequireModel = False
    requests_at_once: RequestsAtOnce = None
    tool_calls_limit: ToolCallsLimit = None
    turns_limit: TurnsLimit = None
    total_tokens_limit: TotalTokensLimit = None
    time_limit: TimeLimit = None
    patience: PatienceTime = None
    tool_chars_limit: ToolCharsLimit = None
    landing: LandingStyle = None
    evidence: EvidenceFlag = None
    tool_calls: ToolCallFormat = None
    preset: PresetName = None

    @property
    def settings(self) -> dict[str, Any]:
        """Return the keys of the specialist's file to override."""
        return settings(**{name: getattr(self, name) for name in _SETTINGS})


_SETTINGS = tuple(EachRunOptions.__dataclass_fields__)[3:]


@dataclass(frozen=True)
class ProjectOptions:
    """Project and store."""

    dir_: Dir = None
    root: FilesRoot = None
    store: StoreUrl = None
    on_lost: OnLostFlag = "go_on"
    strict: Strict = None
    trust: TrustFlag = False


def batch_runner(config: "Config", project: ProjectOptions, each_run: EachRunOptions, *, quiet: bool) -> "Runner":
    """Return a runner for many runs of the project's specialists.

    quiet: do not print what `--trust` allows.
    """
    runner = configured_runner(
        config,
        dir_=project.dir_,
        strict=project.strict,
        require_model=each_run.require_model,
        root=project.root,
        model=each_run.model,
        store=project.store,
        on_lost=project.on_lost,
        trust=project.trust,
        requests_at_once=each_run.requests_at_once,
    )
    runner.allowed = None if quiet else say_allowed
    return runner
