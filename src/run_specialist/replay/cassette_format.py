"""The format of a cassette file: one pydantic model for its head and one for each kind of line."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

FORMAT = 1
"""Version of the format; files of newer versions are refused."""
VERSION_KEY = "run_specialist_cassette"
LISTS = ("tools", "messages", "calls", "children")
"""The keys of the lists, each of which has a line for each item."""

Blocks = tuple[dict[str, Any], ...]
Count = NonNegativeInt


class _Strict(BaseModel):
    """Refuses unknown keys and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Head(_Strict):
    """Everything but the lists."""

    run_specialist_cassette: int
    specialist: str
    file_sha256: str
    model: str
    question: str
    settings: dict[str, Any]
    overridden: list[str]
    given_tools: list[str]
    parents: list[str]
    rungs: list[str]
    outcome: dict[str, Any]
    lines: dict[str, Count]
    """Number of items of each list, so that a deleted line is noticed."""
    system: list[str]
    """The lines of the system prompt."""


class ToolLine(_Strict):
    """The definition of a tool."""

    name: str
    description: str
    input_schema: dict[str, Any]


class UserLine(_Strict):
    """A user message: the question, results, or another text of the loop."""

    role: Literal["user"]
    content: list[dict[str, Any]]
    instruction: str | None = None


class BodyPart(_Strict):
    """The body of a request, as its provider built it."""

    parameters: dict[str, Any]
    sha256: str


class ReplyLine(_Strict):
    """A request and its reply."""

    role: Literal["assistant"]
    choice: str
    content: list[dict[str, Any]]
    stop: Literal["answered", "wants_tools", "paused", "truncated", "refused"]
    reason: str
    usage: Annotated[list[Count], Field(min_length=4, max_length=4)]
    """Input, read from the cache, written to the cache, output [tokens]."""
    cost_usd: float | None
    instruction: str | None = None
    entered: bool = True
    more_room_helps: bool = True
    body: BodyPart | None = None


class NoReplyLine(_Strict):
    """A request without a reply."""

    role: Literal["none"]
    choice: str
    how: Literal["refused", "failed"]


class MessageLine(_Strict):
    """A line of the messages, of any role."""

    line: Annotated[UserLine | ReplyLine | NoReplyLine, Field(discriminator="role")]


class CallLine(_Strict):
    """An executed tool call; its output is given, or is the beginning of its only result."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    output: str | None = None
    characters: Count | None = None
    is_error: bool = False
    note: str = ""
    repeated: bool = False
