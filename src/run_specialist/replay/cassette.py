"""A recorded run, made from the store.

`Cassette` is made from the store, and is also the one model of a cassette file.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from run_specialist.budget import Kind, Phase, Rung
from run_specialist.errors import ProviderErrorKind, UsageError
from run_specialist.providers.base import Choice
from run_specialist.providers.local_servers import prefix_of
from run_specialist.record.messages import Message, Reply, sendable
from run_specialist.record.outcome import Child, Status
from run_specialist.safety.redact import credentials, redactor
from run_specialist.specialist.fields import Specialist
from run_specialist.store.stored import StoredMessage, StoredRun

FORMAT: Literal[1] = 1
"""Version of the format of a cassette file; files of other versions are refused."""
LARGEST = 64 * 2**20
"""Maximum size of a file [bytes]."""
ROOT, HOME = "$ROOT", "$HOME"
"""Placeholders for the folder of the file tools and for the user's home folder."""
_SAVE = "restore the file, or save it again with `specialists replay RUN --save FILE`"
_NOT_KEPT = ("name", "description", "prompt", "path", "mcp_servers")
"""Settings that are stored elsewhere in the cassette, or are irrelevant for a replay."""
_REQUIRED: Mapping[str, Mapping[str, type]] = {
    "text": {"text": str},
    "tool_use": {"id": str, "name": str, "input": object},
    "tool_result": {"tool_use_id": str, "content": str},
    "chat_part": {"chat": dict},
    "chat_fields": {"chat": dict},
}
"""Fields by type of a block that every reader of messages needs; all other blocks are sent back unchanged."""


@dataclass(frozen=True, slots=True)
class NextModel:
    """The model with which a run continued when the previous one could not answer."""

    model: str
    reason: str
    """The failure of the previous model, in one line."""
    kind: ProviderErrorKind
    """The kind of that failure."""
    rungs: Sequence[Rung] = ()
    """The rungs of the landing after the change, in the order in which they were tried."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request, which sends all messages and replies above it, back to the last change of the model."""

    choice: Choice
    how: Literal["answered", "refused", "failed", "changed"]
    """Whether it was answered, the endpoint refused its choice, it ended the run, or the run changed its model."""
    landing_instruction: str | None = None
    """The instruction at the end of its last message; None if there was none."""
    reply: Reply | None = None
    """Its reply if it was answered."""
    cost_usd: float | None = None
    is_entered: bool = False
    """Whether the reply is part of the messages of the next request."""
    next: NextModel | None = None
    """The next model if the run changed its model. The messages that follow start again, adapted for it."""


# Only messages that were adapted for another model can have the role `assistant`.
Line = Message | RecordedRequest


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An executed tool call with its result."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    output: str
    """The complete output, before it was cut."""
    is_error: bool = False
    note: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """The initial state of the run."""

    specialist: str
    digest: str
    """SHA-256 of the specialist's file; empty if it is unknown."""
    model: str
    question: str
    settings: Mapping[str, Any]
    """All settings of the run."""
    overridden: Sequence[str]
    """The keys of the settings that come from the call, not from the file."""
    system: str
    tools: Sequence[Mapping[str, Any]]
    """Definitions of the tools."""
    given_tools: Sequence[str] = ()
    """Names of the tools that the program provided."""
    parents: Sequence[str] = ()
    """The specialists above it, outermost first."""
    rungs: Sequence[Rung] = ()
    """The rungs of the landing, in the order in which they were tried."""


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """The fields of an outcome that a replay compares, and its failure."""

    status: Status
    answer: str
    output: Any
    evidence: Sequence[Mapping[str, Any]]
    gaps: Sequence[str]
    tool_calls: Mapping[str, Any]
    landing: Mapping[str, Any] | None
    """Only the reason and the rung."""
    error: str | None = None
    error_kind: ProviderErrorKind | None = None

    @classmethod
    def of(cls, outcome: Mapping[str, Any], error: str | None = None) -> "RecordedOutcome":
        """Return these fields of an outcome, given as `--json` prints it."""
        names = ("status", "answer", "output", "evidence", "gaps", "tool_calls", "landing")
        fields = {name: outcome[name] for name in names}
        if landing := outcome["landing"]:
            fields["landing"] = {"reason": landing["reason"], "how": landing["how"]}
        return cls(**fields, error=error, error_kind=outcome.get("error_kind"))


