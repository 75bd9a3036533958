"""Help texts, groups of options, usage errors and the version flag."""

import dataclasses
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from run_specialist.cli.console import print_json_error, print_line, wrapped

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typer._click import Command as _Command
    from typer._click import Context as _Context
    from typer._click import HelpFormatter as _HelpFormatter
    from typer._click import Parameter
else:
    # Part of click, or of a copy of click inside typer.
    _Command = TyperCommand.__base__
    _Context = TyperCommand.context_class
    _HelpFormatter = _Context.formatter_class

_HYPHEN_IN_WORD = r"(?<=\w)-(?=\w)"
_UNBROKEN = "\N{NON-BREAKING HYPHEN}"
# Widths of a help text: the largest, the smallest, and that up to which long names have lines of their own [columns].
_WIDEST, _NARROWEST, _NARROW = 80, 20, 60


class HelpFormatter(_HelpFormatter):
    """A formatter that breaks lines only between words, and names no Python type."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        """Set the width; its base class has no lines of less than 50 columns."""
        columns = min(shutil.get_terminal_size().columns, max_width or _WIDEST) - indent_increment
        super().__init__(indent_increment, width or max(columns, _NARROWEST), max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line, with a required argument as `NAME` instead of `{NAME}`."""
        super().write_usage(prog, re.sub(r"\{(\w+)\}", r"\1", args), prefix)

    def write_text(self, text: str) -> None:
        """Write a paragraph, wrapped between words and not at hyphens."""
        super().write_text(re.sub(_HYPHEN_IN_WORD, _UNBROKEN, text))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and descriptions in two columns; in a narrow terminal, a long name has its own line."""
        typed = r"^(\w+) <(?:str|list\[\w+\])>$"
        named = [(re.sub(typed, r"\1", name), re.sub(_HYPHEN_IN_WORD, _UNBROKEN, text)) for name, text in rows]
        super().write_dl(named, col_max if self.width > _NARROW else _NARROW // 5, col_spacing)

    def getvalue(self) -> str:
        """Return the help text."""
        return super().getvalue().replace(_UNBROKEN, "-")


class HelpContext(_Context):
    """The context of a command whose help text is written by `HelpFormatter`, and whose usage errors can be JSON."""

    formatter_class = HelpFormatter

    def __init__(self, *given: Any, **options: Any) -> None:  # noqa: ANN401 - as its base class
        """Add `--help-all`, which every command has."""
        super().__init__(*given, **options | {"help_option_names": ["--help", _EVERYTHING]})

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        """Leave the context; a usage error that passes through is printed as JSON, too, if that was asked for."""
        # Its class is part of click, or of a copy of click in typer.
        message = getattr(exc_value, "format_message", None)
        if message is not None and hasattr(exc_value, "ctx"):
            print_json_error(message(), "usage")
        return super().__exit__(exc_type, exc_value, tb)


# The option that shows all options or commands, in groups; `--help` shows those that people use every day.
_EVERYTHING = "--help-all"
Row = tuple[str, tuple[str, str]]
"""A heading, and the name and the description below it."""
_WORDS = "run_specialist.words"
_ARGUMENTS, _OPTIONS, _OTHERS, _COMMANDS = "Arguments", "Options", "Other options", "Commands"


def everyday(names: str, *examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command whose `--help` shows only what people use every day.

    names: of parameters, or of the commands of a group, in the order in which they are shown.
    examples: command lines, shown below them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        vars(command)["everyday"] = names.split(), examples
        return command

    return decorate


def given_words(context: _Context) -> tuple[str, ...]:
    """Return the arguments of a command as the user gave them."""
    return tuple(context.meta.get(_WORDS, ()))


class _Given:
    """Converts only what was given: typer imports pydantic to convert a value, even None, and builds an adapter."""

    def __init__(self, converter: Any) -> None:  # noqa: ANN401 - a method that only newer versions of typer have
        self._converter = converter

    def coerce(self, value: object, param: "Parameter", ctx: _Context) -> object:
        """Return the value of a parameter, as the method of typer's `RuntimeParam`."""
        if value is None:
            return () if param.nargs == -1 or getattr(param, "multiple", False) else None
        return self._converter().coerce(value, param=param, ctx=ctx)


