"""The command `specialists resume RUN`."""

from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import guarded
from run_specialist.cli.flags import (
    CostLimit,
    OnLostFlag,
    StoreUrl,
    TimeLimit,
    ToolCallsLimit,
    ToolCharsLimit,
    TotalTokensLimit,
    TurnsLimit,
    settings,
)
from run_specialist.cli.history import RunId
from run_specialist.cli.live_run import Events, OutcomeJson, Output, Quiet, answer
from run_specialist.cli.trust_flag import TrustFlag

if TYPE_CHECKING:
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Listener


def resume(
    run: RunId,
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="What is asked beside the first question.")
    ] = None,
    tool_calls_limit: ToolCallsLimit = None,
    turns_limit: TurnsLimit = None,
    total_tokens_limit: TotalTokensLimit = None,
    cost_limit: CostLimit = None,
    time_limit: TimeLimit = None,
    tool_chars_limit: ToolCharsLimit = None,
    model: Annotated[str | None, typer.Option(help="Another model.  [default: that of the run]")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Go on although its file was changed, tools are gone, or another model takes over."
        ),
    ] = False,
    trust: TrustFlag = False,
    store: StoreUrl = None,
    on_lost: OnLostFlag = "go_on",
    json_: OutcomeJson = False,
    events: Events = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run after a limit, a crash, Ctrl-C or a failure.

    Limits are new totals, what was used before included. The run keeps its system prompt, its tools and all that was
    said, so that the prompt cache still holds it; the model is told what is new.
    """
    given = settings(
        tool_calls_limit=tool_calls_limit,
        turns_limit=turns_limit,
        total_tokens_limit=total_tokens_limit,
        cost_limit=cost_limit,
        time_limit=time_limit,
        tool_chars_limit=tool_chars_limit,
    )
    output = Output.chosen(json=json_, events=events, quiet=quiet)
    with guarded():
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

        runner = Runner(model=model, store=store, on_lost=on_lost, trust=trust)

        async def prepare(listener: "Listener | None", watch: "Watch | None") -> "Run":
            return await runner.resume(run, query, force=force, listener=listener, watch=watch, **given)

        outcome = answer(runner, prepare, output)
    raise typer.Exit(outcome.exit_code)