_AnyLine = Annotated[
    Annotated[Message, Tag("message")] | Annotated[RecordedRequest, Tag("request")],
    Discriminator(
        lambda line: (
            "request"
            if isinstance(line, RecordedRequest) or (isinstance(line, Mapping) and "role" not in line)
            else "message"
        )
    ),
]


class Cassette(BaseModel):
    """A recorded run, as a value and as the content of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_specialist_cassette: Literal[1]
    """Version of the format."""
    setup: Setup
    lines: tuple[_AnyLine, ...]
    calls: tuple[RecordedCall, ...]
    """Tool calls in call order."""
    outcome: RecordedOutcome
    children: tuple[Child, ...] = ()
    source: str = Field(default="", exclude=True)
    """Run id, or file name."""
    is_file: bool = Field(default=False, exclude=True)
    """Whether it is the content of a file, which has no credentials, no local paths and no run ids."""

    @property
    def requests(self) -> Sequence[RecordedRequest]:
        """The requests in order."""
        return [line for line in self.lines if not isinstance(line, Message)]

    @property
    def later_models(self) -> Sequence[NextModel]:
        """The models with which the run continued, in order; empty if it used only one."""
        return [line.next for line in self.requests if line.next]

    def requests_of(self, place: int) -> Sequence[RecordedRequest]:
        """Return the requests to one of the models.

        place: index of the model, from 0.
        """
        changes, found = 0, []
        for line in self.requests:
            if changes == place:
                found.append(line)
            changes += line.next is not None
        return found

    def messages_before(self, number: int) -> list[Message]:
        """Return the messages that a request sent.

        number: number of the request, from 1; one more than the last for all messages.
        """
        found: list[Message] = []
        for line in self.lines:
            if isinstance(line, Message):
                found.append(line)
                continue
            number -= 1
            if not number:
                break
            if line.next is not None:
                found.clear()
            elif line.is_entered and line.reply and (blocks := sendable(line.reply.content)):
                found.append(Message("assistant", tuple(blocks)))
        return found


def read_cassette(path: Path) -> Cassette:
    """Read a cassette file; raises UsageError with the place and the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise UsageError(f"{path}: larger than {LARGEST // 2**20} MB, too large for a cassette")
    return _parsed(str(path), content)


def fit_for_file(cassette: Cassette, root: Path) -> Cassette:
    """Return a cassette without credentials, local paths and run ids.

    root: the folder of the file tools of the run.
    """
    values = cassette.model_dump(mode="json", exclude_defaults=True)
    settings = cassette.setup.settings
    values["setup"]["settings"] = {key: value for key, value in settings.items() if key not in _NOT_KEPT}
    values["setup"]["overridden"] = [key for key in cassette.setup.overridden if key not in _NOT_KEPT]
    ids, waiting = {cassette.source: "RUN"}, [*cassette.children]
    while waiting:
        child = waiting.pop(0)
        ids[child.run_id] = f"CHILD-{len(ids)}"
        waiting += child.children
    return _parsed(cassette.source, json.dumps(normalizer(root, ids)(values)).encode())


def cassette_text(cassette: Cassette) -> str:
    """Return the text of a cassette, as `fit_for_file` returns it; the same run always gives the same bytes."""
    default = Specialist(name="", description="", prompt="").model_dump(mode="json", by_alias=True)
    settings = {key: value for key, value in cassette.setup.settings.items() if value != default.get(key)}
    setup = replace(cassette.setup, settings=settings)
    saved = cassette.model_copy(update={"setup": setup})
    text = json.dumps(saved.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, indent=1) + "\n"
    # An editor or a terminal may not show the other characters.
    return re.sub(r"[^\n]", lambda it: it[0] if it[0].isprintable() else json.dumps(it[0])[1:-1], text)


