"""The command `run-specialist NAME QUERY`."""

from functools import partial

import typer

from run_specialist.cli.console import as_program, guarded
from run_specialist.cli.flags import (
    CostLimit,
    Dir,
    DryRun,
    EvidenceFlag,
    FilesRoot,
    LandingStyle,
    Model,
    OnLostFlag,
    PatienceTime,
    PresetName,
    RequestsAtOnce,
    RequireModel,
    ServerTools,
    SpecialistName,
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
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.live_run import Events, OutcomeJson, Output, Quiet, Raw, answer
from run_specialist.cli.output_file import OutputOption
from run_specialist.cli.query_words import QueryWords, WordsCommand, question_from
from run_specialist.cli.startup import pause_gc
from run_specialist.cli.trust_flag import TrustFlag
from run_specialist.cli.version_flag import VersionFlag

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=WordsCommand)
def run(
    name: SpecialistName,
    query: QueryWords = None,
    dir_: Dir = None,
    root: FilesRoot = None,
    model: Model = None,
    require_model: RequireModel = False,
    tool_calls_limit: ToolCallsLimit = None,
    turns_limit: TurnsLimit = None,
    total_tokens_limit: TotalTokensLimit = None,
    cost_limit: CostLimit = None,
    time_limit: TimeLimit = None,
    patience: PatienceTime = None,
    tool_chars_limit: ToolCharsLimit = None,
    landing: LandingStyle = None,
    evidence: EvidenceFlag = None,
    tool_calls: ToolCallFormat = None,
    server_tools: ServerTools = False,
    preset: PresetName = None,
    requests_at_once: RequestsAtOnce = None,
    store: StoreUrl = None,
    on_lost: OnLostFlag = "go_on",
    json_: OutcomeJson = False,
    events: Events = False,
    output: OutputOption = None,
    quiet: Quiet = False,
    raw: Raw = False,
    strict: Strict = None,
    trust: TrustFlag = False,
    dry_run: DryRun = False,
    version: VersionFlag = False,  # noqa: ARG001 - its callback prints and exits
) -> None:
    """Ask a specialist a question and print its answer.

    A specialist is a Markdown file with YAML front matter. It works with a limited number of tool calls and always
    answers: a countdown starts at half the limit, and at the limit the specialist must answer from the material it has
    gathered. Without an API key, ranked search produces the answer offline, without a language model.

    Exit codes: 0 answered, 2 wrong flag or file, 3 model not reachable, 4 no answer, 130 interrupted.
    """
    given = settings(
        tool_calls_limit=tool_calls_limit,
        turns_limit=turns_limit,
        total_tokens_limit=total_tokens_limit,
        cost_limit=cost_limit,
        time_limit=time_limit,
        patience=patience,
        tool_chars_limit=tool_chars_limit,
    ) | settings(landing=landing, evidence=evidence, tool_calls=tool_calls, preset=preset)
    given |= {"server_tools": True} if server_tools else {}
    shown = Output.chosen(json=json_, events=events, quiet=quiet, raw=raw, file=output)
    with guarded():
        question = question_from(query)
        config = config_for_run(root, model, trust=trust, quiet=quiet)
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

        runner = Runner(
            root=root,
            dir=dir_ or config.get("dir"),
            model=model,
            strict=bool(config.get("strict") if strict is None else strict),
            store=store,
            on_lost=on_lost,
            trust=trust,
            require_model=require_model or None,
            defaults=config.defaults,
            requests_at_once=requests_at_once,
            dry_run=dry_run,
        )
        outcome = answer(runner, partial(runner.prepare, name, question, **given), shown)
    raise typer.Exit(outcome.exit_code)


def main() -> None:
    """Run the command."""
    pause_gc()
    with as_program():
        app()