class _TwoTiers(_Command):
    """A command with two help texts: `--help` may show only what people use every day."""

    context_class = HelpContext
    # Heading of what people use every day.
    kind = _OPTIONS

    def rows(self, ctx: _Context) -> dict[str, Row]:
        """Return all rows of the help text by the name of the parameter or the command; options have their groups."""
        rows: dict[str, Row] = {}
        others = _OTHERS if any(getattr(one, "rich_help_panel", None) for one in self.params) else _OPTIONS
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                panel = getattr(one, "rich_help_panel", None) or others
                rows[one.name or ""] = _ARGUMENTS if one.param_type_name == "argument" else panel, record
        return rows

    def parse_args(self, ctx: _Context, args: list[str]) -> list[str]:
        """Parse the arguments, and store them unparsed, too; say how to ask a question that contains an option."""
        ctx.meta[_WORDS] = tuple(args)
        for one in self.get_params(ctx):
            vars(one)["get_runtime_param"] = partial(_Given, getattr(one, "get_runtime_param", None))
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of this error is part of click, or of a copy of click inside typer.
            asks = any(getattr(one, "metavar", "") == "QUERY" for one in self.params)
            if asks and getattr(error, "option_name", None):
                hint = "If it belongs to the question, quote the question, or put `--` before it."
                error.message = f"{error.format_message()}\n{hint}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise

    def get_help_option_names(self, ctx: _Context) -> list[str]:
        """Return the names of the help option, in this order; its base class has them in a set."""
        return ctx.help_option_names

    def format_help_text(self, ctx: _Context, formatter: _HelpFormatter) -> None:
        """Write what the command does; of every day, the first paragraph."""
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.partition("\n\n")[0] if self._day(ctx)[0] else text)

    def format_options(self, ctx: _Context, formatter: _HelpFormatter) -> None:
        """Write the rows below their headings; of every day, one line each, and then the examples."""
        rows, (day, examples) = self.rows(ctx), self._day(ctx)
        listed = [*rows.values()]
        if day:
            listed = [row for row in listed if row[0] == _ARGUMENTS] + [(self.kind, rows[name][1]) for name in day]
            further = r"(?s)(?<!\.\w)[.;:] .*"  # what follows the first clause
            listed = [(heading, (name, re.sub(further, ".", text))) for heading, (name, text) in listed]
            listed.append((self.kind, (_EVERYTHING, f"Show all {self.kind.lower()}, in groups.")))
        sections: dict[str, list[tuple[str, str]]] = {}
        for heading, row in sorted(listed, key=lambda row: row[0] == _OTHERS):
            sections.setdefault(heading, []).append(row)
        for heading, section in sections.items():
            with formatter.section(heading):
                formatter.write_dl(section)
        if examples:
            with formatter.section("Examples"):
                for example in examples:
                    formatter.write("".join(f"  {line}\n" for line in wrapped(example, formatter.width - 2)))

    def _day(self, ctx: _Context) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names and the examples that `--help` shows; nothing if it shows everything."""
        return ((), ()) if _EVERYTHING in given_words(ctx) else getattr(self.callback, "everyday", ((), ()))


class CommandList(_TwoTiers, TyperGroup):
    """A group of commands whose summaries wrap in a narrow terminal; its base class cuts them."""

    kind = _COMMANDS

    def rows(self, ctx: _Context) -> dict[str, Row]:
        """Return the options and the commands, each with the first sentence of its help."""
        day, _ = self._day(ctx)
        found = {name: self.get_command(ctx, name) for name in day or self.list_commands(ctx)}
        # The column of names is equally wide below all headings.
        widest = max(map(len, found))
        rows = super().rows(ctx)
        for name, command in found.items():
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                summary = command.get_short_help_str(limit=sys.maxsize)
                rows[name] = (heading if isinstance(heading, str) else _COMMANDS, (name.ljust(widest), summary))
        return rows


class GroupedCommand(_TwoTiers, TyperCommand):
    """A command whose help text lists its options in groups, in the order of their first options."""


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
        # The class that declares the option, which may be a base class of the group.
        declaring = next(one for one in reversed(group.__mro__) if field.name in vars(one).get("__annotations__", ()))
        found.rich_help_panel = (declaring.__doc__ or "").splitlines()[0].rstrip(".")
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, keyword, default=field.default, annotation=Annotated[type_, found])


def _print_version(asked: bool) -> None:
    if asked:
        from run_specialist.version import NAME, release  # noqa: PLC0415 - reads the metadata of the installation

        print_line(f"{NAME} {release()}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]