def normalizer(root: Path, ids: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """Return a function that replaces credentials, paths and ids in all texts of JSON values.

    root: the folder of the file tools.
    ids: the placeholder for each run id.
    """
    hide = redactor(credentials(os.environ))
    places = {str(root): ROOT, os.path.realpath(root): ROOT, str(Path.home()): HOME, **(ids or {})}
    # The longest first: the folder is usually below the home.
    replaced = sorted(((text, other) for text, other in places.items() if len(text) > 1), key=lambda one: -len(one[0]))

    def clean(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            for one, other in replaced:
                value = value.replace(one, other)
            return hide(value)
        if isinstance(value, Mapping):
            return {key: clean(one) for key, one in value.items()}
        return [clean(one) for one in value] if isinstance(value, Sequence) else value

    return clean


def _parsed(source: str, content: bytes) -> Cassette:
    try:
        found = Cassette.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise UsageError(f"{source}{_problem(error)}; {_SAVE}") from None
    setup = found.setup
    for number, line in enumerate(found.lines):
        blocks = line.blocks if isinstance(line, Message) else line.reply.content if line.reply else ()
        if not all(_has({"type": str, **_REQUIRED.get(str(block.get("type")), {})}, block) for block in blocks):
            raise UsageError(f"{source}: lines.{number}: is not a block of a message; {_SAVE}")
    for number, tool in enumerate(setup.tools):
        kinds = {"type": str} if "type" in tool else {"description": str, "input_schema": dict}
        if not _has({"name": str, **kinds}, tool):
            raise UsageError(f"{source}: setup.tools.{number}: is not the definition of a tool; {_SAVE}")
    try:
        settings = Specialist.model_validate({"name": "", "description": "", "prompt": "", **setup.settings})
    except ValidationError as error:
        raise UsageError(f"{source}{_problem(error, 'setup', 'settings')}; {_SAVE}") from None
    setup = replace(setup, settings=settings.model_dump(mode="json", by_alias=True))
    return found.model_copy(update={"setup": setup, "source": source, "is_file": True})


def _has(kinds: Mapping[str, type], values: Mapping[str, Any]) -> bool:
    return all(name in values and isinstance(values[name], kind) for name, kind in kinds.items())


def _problem(error: ValidationError, *place: str) -> str:
    """Return the place and the reason of the first problem."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f": not valid JSON: {first['ctx']['error']}"
    inner = [str(part) for part in (*place, *first["loc"]) if part not in {"message", "request"}]
    if inner == ["run_specialist_cassette"]:
        if first["type"] == "missing":
            return ": not a cassette: the key run_specialist_cassette is missing"
        return f": format {first['input']!r} is not supported, only {FORMAT}"
    text = first["msg"].removeprefix("Value error, ")
    return f": {'.'.join(inner) or 'not a cassette'}: {text[:1].lower()}{text[1:]}"


_OTHER_FAILURES = ("store_lost", "internal", "context_exceeded")
"""Kinds of failure that no stored reply can reproduce."""


class NotReplayable(UsageError):
    """The run cannot be replayed; the message gives the reason."""


def cassette_of(run: StoredRun) -> Cassette:
    """Return a stored run as a cassette; raises NotReplayable."""
    if reason := _obstacle(run):
        raise NotReplayable(f"{run.run_id} cannot be replayed: {reason}")
    outcome = run.outcome or {}
    # The last warning of an outcome repeats its error.
    error = outcome["warnings"][-1] if outcome.get("error_kind") and outcome["warnings"] else None
    frozen, changes = run.frozen, [*_events(run, "model_changed")]
    rungs = _rungs(run)
    return Cassette(
        run_specialist_cassette=FORMAT,
        setup=Setup(
            specialist=run.specialist,
            digest=frozen.get("digest", ""),
            model=changes[0]["before"] if changes else run.model,
            question=run.question,
            settings=frozen["settings"],
            overridden=tuple(frozen["overridden"]),
            system=frozen["system"],
            tools=tuple(frozen["tools"]),
            given_tools=tuple(frozen.get("given_tools", ())),
            parents=tuple(frozen.get("parents", ())),
            rungs=rungs[0],
        ),
        lines=tuple(_lines(run, rungs[1:])),
        calls=tuple(
            RecordedCall(
                one.call.id, one.call.name, one.call.arguments, one.whole, one.is_error, one.note, one.repeated
            )
            for one in run.calls
        ),
        outcome=RecordedOutcome.of(outcome, error),
        children=run.children,
        source=run.run_id,
    )


def _obstacle(run: StoredRun) -> str:
    """Return why a run cannot be replayed; empty if it can."""
    outcome = run.outcome
    if outcome is None:
        return f"it has not ended ({run.status}); resume it with `specialists resume {run.run_id}`"
    landing, kind, fork = outcome["landing"], outcome.get("error_kind"), run.frozen.get("fork")
    # How often the transcript was adapted for another model; nothing is adapted before the first reply.
    adapted = sum(event["turn"] > 1 for event in _events(run, "model_changed"))
    is_summarized = any(_events(run, "summarized")) or max((one.part for one in run.messages), default=0) != adapted
    counts_time = (landing is not None and landing["reason"] == Kind.TIME) or any(
        event["kind"] == Kind.TIME and event["phase"] != Phase.SILENT for event in _events(run, "budget")
    )
    obstacles = {
        "it was aborted, and the moment of the abort between two replies is not stored": run.status == "aborted",
        f"it is a fork of {(fork or {}).get('run_id')}, which sent its first requests; replay an original run": (
            fork is not None
        ),
        "it was resumed, but a replay has one question and one set of limits; replay a run that was not resumed": any(
            _events(run, "resumed")
        ),
        "its transcript was summarized, and the replies to the requests for summaries are not stored": is_summarized,
        f"it ended by a failure that no stored reply can reproduce ({kind})": kind in _OTHER_FAILURES,
        "its messages depend on its time limit, and a replay takes no time; replay a run with more time": counts_time,
        "its results were cut for the context of a local model, whose length is not stored": (
            prefix_of(run.model) is not None and any(call.truncated for call in run.calls)
        ),
        "it sent no request": not any(_events(run, "request")),
    }
    return next((why for why, applies in obstacles.items() if applies), "")


def _events(run: StoredRun, name: str) -> Iterator[dict[str, Any]]:
    return (dict(event.body) for event in run.events if event.body["event"] == name)


def _rungs(run: StoredRun) -> list[tuple[Rung, ...]]:
    """Return the landing rungs that the run tried with each of its models."""
    found: list[tuple[Rung, ...]] = [()]
    for event in run.events:
        if event.body["event"] == "model_changed":
            found.append(())
        elif event.body["event"] == "landing":
            found[-1] += (Rung(event.body["how"]),)
    return found


def _lines(run: StoredRun, rungs: Sequence[Sequence[Rung]]) -> Iterator[Line]:
    """Yield the lines of a run.

    rungs: the landing rungs of each later model.
    """
    turns, following = {turn.number: turn for turn in run.turns}, iter(rungs)
    # The requests by part of the transcript; each part but the last ends with a change of the model.
    parts: list[list[RecordedRequest]] = [[]]
    for body in (event.body for event in run.events):
        match body["event"]:
            case "request":
                parts[-1].append(RecordedRequest(Choice(body["choice"]), "refused"))
            case "reply":
                turn, choice = turns[body["turn"]], parts[-1][-1].choice
                parts[-1][-1] = RecordedRequest(choice, "answered", turn.landing_instruction, turn.reply, turn.cost_usd)
            case "model_changed":
                later = NextModel(body["model"], body["reason"], body["kind"], next(following))
                parts[-1][-1] = RecordedRequest(parts[-1][-1].choice, "changed", next=later)
                # Nothing is adapted for another model before the first reply.
                parts += [[]] if body["turn"] > 1 else []
            case _:
                pass
    if parts[-1] and parts[-1][-1].how == "refused":
        parts[-1][-1] = replace(parts[-1][-1], how="failed")
    for part, requests in enumerate(parts):
        stored = [one for one in run.messages if one.part == part]
        # A run may end between a change of the model and the next request.
        yield from _lines_of_part(stored, requests, is_last=part == len(parts) - 1) if requests else ()


def _lines_of_part(
    stored: Sequence[StoredMessage], requests: Sequence[RecordedRequest], *, is_last: bool
) -> Iterator[Line]:
    """Yield the lines of one part of the transcript, including the requests that sent it."""
    sent = [one.message for one in stored if one.copied]
    yield from sent
    messages = [one.message for one in stored if not one.copied]
    # Find the replies that are part of the transcript from the end: a reply that was requested again has at most the
    # content of the next one.
    replies, entered = [one.blocks for one in messages if one.role == "assistant"], set[int]()
    for number, request in reversed([*enumerate(requests, 1)]):
        if request.reply and replies and replies[-1] == sendable(request.reply.content):
            replies.pop()
            entered.add(number)
    for number, request in enumerate(requests, 1):
        while messages and messages[0].role == "user":
            sent.append(messages.pop(0))
            yield sent[-1]
        yield replace(request, is_entered=number in entered)
        if number in entered:
            messages.pop(0)
        # A model that is changed at the end of another part gets an adapted transcript, otherwise the same messages.
        if request.next is not None and (is_last or number < len(requests)):
            yield from sent
    yield from messages
