"""The option `--version` of both commands."""

from typing import Annotated

import typer

from run_specialist.cli.console import print_line


def _print_version(asked: bool) -> None:
    if asked:
        from run_specialist.version import NAME, release  # noqa: PLC0415 - reads the metadata of the installation

        print_line(f"{NAME} {release()}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]
