"""The command `specialists schema`."""

from run_specialist.cli.console import guarded, print_json


def schema() -> None:
    """Print the JSON Schema of the front matter, for use in editors."""
    with guarded():
        from run_specialist.specialist.editor_schema import json_schema  # noqa: PLC0415 - fast `--help`

        print_json(json_schema())
