"""A recorded run, made from the store, and the one model of a cassette file."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from run_specialist.budget import Kind, Phase, Rung
from run_specialist.errors import ProviderErrorKind, UsageError, errors_as
from run_specialist.providers.base import Choice
from run_specialist.providers.local_servers import prefix_of
from run_specialist.record.messages import Message, Reply, sendable
from run_specialist.record.outcome import Child, Status
from run_specialist.safety.redact import credentials, redactor
from run_specialist.specialist.fields import Specialist
from run_specialist.store.stored import StoredMessage, StoredRun

FORMAT: Literal[1] = 1
"""Version of the format of a cassette file; files of other versions are refused."""
ROOT, HOME = "$ROOT", "$HOME"
"""Placeholders for the folder of the file tools and for the user's home folder."""
NOT_KEPT = frozenset({"name", "description", "prompt", "path", "mcp_servers"})
"""Settings that are stored elsewhere in the cassette, or are irrelevant for a replay."""

# Fields by type of a block that every reader of messages needs; all other blocks are sent back unchanged.
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "text": {"text": str},
    "tool_use": {"id": str, "name": str, "input": object},
    "tool_result": {"tool_use_id": str, "content": str},
    "chat_part": {"chat": dict},
    "chat_fields": {"chat": dict},
}


_Checked = TypeVar("_Checked")


def _with_blocks(value: _Checked) -> _Checked:
    """Return a message or reply; raises ValueError for a block without the fields of its type."""
    blocks = value.blocks if isinstance(value, Message) else value.content if isinstance(value, Reply) else ()
    if not all(_has({"type": str, **_FIELDS.get(str(one.get("type")), {})}, one) for one in blocks):
        raise ValueError("is not a block of a message")
    return value


