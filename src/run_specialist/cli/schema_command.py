"""The command `specialists schema`."""

from pathlib import Path
from typing import Annotated

import typer

from run_specialist.cli.console import fail, guarded, print_json
from run_specialist.cli.flags import ProjectRoot


def schema(
    install: Annotated[
        bool, typer.Option("--install", help="Write the schema and the settings of VS Code into the project.")
    ] = False,
    root: ProjectRoot = None,
) -> None:
    """Print the JSON Schema of the front matter, or install it."""
    with guarded():
        from run_specialist.providers.models import ALIASES  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.editor_schema import json_schema  # noqa: PLC0415 - fast `--help`

        whole = json_schema(models=(*ALIASES, *ALIASES.values(), "inherit", "offline"))
        if not install:
            print_json(whole)
            return
        from run_specialist.cli.editor_settings import install_schema  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.registry import project_root  # noqa: PLC0415 - fast `--help`

        if root is not None and not root.is_dir():
            fail(f"--root: {root} is not a folder")
        install_schema(whole, root or project_root(Path.cwd()))
