"""Offer the tool `bash` to a file, or say why not; the sandbox is imported only if a file asks for it."""

import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.home import home_path
from run_specialist.specialist.tool_names import SHELL as NAME
from run_specialist.tools.base import Tool
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.offer import Offer


def shell_offer(copy: WorkingCopy) -> Offer:
    """Return the tool as one run is offered it; a dry run must change nothing."""
    return replace(SHELL, make=_without_changes if copy.patch is not None else partial(_make, copy=copy))


def _make(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    from run_specialist.tools.shell.shell import shell_tool  # noqa: PLC0415 - few files ask for it

    return shell_tool(settings, root, copy)


def _without_changes(settings: Specialist, root: Path) -> Tool:
    return _make(settings.model_copy(update={"writable": ()}), root)


def _action(settings: Specialist) -> str:
    from run_specialist.tools.shell.command_rules import CommandRules  # noqa: PLC0415 - as above

    allowed = CommandRules.of(settings.tools, settings.disallowed_tools)
    # Only names are compared, and many programs run others.
    rules = str(allowed).rstrip(".") + ("; this is advisory" if allowed.denied else "")
    where = f", which may change {', '.join(settings.writable)}" if settings.writable else ", which changes nothing"
    return f"run commands in a sandbox{where}" + (f" ({rules})" if rules else "")


def _lacking(settings: Specialist, root: Path) -> str:
    from run_specialist.tools.shell import bubblewrap, seatbelt  # noqa: PLC0415 - as above
    from run_specialist.tools.shell.command_rules import CommandRules  # noqa: PLC0415 - as above
    from run_specialist.tools.shell.shown_files import writable_places  # noqa: PLC0415 - as above

    if sys.platform == "linux":
        reason = bubblewrap.why_unusable()
    elif sys.platform == "darwin":
        reason = seatbelt.why_unusable()
    else:
        reason = "it runs commands only in a sandbox, and there is none for this system"
    if reason:
        return reason
    real, home = os.path.realpath(root), os.path.realpath(home_path("~"))
    if Path(home).is_relative_to(real):
        return f"commands would see your home folder, because it is in the root {real}; choose a project with --root"
    with suppress(OSError):
        _, refused = writable_places(Path(real), settings.writable)
        if refused:
            return f"writable: {'; '.join(refused)}"
    if CommandRules.of(settings.tools, settings.disallowed_tools).allowed == ():
        return "its rule allows no command"
    return ""


SHELL = Offer(NAME, ("tools", "disallowed_tools", "paths", "writable"), _action, _make, _lacking)
"""The offer of the tool."""
