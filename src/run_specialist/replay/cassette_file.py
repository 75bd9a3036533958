"""Read a cassette file; each problem is reported with its line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from run_specialist.errors import UsageError
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.record.outcome import Child
from run_specialist.replay.cassette import (
    AnsweredRequest,
    Body,
    Cassette,
    Line,
    NextModel,
    RecordedCall,
    Setup,
    UnansweredRequest,
)
from run_specialist.replay.cassette_format import (
    FORMAT,
    LISTS,
    VERSION_KEY,
    AdaptedLine,
    CallLine,
    Head,
    MessageLine,
    NoReplyLine,
    ServerToolLine,
    ToolLine,
    UserLine,
)
from run_specialist.replay.cassette_lines import results_in
from run_specialist.replay.located_json import LocatedValue, located
from run_specialist.specialist.fields import Specialist
from run_specialist.store.from_rows import child

LARGEST = 64 * 2**20
"""Maximum size of a file [bytes]."""
_SAVE = "restore the file, or save it again with `specialists replay RUN --save FILE`"

_M = TypeVar("_M", bound=BaseModel)


class _Malformed(Exception):
    """A line of the file is invalid; the text says why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def read_cassette(path: Path) -> Cassette:
    """Read a cassette file.

    Raises UsageError, as `FILE:LINE: reason`, if the file is not a cassette, is incomplete, or has a newer format.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{path}: larger than {LARGEST // 2**20} MB, too large for a cassette")
        return _cassette(str(path), located(content.decode("utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text; {_SAVE}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not valid JSON: {error.msg}; {_SAVE}") from None
    except RecursionError:
        raise UsageError(f"{path}: too deeply nested JSON; {_SAVE}") from None
    except _Malformed as error:
        raise UsageError(f"{path}:{error.line}: {error}; {_SAVE}") from None


def _cassette(source: str, found: Mapping[str, LocatedValue]) -> Cassette:
    version = found.get(VERSION_KEY)
    if version is None:
        raise _Malformed(1, f"not a cassette: the key {VERSION_KEY} is missing")
    if isinstance(version.value, int) and version.value > FORMAT:
        place = f"{source}:{version.line}"
        raise UsageError(f"{place}: format {version.value} is newer than {FORMAT}; update run-specialist")
    head = _head({key: one for key, one in found.items() if key not in LISTS})
    lists = {name: _items(name, found, head, found["lines"].line) for name in LISTS}
    setup = Setup(
        specialist=head.specialist,
        digest=head.file_sha256,
        model=head.model,
        question=head.question,
        settings=_settings(found["settings"].line, head),
        overridden=head.overridden,
        system="\n".join(head.system),
        tools=[_tool(one) for one in lists["tools"]],
        given_tools=head.given_tools,
        parents=head.parents,
        rungs=head.rungs,
    )
    lines = [_line(one) for one in lists["messages"]]
    results = results_in(line.blocks for line in lines if isinstance(line, Message))
    calls = [_call(one, results) for one in lists["calls"]]
    return Cassette(source, setup, lines, calls, head.outcome.model_dump(), _children(lists["children"]), is_file=True)


def _head(found: Mapping[str, LocatedValue]) -> Head:
    try:
        return Head.model_validate({key: one.value for key, one in found.items()})
    except ValidationError as error:
        first = error.errors()[0]
        place = found.get(str(first["loc"][0]))
        raise _Malformed(place.line if place else 1, _reason("", first["loc"], first["msg"])) from None


def _items(name: str, found: Mapping[str, LocatedValue], head: Head, sizes: int) -> Sequence[LocatedValue]:
    """Return the items of a list; raises _Malformed if some are missing.

    sizes: the line with the number of items.
    """
    place = found.get(name)
    if place is None or not isinstance(place.value, list):
        raise _Malformed(place.line if place else 1, f"{name}: must be a list")
    if len(place.items) != head.lines.get(name):
        number = f"its number of lines is {len(place.items)}, but line {sizes} says {head.lines.get(name)}"
        raise _Malformed(place.line, f"{name}: {number}")
    return place.items


def _settings(line: int, head: Head) -> Mapping[str, object]:
    """Return all settings of the run; the file contains only those that differ from the defaults."""
    try:
        every = Specialist.model_validate({"name": "", "description": "", "prompt": "", **head.settings})
    except ValidationError as error:
        first = error.errors()[0]
        raise _Malformed(line, _reason("settings", first["loc"], first["msg"])) from None
    return every.model_dump(mode="json", by_alias=True)


def _checked(model: type[_M], name: str, item: LocatedValue, key: str | None = None) -> _M:
    """Return an item of a list.

    key: field of the model for the item; None = the item is the model.
    """
    try:
        return model.model_validate(item.value if key is None else {key: item.value})
    except ValidationError as error:
        first = error.errors()[0]
        # Behind the name of the field comes that of the variant.
        inner = first["loc"] if key is None else first["loc"][2:]
        raise _Malformed(item.line, _reason(name, inner, first["msg"])) from None


def _reason(name: str, inner: Sequence[object], message: str) -> str:
    """Return the place in a line and its problem.

    message: the message of pydantic.
    """
    place = ".".join(part for part in (name, *map(str, inner)) if part)
    text = message.removeprefix("Value error, ")
    return f"{place}: {text[:1].lower()}{text[1:]}"


def _tool(item: LocatedValue) -> Mapping[str, object]:
    is_of_server = isinstance(item.value, Mapping) and "type" in item.value
    line = _checked(ServerToolLine if is_of_server else ToolLine, "tools", item)
    return line.model_dump(exclude_none=True)


def _line(item: LocatedValue) -> Line:
    line = _checked(MessageLine, "messages", item, "line").line
    if isinstance(line, UserLine):
        return Message("user", tuple(line.content), line.instruction)
    if isinstance(line, AdaptedLine):
        return Message("assistant", tuple(line.content))
    if isinstance(line, NoReplyLine):
        return UnansweredRequest(
            line.choice, line.how, None if line.next is None else NextModel(**line.next.model_dump())
        )
    usage = Usage(*line.usage)
    reply = Reply(Stop(line.stop), tuple(line.content), usage, line.reason, more_room_helps=line.more_room_helps)
    body = None if line.body is None else Body(line.body.sha256, line.body.parameters)
    return AnsweredRequest(line.choice, line.instruction, reply, line.cost_usd, line.entered, body)


def _call(item: LocatedValue, results: Mapping[str, Sequence[str]]) -> RecordedCall:
    line = _checked(CallLine, "calls", item)
    output = line.output
    if output is None:
        shown = results.get(line.id, ())
        if len(shown) != 1 or line.characters is None or line.characters > len(shown[0]):
            raise _Malformed(item.line, f"calls: the result of {line.id} is not in the messages")
        output = shown[0][: line.characters]
    return RecordedCall(line.id, line.name, line.arguments, output, line.is_error, line.note, line.repeated)


def _children(items: Sequence[LocatedValue]) -> Sequence[Child]:
    found: list[Child] = []
    for item in items:
        try:
            found.append(child(item.value))
        except (TypeError, KeyError, AttributeError, ValueError):
            raise _Malformed(item.line, "children: no record of a child run") from None
    return found
