"""Help texts, groups of options, usage errors and the version flag."""

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from run_specialist.cli.console import print_json_error, print_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typer._click import Command, Parameter
    from typer._click import Context as _Context
    from typer._click import HelpFormatter as _HelpFormatter
else:
    # Part of click, or of a copy of click inside typer.
    _Context = TyperCommand.context_class
    _HelpFormatter = _Context.formatter_class

_PYTHON_TYPE = re.compile(r"^(\w+) <(?:str|list\[\w+\])>$")
_REQUIRED = re.compile(r"\{(\w+)\}")
_HYPHEN_IN_WORD = re.compile(r"(?<=\w)-(?=\w)")
_UNBROKEN = "\N{NON-BREAKING HYPHEN}"


class HelpFormatter(_HelpFormatter):
    """A formatter that breaks lines only between words, and names no Python type."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line, with a required argument as `NAME` instead of `{NAME}`."""
        super().write_usage(prog, _REQUIRED.sub(r"\1", args), prefix)

    def write_text(self, text: str) -> None:
        """Write a paragraph, wrapped between words and not at hyphens."""
        super().write_text(_HYPHEN_IN_WORD.sub(_UNBROKEN, text))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and descriptions in two columns."""
        named = [(_PYTHON_TYPE.sub(r"\1", name), _HYPHEN_IN_WORD.sub(_UNBROKEN, text)) for name, text in rows]
        super().write_dl(named, col_max, col_spacing)

    def getvalue(self) -> str:
        """Return the help text."""
        return super().getvalue().replace(_UNBROKEN, "-")


class HelpContext(_Context):
    """The context of a command whose help text is written by `HelpFormatter`, and whose usage errors can be JSON."""

    formatter_class = HelpFormatter

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        """Leave the context; a usage error that passes through is printed as JSON, too, if that was asked for."""
        # Its class is part of click, or of a copy of click in typer.
        message = getattr(exc_value, "format_message", None)
        if message is not None and hasattr(exc_value, "ctx"):
            print_json_error(message(), "usage")
        return super().__exit__(exc_type, exc_value, tb)


class WordsCommand(TyperCommand):
    """A command whose last argument is a question in words, some of which may look like options."""

    context_class = HelpContext

    def parse_args(self, ctx: _Context, args: list[str]) -> list[str]:
        """Parse the arguments; the error for an unknown option says how to ask a question that contains it."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of this error is part of click, or of a copy of click inside typer.
            if getattr(error, "option_name", None):
                hint = "If it belongs to the question, quote the question, or put `--` before it."
                error.message = f"{error.format_message()}\n{hint}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise


class CommandList(TyperGroup):
    """A group of commands whose summaries wrap in a narrow terminal; its base class cuts them."""

    context_class = HelpContext

    def get_command(self, ctx: _Context, cmd_name: str) -> "Command | None":
        """Return the command with this name, whose help text has the same format."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.context_class = HelpContext
        return command

    def get_params(self, ctx: _Context) -> "list[Parameter]":
        """Return the options; sets the default of flags to False, because typer imports pydantic to convert None."""
        found = super().get_params(ctx)
        for one in found:
            if getattr(one, "is_flag", False) and one.default is None:
                one.default = False
        return found

    def format_commands(self, ctx: _Context, formatter: _HelpFormatter) -> None:
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


_WORDS = "run_specialist.words"


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with one option per field of its dataclass parameters.

    command: its parameters are options, or dataclasses whose fields are annotated as options or made by `option`. The
        first line of a dataclass's docstring, without its period, is the heading of its options.
    """
    groups: dict[str, type[DataclassInstance]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            groups[parameter.name] = group
            parameters += _options(group)
        else:
            parameters.append(parameter)

    def flat(**given: Any) -> None:  # noqa: ANN401 - the values of any options
        filled = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**given, **filled)

    flat.__name__, flat.__doc__, flat.__module__ = command.__name__, command.__doc__, command.__module__
    flat.__annotations__ = {one.name: one.annotation for one in parameters}
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def option(metavar: str | None, help_: str, *names: str, default: Any = None, **others: Any) -> Any:  # noqa: ANN401 - as `dataclasses.field`
    """Return a field of a dataclass that is an option named after it; `names` are further names.

    others: as `typer.Option` takes them.
    """
    given = {"names": names, "metavar": metavar, "help": help_, **others}
    return dataclasses.field(default=default, metadata=given)


flag = partial(option, None, default=False)


def _options(group: "type[DataclassInstance]") -> Iterator[inspect.Parameter]:
    """Yield the fields of a dataclass as keyword parameters of a command."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        type_, given = hints[field.name], {**field.metadata}
        if given:
            name = f"--{field.name.rstrip('_').replace('_', '-')}"
            found = typer.Option(name, *given.pop("names"), **given)
        else:
            type_, shared = get_args(type_)
            found = copy(shared)
        found.rich_help_panel = (group.__doc__ or "").splitlines()[0].rstrip(".")
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, keyword, default=field.default, annotation=Annotated[type_, found])


def given_words(context: _Context) -> tuple[str, ...]:
    """Return the arguments of a `GroupedCommand` as the user gave them."""
    return tuple(context.meta.get(_WORDS, ()))


class GroupedCommand(TyperCommand):
    """A command whose help text lists its options in groups, in the order of their first options."""

    def parse_args(self, ctx: _Context, args: list[str]) -> list[str]:
        """Parse the arguments, and store them unparsed, too."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: _Context, formatter: _HelpFormatter) -> None:
        """Write the arguments, then each group of options, then those without a group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Other options"
                sections.setdefault(heading, []).append(record)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _print_version(asked: bool) -> None:
    if asked:
        from run_specialist.version import NAME, release  # noqa: PLC0415 - reads the metadata of the installation

        print_line(f"{NAME} {release()}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]
