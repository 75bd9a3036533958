"""Commands with many options: each group of options is a dataclass and a section of the help text."""

import dataclasses
import inspect
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from typer.core import TyperCommand

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typer._click import Context, HelpFormatter

_OTHERS = "Other options"
_WORDS = "run_specialist.words"


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with one option per field of its dataclass parameters.

    command: its parameters are dataclasses, whose fields are annotated as options, or options themselves. The first
        line of a dataclass's docstring, without its period, is the heading of its options.
    """
    return _with_options(command, headings=True)


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command like `grouped`, but with all options in one section of the help text."""
    return _with_options(command, headings=False)


def _with_options(command: Callable[..., None], *, headings: bool) -> Callable[..., None]:
    groups: dict[str, type[DataclassInstance]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            groups[parameter.name] = group
            parameters += _options(group, headings=headings)
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


def _options(group: "type[DataclassInstance]", *, headings: bool) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as keyword parameters of a command."""
    heading = (group.__doc__ or "").splitlines()[0].rstrip(".")
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=_below(heading, hints[field.name]) if headings else hints[field.name],
        )
        for field in dataclasses.fields(group)
    ]


def _below(heading: str, annotation: Any) -> Any:  # noqa: ANN401 - a type form
    """Return an annotated option that the help text lists below a heading."""
    if get_origin(annotation) is not Annotated:
        raise TypeError(f"{annotation} is not an option; use Annotated[..., typer.Option()]")
    type_, option, *others = get_args(annotation)
    option = copy(option)
    option.rich_help_panel = heading
    return Annotated[type_, option, *others]


def given_words(context: "Context") -> tuple[str, ...]:
    """Return the arguments of a `GroupedCommand` as the user gave them."""
    return tuple(context.meta.get(_WORDS, ()))


class GroupedCommand(TyperCommand):
    """A command whose help text lists its options in groups, in the order of their first options."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the arguments, and store them unparsed, too."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the arguments, then each group of options, then those without a group."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        others: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            heading = getattr(parameter, "rich_help_panel", None)
            if parameter.param_type_name == "argument":
                sections["Arguments"].append(record)
            elif heading:
                sections.setdefault(heading, []).append(record)
            else:
                others.append(record)
        for title, rows in (*sections.items(), (_OTHERS, others)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
