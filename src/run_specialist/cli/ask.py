"""The command `run-specialist NAME QUERY`."""

from functools import partial

import typer

from run_specialist.cli.console import as_program, guarded
from run_specialist.cli.flags import (
    Dir,
    DryRun,
    FilesRoot,
    Model,
    OnLostFlag,
    RequestsAtOnce,
    RequireModel,
    SpecialistName,
    StoreUrl,
    Strict,
)
from run_specialist.cli.from_config import config_for_run, configured_runner
from run_specialist.cli.live_run import answer
from run_specialist.cli.option_groups import flattened
from run_specialist.cli.output_options import OutputOptions
from run_specialist.cli.query_words import QueryWords, WordsCommand, question_from
from run_specialist.cli.setting_options import SettingOptions
from run_specialist.cli.startup import pause_gc
from run_specialist.cli.trust_flag import TrustFlag
from run_specialist.cli.version_flag import VersionFlag

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=WordsCommand)
@flattened
def run(
    name: SpecialistName,
    query: QueryWords = None,
    *,
    dir_: Dir = None,
    root: FilesRoot = None,
    model: Model = None,
    require_model: RequireModel = False,
    given: SettingOptions,
    requests_at_once: RequestsAtOnce = None,
    store: StoreUrl = None,
    on_lost: OnLostFlag = "go_on",
    output: OutputOptions,
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
    shown = output.chosen()
    with guarded():
        question = question_from(query)
        config = config_for_run(root, model, trust=trust, quiet=shown.quiet)
        runner = configured_runner(
            config,
            dir_=dir_,
            strict=strict,
            require_model=require_model,
            root=root,
            model=model,
            store=store,
            on_lost=on_lost,
            trust=trust,
            requests_at_once=requests_at_once,
            dry_run=dry_run,
        )
        outcome = answer(runner, partial(runner.prepare, name, question, **given.settings), shown)
    raise typer.Exit(outcome.exit_code)


def main() -> None:
    """Run the command."""
    pause_gc()
    with as_program():
        app()
