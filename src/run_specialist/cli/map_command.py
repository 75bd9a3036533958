"""The command `specialists map NAME ITEMS`."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import guarded, say
from run_specialist.cli.flags import Dir, FilesRoot, Model, RequireModel, SpecialistName, StoreUrl
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.trust_flag import TrustFlag

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.batch import Batch


def map_(
    name: SpecialistName,
    items: Annotated[str, typer.Argument(metavar="ITEMS", help="File with one item per line: JSON Lines or text.")],
    question: Annotated[
        str | None, typer.Option(help="Question about each item, with its fields in braces.", metavar="TEXT")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the answers, a JSON object per line.  [default: stdout]")
    ] = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Maximum number of items under way.")] = 8,
    dir_: Dir = None,
    root: FilesRoot = None,
    model: Model = None,
    require_model: RequireModel = False,
    store: StoreUrl = None,
    trust: TrustFlag = False,
) -> None:
    """Ask a specialist about each of many items."""
    with guarded():
        config = config_for_run(root, model, trust=trust, quiet=False)
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`
        from run_specialist.batch.reading import read_items  # noqa: PLC0415 - fast `--help`

        runner = Runner(
            root=root,
            dir=dir_ or config.get("dir"),
            model=model,
            store=store,
            trust=trust,
            require_model=require_model or None,
            defaults=config.defaults,
        )
        asyncio.run(_answer(runner, runner.map(name, read_items(items), question=question, at_once=at_once), out))


async def _answer(runner: "Runner", batch: "Batch", out: Path | None) -> None:
    file = None if out is None else out.open("w", encoding="utf-8")
    async with runner:
        async for done in batch:
            line = json.dumps(done.as_row(), ensure_ascii=False)
            if file is None:
                typer.echo(line)
            else:
                print(line, file=file, flush=True)
                say(f"{done.number} {done.state}")