def _tool(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = {"type": str} if "type" in definition else {"description": str, "input_schema": dict}
    if not _has({"name": str, **kinds}, definition):
        raise ValueError("is not the definition of a tool")
    return definition


def _has(kinds: Mapping[str, type], values: Mapping[str, Any]) -> bool:
    return all(name in values and isinstance(values[name], kind) for name, kind in kinds.items())


def _settings(given: object) -> object:
    return {"name": "", "description": "", "prompt": "", **given} if isinstance(given, Mapping) else given


_Messages = list[Annotated[Message, AfterValidator(_with_blocks)]]


@dataclass(slots=True)
class RecordedRequest:
    """A request, with its reply if it was answered."""

    choice: Choice
    messages: _Messages = field(default_factory=list)
    """The messages that it was the first to send; at the first request to a model, all that it sent."""
    landing_instruction: str | None = None
    """The instruction at the end of its last message; None if there was none."""
    reply: Annotated[Reply | None, AfterValidator(_with_blocks)] = None
    cost_usd: float | None = None
    is_entered: bool = False
    """Whether the reply is part of the messages of the next request."""
    is_apart: bool = False
    """Whether the conversation begins again after it."""


@dataclass(slots=True)
class RecordedModel:
    """A model of the run, with the requests to it."""

    model: str
    requests: list[RecordedRequest] = field(default_factory=list)
    """In order; those without a reply were refused, or failed if they are the last one."""
    rungs: list[Rung] = field(default_factory=list)
    """The rungs of the landing, in the order in which they were tried."""
    failure: str = ""
    """Why the run continued with the next model, in one line; empty for the last model."""
    failure_kind: ProviderErrorKind | None = None


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
        values: dict[str, Any] = {one.name: outcome.get(one.name) for one in fields(cls)} | {"error": error}
        if landing := outcome["landing"]:
            values["landing"] = {"reason": landing["reason"], "how": landing["how"]}
        return cls(**values)


class Cassette(BaseModel):
    """A recorded run, as a value and as the content of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_specialist_cassette: Literal[1]
    """Version of the format."""
    specialist: str
    digest: str
    """SHA-256 of the specialist's file; empty if it is unknown."""
    question: str
    settings: Annotated[Specialist, BeforeValidator(_settings)]
    """All settings of the run; a file leaves out `NOT_KEPT` and those with their default."""
    overridden: tuple[str, ...]
    """The keys of the settings that come from the call, not from the file."""
    system: str
    tools: tuple[Annotated[Mapping[str, Any], AfterValidator(_tool)], ...]
    """Definitions of the tools."""
    given_tools: tuple[str, ...] = ()
    """Names of the tools that the program provided."""
    parents: tuple[str, ...] = ()
    """The specialists above it, outermost first."""
    models: tuple[RecordedModel, ...] = Field(min_length=1)
    """The models of the run, in order."""
    rest: _Messages = []
    """The messages after the last request."""
    calls: tuple[RecordedCall, ...]
    """Tool calls in call order."""
    steered: tuple[tuple[int, str], ...] = ()
    """Texts that the user has added, each with the number of the turn that was requested with it."""
    outcome: RecordedOutcome
    children: tuple[Child, ...] = ()
    source: str = Field(default="", exclude=True)
    """Run id, or file name."""
    is_file: bool = Field(default=False, exclude=True)
    """Whether it is the content of a file, which has no credentials, no local paths and no run ids."""

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests to all models, in order."""
        return [request for model in self.models for request in model.requests]

    def messages_before(self, number: int) -> list[Message]:
        """Return the messages that a request sent; number: from 1, one more than the last for all messages."""
        found: list[Message] = []
        for model in self.models:
            found = []
            for request in model.requests:
                found += request.messages
                number -= 1
                if not number:
                    return found
                if request.is_apart:
                    found = []
                elif request.is_entered and request.reply and (blocks := sendable(request.reply.content)):
                    found.append(Message("assistant", blocks))
        return [*found, *self.rest]

    def text(self, root: Path) -> str:
        """Return the content of its file, without credentials, local paths and run ids; always the same bytes.

        root: the folder of the file tools of the run.
        """
        values = self.model_dump(mode="json", exclude_defaults=True, by_alias=True, exclude={"settings": {*NOT_KEPT}})
        values["overridden"] = [key for key in self.overridden if key not in NOT_KEPT]
        ids, waiting = ({}, []) if self.is_file else ({self.source: "RUN"}, [*self.children])
        while waiting:
            child = waiting.pop(0)
            ids[child.run_id] = f"CHILD-{len(ids)}"
            waiting += child.children
        text = json.dumps(cleaner(root, ids)(values), ensure_ascii=False, indent=1) + "\n"
        # An editor or a terminal may not show the other characters.
        return re.sub(r"[^\n]", lambda it: it[0] if it[0].isprintable() else json.dumps(it[0])[1:-1], text)


def read_cassette(path: Path) -> Cassette:
    """Read a cassette file; raises UsageError with the place and the reason."""
    with errors_as(UsageError, str(path), OSError):
        return parsed(path.read_bytes(), str(path))


def parsed(content: bytes | str, source: str) -> Cassette:
    """Return the cassette in the content of a file; raises UsageError with the place and the reason."""
    try:
        found = Cassette.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place, text = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        if first["type"] == "json_invalid":
            reason = f"not valid JSON: {first['ctx']['error']}"
        elif place in {"", "run_specialist_cassette"}:
            reason = f"not a cassette of format {FORMAT}"
        else:
            reason = f"{place}: {text[:1].lower()}{text[1:]}"
        advice = "restore the file, or save it again with `specialists replay RUN --save FILE`"
        raise UsageError(f"{source}: {reason}; {advice}") from None
    return found.model_copy(update={"source": source, "is_file": True})


def cleaner(root: Path, ids: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
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


def cassette_of(run: StoredRun) -> Cassette:
    """Return a stored run as a cassette; raises UsageError if it cannot be replayed."""
    if reason := _obstacle(run):
        raise UsageError(f"{run.run_id} cannot be replayed: {reason}")
    outcome = run.outcome or {}
    # The last warning of an outcome repeats its error.
    error = outcome["warnings"][-1] if outcome.get("error_kind") and outcome["warnings"] else None
    frozen = run.frozen
    models, rest = _models(run)
    calls = [
        RecordedCall(one.call.id, one.call.name, one.call.arguments, one.whole, one.is_error, one.note, one.repeated)
        for one in run.calls
    ]
    return Cassette(
        run_specialist_cassette=FORMAT,
        specialist=run.specialist,
        digest=frozen.get("digest", ""),
        question=run.question,
        settings=Specialist.model_validate(frozen["settings"], extra="ignore"),
        overridden=frozen["overridden"],
        system=frozen["system"],
        tools=frozen["tools"],
        given_tools=frozen.get("given_tools", ()),
        parents=frozen.get("parents", ()),
        models=tuple(models),
        rest=rest,
        calls=tuple(calls),
        steered=tuple((one["turn"], one["text"]) for one in _events(run, "steered")),
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
    timed = any(event["kind"] == Kind.TIME and event["phase"] != Phase.SILENT for event in _events(run, "budget"))
    timed = timed or bool(landing and landing["reason"] == Kind.TIME)
    is_foreign = kind in {"store_lost", "internal", "context_exceeded"}
    # How often the transcript was adapted for another model; nothing is adapted before the first reply.
    adapted = sum(event["turn"] > 1 for event in _events(run, "model_changed")) + _left_short(run)
    is_summarized = any(_events(run, "summarized")) or max((one.part for one in run.messages), default=0) != adapted
    was_cut = prefix_of(run.model) is not None and any(call.truncated for call in run.calls)
    obstacles = [
        (run.status == "aborted", "it was aborted, and the moment of the abort between two replies is not stored"),
        (fork, f"it is a fork of {(fork or {}).get('run_id')}, which sent its first requests; replay an original run"),
        (
            any(_events(run, "resumed")),
            "it was resumed, but a replay has one question and one set of limits; replay a run that was not resumed",
        ),
        (is_summarized, "its transcript was summarized, and the replies to the requests for summaries are not stored"),
        (is_foreign, f"it ended by a failure that no stored reply can reproduce ({kind})"),
        (timed, "its messages depend on its time limit, and a replay takes no time; replay a run with more time"),
        (was_cut, "its results were cut for the context of a local model, whose length is not stored"),
        (not any(_events(run, "request")), "it sent no request"),
    ]
    return next((why for applies, why in obstacles if applies), "")


def _events(run: StoredRun, name: str) -> Iterator[dict[str, Any]]:
    return (dict(event.body) for event in run.events if event.body["event"] == name)


def _left_short(run: StoredRun) -> bool:
    """Return whether the conversation began again after the short request of a local model."""
    first = next(_events(run, "request"), None)
    return first is not None and first["choice"] == Choice.SCHEMA and any(one.part for one in run.messages)


def _models(run: StoredRun) -> tuple[list[RecordedModel], list[Message]]:
    """Return the models of a run with their requests, and the messages after the last request."""
    turns = {turn.number: turn for turn in run.turns}
    changes = [*_events(run, "model_changed")]
    models = [RecordedModel(changes[0]["before"] if changes else run.model)]
    # The part of the transcript that each model got; nothing is adapted for another model before the first reply.
    parts = [0]
    for body in (event.body for event in run.events):
        requests = models[-1].requests
        match body["event"]:
            case "request":
                requests.append(RecordedRequest(Choice(body["choice"])))
            case "reply":
                turn = turns[body["turn"]]
                requests[-1].reply, requests[-1].cost_usd = turn.reply, turn.cost_usd
                requests[-1].landing_instruction = turn.landing_instruction
            case "landing":
                models[-1].rungs.append(Rung(body["how"]))
            case "model_changed":
                models[-1].failure, models[-1].failure_kind = body["reason"], body["kind"]
                models.append(RecordedModel(body["model"]))
                parts.append(parts[-1] + (body["turn"] > 1))
    rest: list[Message] = []
    left = _left_short(run)
    if left:
        models[0].requests[0].is_apart = True
        _add_messages([one for one in run.messages if one.part == 0], models[0].requests[:1])
    for model, part in zip(models, parts, strict=True):
        own = model.requests[1:] if left and model is models[0] else model.requests
        rest = _add_messages([one for one in run.messages if one.part == part + left], own)
    return models, rest


def _add_messages(stored: Sequence[StoredMessage], requests: Sequence[RecordedRequest]) -> list[Message]:
    """Add the messages of a part of the transcript to the requests that sent them; return those after the last one."""
    messages = [one.message for one in stored if not one.copied]
    target = rest = list[Message]()
    # From the end, because a reply that was requested again has at most the content of the next one.
    for request in reversed(requests):
        last = max((at for at, one in enumerate(messages) if one.role == "assistant"), default=None)
        if last is not None and request.reply and messages[last].blocks == sendable(request.reply.content):
            request.is_entered = True
            target += messages[last + 1 :]
            del messages[last:]
        target = request.messages
    target += [one.message for one in stored if one.copied]
    # A model that never replied only got the first messages of a part that another one continued.
    target += takewhile(lambda one: one.role == "user", messages)
    return rest
