"""The command `specialists config`: show what the config files and the environment set."""

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.cli.console import fail, guarded, is_terminal, print_json, print_line, say
from run_specialist.cli.flags import Json, ProjectRoot
from run_specialist.cli.table import print_table

if TYPE_CHECKING:
    from run_specialist.config.config import Config
    from run_specialist.config.config_file import ConfigFile

_STATES = {"read": "read", "missing": "does not exist", "no table": "no table [tool.run-specialist]"}


def config(root: ProjectRoot = None, json_: Json = False) -> None:
    """Show the settings of config files and environment, with sources."""
    if root is not None and not root.is_dir():
        fail(f"--root: {root} is not a folder")
    with guarded():
        from run_specialist.config.config import read_config  # noqa: PLC0415 - fast `--help`
        from run_specialist.config.holding import holdings  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import project_root  # noqa: PLC0415 - fast `--help`

        project = project_root(Path.cwd()) if root is None else root.absolute()
        read = read_config(project, meant=root is not None)
        held = list(holdings(read))
        trusted, line = _trust(read)
        if json_:
            files = [_file(one) for one in read.files]
            print_json({"settings": {one.key: one.as_json() for one in held}, "files": files, "trusted": trusted})
            return
        print_table(("KEY", "VALUE", "FROM"), [(one.key, one.shown_value, one.origin) for one in held])
        print_line("")
        if not read.files:
            print_line("No config file is read: SPECIALIST_CONFIG is none.")
        for file in read.files:
            print_line(f"{_near(file.path)}: {_state(file)}")
        if line:
            print_line("\n" + (textwrap.fill(line, shutil.get_terminal_size().columns) if is_terminal() else line))
        say("for one specialist, with its own file: specialists show NAME", dim=True)


def _trust(read: "Config") -> tuple[bool | None, str]:
    """Return whether the model of the project may be used, and a line about it; `(None, "")` if it needs no trust."""
    from run_specialist.config.project_model import model_claim  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - fast `--help`

    claim = model_claim(read)
    if claim is None:
        return None, ""
    actions = ", ".join(demand.action for demand in claim.demands)
    if Trust().is_known(claim):
        return True, f"trusted: the model of the project may {actions}"
    return False, f"not trusted: the model of the project would {actions}; to allow this, run once with --trust"


def _file(file: "ConfigFile") -> dict[str, Any]:
    return {
        "path": str(file.path),
        "scope": file.scope,
        "state": file.state.replace(" ", "_"),
        "reason": file.reason or None,
    }


def _state(file: "ConfigFile") -> str:
    return f"ignored, {file.reason}" if file.reason else _STATES[file.state]


def _near(path: Path) -> str:
    from run_specialist.config.config_places import near  # noqa: PLC0415 - fast `--help`

    return near(path)
