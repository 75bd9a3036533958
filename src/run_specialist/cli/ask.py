"""The command `run-specialist NAME QUERY`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import as_program, complete_names, fail, guarded
from run_specialist.cli.flags import (
    CostLimit,
    Dir,
    FilesRoot,
    LandingStyle,
    Model,
    OnLostFlag,
    PresetName,
    StoreUrl,
    TimeLimit,
    ToolCallsLimit,
    ToolCharsLimit,
    TotalTokensLimit,
    TurnsLimit,
    settings,
)
from run_specialist.cli.live_run import Events, OutcomeJson, Output, Quiet, answer
from run_specialist.cli.startup import pause_gc
from run_specialist.cli.trust_flag import TrustFlag

if TYPE_CHECKING:
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Listener

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A specialist's name, or the path of its file.", autocompletion=complete_names
        ),
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question; `-` reads it from standard input.")],
    dir_: Dir = None,
    root: FilesRoot = None,
    model: Model = None,
    tool_calls_limit: ToolCallsLimit = None,
    turns_limit: TurnsLimit = None,
    total_tokens_limit: TotalTokensLimit = None,
    cost_limit: CostLimit = None,
    time_limit: TimeLimit = None,
    tool_chars_limit: ToolCharsLimit = None,
    landing: LandingStyle = None,
    preset: PresetName = None,
    store: StoreUrl = None,
    on_lost: OnLostFlag = "go_on",
    json_: OutcomeJson = False,
    events: Events = False,
    quiet: Quiet = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file that has warnings.")] = False,
    trust: TrustFlag = False,
) -> None:
    """Put a question to a specialist and print its answer.

    A specialist is a Markdown file with YAML front matter. It works with a limited number of tool calls and always
    answers: silent for the first half, a countdown in the second, and at the limit it must answer from what it has
    gathered. Without an API key the answer comes offline, by ranked search, without a language model.

    Exit codes: 0 an answer, 2 a wrong flag or file, 3 the model could not be reached, 4 no answer, 130 interrupted.
    """
    given = settings(
        tool_calls_limit=tool_calls_limit,
        turns_limit=turns_limit,
        total_tokens_limit=total_tokens_limit,
        cost_limit=cost_limit,
        time_limit=time_limit,
        tool_chars_limit=tool_chars_limit,
        landing=landing,
        preset=preset,
    )
    output = Output.chosen(json=json_, events=events, quiet=quiet)
    with guarded():
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - `--help` must not pay for it

        question = _read_question() if query == "-" else query
        runner = Runner(root=root, dir=dir_, model=model, strict=strict, store=store, on_lost=on_lost, trust=trust)

        async def prepare(listener: "Listener | None", watch: "Watch | None") -> "Run":
            return await runner.prepare(name, question, listener=listener, watch=watch, **given)

        outcome = answer(runner, prepare, output)
    raise typer.Exit(outcome.exit_code)


def _read_question() -> str:
    if sys.stdin is None:
        fail("the question shall come from standard input, which is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def main() -> None:
    """Run the command."""
    pause_gc()
    with as_program():
        app()
