"""The format of a cassette file: one pydantic model for its head and one for each kind of line."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt

from run_specialist.budget.ladder import Rung
from run_specialist.errors import ProviderErrorKind
from run_specialist.providers.base import Choice
from run_specialist.record.outcome import Status

FORMAT = 2
"""Version of the format; files of newer versions are refused."""
ONE_MODEL = 1
"""Format version of cassettes with one model, which earlier versions of this program can read."""
VERSION_KEY = "run_specialist_cassette"
LISTS = ("tools", "messages", "calls", "children")
"""Keys whose values are lists, with one line per item."""


_KNOWN = {"text", "tool_use", "tool_result", "chat_part", "chat_fields"}
"""Block types with required fields; all other blocks are sent back unchanged."""


def _one_of(names: Iterable[str]) -> AfterValidator:
    known = [*names]

    def check(value: str) -> str:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}, got {value[:40]!r}")
        return value

    return AfterValidator(check)


def _complete(block: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError for a block without the fields that every reader of messages needs."""
    match block:
        case {"type": "text", "text": str()}:
            pass
        case {"type": "tool_use", "id": str(), "name": str(), "input": _}:
            pass
        case {"type": "tool_result", "tool_use_id": str(), "content": str()}:
            pass
        case {"type": "chat_part" | "chat_fields", "chat": dict()}:
            pass
        case {"type": str(kind)} if kind not in _KNOWN:
            pass
        case _:
            raise ValueError("is not a block of a message")
    return block


Blocks = list[Annotated[dict[str, Any], AfterValidator(_complete)]]
Count = NonNegativeInt
ChoiceName = Annotated[str, _one_of(Choice)]
RungName = Annotated[str, _one_of(Rung)]


class _Strict(BaseModel):
    """Refuses unknown keys and values of other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OutcomePart(_Strict):
    """The compared fields of the outcome."""

    status: Annotated[str, _one_of(get_args(Status))]
    answer: str
    output: Any
    evidence: list[dict[str, Any]]
    gaps: list[str]
    tool_calls: dict[str, Any]
    landing: dict[str, Any] | None
    error_kind: str | None
    error: str | None


class Head(_Strict):
    """Everything except the lists."""

    run_specialist_cassette: int
    specialist: str
    file_sha256: str
    model: str
    question: str
    settings: dict[str, Any]
    overridden: list[str]
    given_tools: list[str]
    parents: list[str]
    rungs: list[RungName]
    outcome: OutcomePart
    lines: dict[str, Count]
    """Number of items in each list, so that a deleted line is noticed."""
    system: list[str]
    """The lines of the system prompt."""


class ToolLine(_Strict):
    """The definition of a tool."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ServerToolLine(_Strict):
    """The definition of a tool that the API runs itself; its keys in the order in which they are sent."""

    type: str
    name: str
    max_uses: Count
    max_content_tokens: Count | None = None
    allowed_domains: list[str] | None = None


class UserLine(_Strict):
    """A user message: the question, results, or another text that the loop adds."""

    role: Literal["user"]
    content: Blocks
    instruction: str | None = None


class BodyPart(_Strict):
    """The body of a request, as its provider built it."""

    parameters: dict[str, Any]
    sha256: str


class ReplyLine(_Strict):
    """A request and its reply."""

    role: Literal["assistant"]
    choice: ChoiceName
    content: Blocks
    stop: Literal["answered", "wants_tools", "paused", "truncated", "refused"]
    reason: str
    usage: Annotated[list[Count], Field(min_length=4, max_length=5)]
    """Input, read from the cache, written to the cache, output [tokens]."""
    cost_usd: float | None
    instruction: str | None = None
    entered: bool = True
    more_room_helps: bool = True
    body: BodyPart | None = None


class NextPart(_Strict):
    """The model with which the run continued."""

    model: str
    reason: str
    kind: Annotated[str, _one_of(get_args(ProviderErrorKind))]
    rungs: list[RungName]


class NoReplyLine(_Strict):
    """A request without a reply."""

    role: Literal["none"]
    choice: ChoiceName
    how: Literal["refused", "failed", "changed"]
    next: NextPart | None = None


class AdaptedLine(_Strict):
    """An earlier reply, adapted for another model."""

    role: Literal["adapted"]
    content: Blocks


class MessageLine(_Strict):
    """A message of any role."""

    line: Annotated[UserLine | ReplyLine | NoReplyLine | AdaptedLine, Field(discriminator="role")]


class CallLine(_Strict):
    """An executed tool call; its output is stated here, or is the beginning of its only result."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    output: str | None = None
    characters: Count | None = None
    is_error: bool = False
    note: str = ""
    repeated: bool = False
