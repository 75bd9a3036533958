"""The list of commands in `specialists --help`, with uncut summaries."""

import sys
from typing import TYPE_CHECKING

from typer.core import TyperGroup

from run_specialist.cli.help_format import HelpContext

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter, Parameter


class CommandList(TyperGroup):
    """A group of commands whose summaries wrap in a narrow terminal; its base class cuts them."""

    context_class = HelpContext

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return the command with this name, whose help text has the same format."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.context_class = HelpContext
        return command

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        """Return the options; sets the default of flags to False, because typer imports pydantic to convert None."""
        found = super().get_params(ctx)
        for one in found:
            if getattr(one, "is_flag", False) and one.default is None:
                one.default = False
        return found

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the commands below their headings, each with the first sentence of its help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                rows = sections.setdefault(heading if isinstance(heading, str) else "Commands", [])
                rows.append((name, command.get_short_help_str(limit=sys.maxsize)))
        # The column of names is equally wide below all headings.
        widest = max(len(name) for rows in sections.values() for name, _ in rows)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), summary) for name, summary in rows])
