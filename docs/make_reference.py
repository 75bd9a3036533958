"""Write docs/reference.md: every command, every key of a specialist file, every key of a config file.

uv run python docs/make_reference.py

All texts come from the program: `--help`, the docstrings of `Specialist`'s fields, the keys of config files.
"""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import BaseModel

from run_specialist.api.config_files import KEYS
from run_specialist.cli import ask, manage
from run_specialist.specialist.fields import ALIASES, CANONICAL, Countdown, Expected, Specialist, descriptions
from run_specialist.specialist.origins import rule

PAGE = Path(__file__).with_name("reference.md")
SHARED_BY = 3
"""What this many commands have, with the same text, is described once for all of them."""
_HEAD = """# Reference

All commands and keys, written by `python docs/make_reference.py`. Guides: [start page](README.md). Output for programs:
[json.md](json.md).
"""
_OF_TYPER = {"--help", "--install-completion", "--show-completion"}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name, the groups of commands left out."""
    yield "run-specialist", typer.main.get_command(ask.app)
    waiting = [("specialists", typer.main.get_command(manage.app))]
    while waiting:
        name, command = waiting.pop(0)
        if hasattr(command, "list_commands"):
            context = command.make_context(name, [], resilient_parsing=True)
            waiting[:0] = [
                (f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)
            ]
        else:
            yield name, command


def option(parameter: Any) -> tuple[str, str]:  # noqa: ANN401 - a parameter of the vendored click
    """Return an option with its value, and its meaning."""
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name.upper()}"
    is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
    default = f" [default: {parameter.default}]" if is_number and "[default" not in parameter.help else ""
    return f"{names}{value}", f"{parameter.help}{default}"


def items(cells: list[tuple[str, str]]) -> str:
    """Return a list of names with their meaning."""
    return "".join(f"- `{name}`: {' '.join(meaning.split())}\n" for name, meaning in cells)


def options_of(command: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a command of the vendored click
    """Return the options of a command, without those that typer adds to each."""
    given = [one for one in command.params if one.param_type_name == "option" and not _OF_TYPER.intersection(one.opts)]
    return [option(one) for one in given]


def arguments_of(command: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a command of the vendored click
    """Return the arguments of a command."""
    given = [one for one in command.params if one.param_type_name == "argument"]
    return [(one.metavar or one.name.upper(), one.help or "") for one in given]


def command_sections() -> Iterator[str]:
    """Yield the lists of shared arguments and options, and the section of each command."""
    known = list(commands())
    named = Counter(one for _, command in known for one in arguments_of(command))
    same = [one for one, times in named.items() if times >= SHARED_BY]
    often = Counter(one for _, command in known for one in options_of(command))
    # Of options with one name and several texts only the most frequent is shared.
    first = {name: (name, meaning) for (name, meaning), _ in reversed(often.most_common())}
    shared = [one for one, times in often.items() if times >= SHARED_BY and first[one[0]] == one]
    yield f"## Options of several commands\n\n{items(shared)}"
    yield f"## Arguments of several commands\n\n{items(same)}"
    yield "## Commands\n"
    for name, command in known:
        text = inspect.cleandoc(command.callback.__doc__ or "").replace("\f", "")
        context = command.make_context(name, [], resilient_parsing=True)
        pieces = command.collect_usage_pieces(context)[1:]
        usage = " ".join([name, "[OPTIONS]", *pieces]).replace("{", "").replace("}", "")
        own = [one for one in arguments_of(command) if one not in same]
        own += [one for one in options_of(command) if one not in shared]
        parts = [f"### {name}\n", *([f"`{usage}`\n"] if pieces else ()), f"{text}\n"]
        if own:
            parts.append(items(own))
        also = [one for one in shared if one in options_of(command)]
        if also:
            many = len(also) > len(shared) / 2
            listed = ", ".join(
                f"`{one.split(' ')[0].rstrip(',')}`" for one, text in shared if ((one, text) in also) != many
            )
            parts.append(f"{'All shared options but' if many else 'Also:'} {listed}.\n")
        yield "\n".join(parts)


def word(value: Any) -> str:  # noqa: ANN401 - the default of any key
    """Return a default as a file would give it."""
    if isinstance(value, Countdown):
        value = value.model_dump(by_alias=True)
        return f"`{yaml.safe_dump(value, default_flow_style=True, sort_keys=False).strip().replace('null', 'none')}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def keys_of(model: type[BaseModel], names: Iterable[str]) -> str:
    """Return a list of the keys of a model."""
    lines = []
    for name in names:
        field = model.model_fields[name]
        said = [one.phrase for one in field.metadata if isinstance(one, Expected)]
        if not field.is_required() and field.default not in (None, ()):
            said.append(f"default: {word(field.default)}")
        brackets = f" [{'; '.join(said)}]" if said else ""
        lines.append((name.rstrip("_"), f"{descriptions(model)[name.rstrip('_')]}{brackets}"))
    return items(lines)


def key_sections() -> Iterator[str]:
    """Yield the lists of the keys of specialist files and of config files."""
    head = "In `snake_case`, `camelCase` or `kebab-case`; in brackets the values, and the default if there is one."
    yield f"## Keys of a specialist file\n\n{head}\n\n{keys_of(Specialist, CANONICAL)}"
    yield "### Keys of `countdown`\n\n" + keys_of(Countdown, Countdown.model_fields)
    also = {key: [f"`{alias}`" for alias, meant in ALIASES.items() if meant == key] for key in CANONICAL}
    others = [(key, ", ".join(names)) for key, names in also.items() if names]
    yield f"### Other names of keys\n\n{items(others)}"
    names = {key: f"`{key.replace('_', '-')}`" for key in KEYS}
    anyone = ", ".join(names[key] for key in KEYS if rule(key, "project") != "never")
    personal = ", ".join(names[key] for key in KEYS if rule(key, "project") == "never")
    yield (
        "## Keys of a config file\n\nEach but `default-specialist` is the option of the same name: "
        "[configuration.md](configuration.md).\n\n"
        f"- In a project's `pyproject.toml` and in your own file: {anyone}.\n- In your own file only: {personal}.\n"
    )


def page() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *command_sections(), *key_sections()])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
