"""Replay a recorded run: the current file goes through the loop with the recorded replies, up to a difference."""

import difflib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.api.config_files import read_config
from run_specialist.api.runner import Runner
from run_specialist.budget import Rung
from run_specialist.errors import ChoiceRefused, ContextExceeded, ForcingRefused, ProviderError, SchemaRefused
from run_specialist.loop.job import Job
from run_specialist.loop.landing import CHOICES
from run_specialist.loop.run import Run
from run_specialist.providers.base import Choice, Conversation, Opening, Provider, Request, Watch
from run_specialist.providers.choose import ModelChain, described
from run_specialist.providers.local_servers import prefix_of
from run_specialist.record.events import Event, Replied
from run_specialist.record.messages import Message, Reply, ToolCall, Usage, encode
from run_specialist.record.outcome import Outcome
from run_specialist.replay.cassette import NOT_KEPT, Cassette, RecordedCall, RecordedOutcome, RecordedRequest, cleaner
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.spawning.prompt_texts import AddedText
from run_specialist.spawning.server_tools import server_tool, server_tools
from run_specialist.spawning.spawner import Parent, RunEnvironment, digest, settings_of, spawn
from run_specialist.spawning.trust import RunContext
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers import servers_of
from run_specialist.specialist.project import is_same, project_root
from run_specialist.specialist.settings import resolve
from run_specialist.specialist.tool_names import BUILT_IN, GET_TOOL_RESPONSE, MEMORY, OFFERED, RESPOND, names_tool
from run_specialist.tools.base import ChildContext, Context, Output, Tool, Toolset
from run_specialist.tools.memory import MAIN

ADVICE = "If the change is intended, ask the question again and replay or save the new run; otherwise undo the change."
# The loop adds this note on a cut result again.
_READ_ON = re.compile(r"\[cut at \d+ of \d+ characters; read on by .*\]")
# With these settings nothing is imported, started or searched.
_NOT_STARTED: dict[str, Any] = {"python_tools": (), "mcp_servers": None, "paths": None}
_REFUSED = {Choice.RESPOND: ForcingRefused, Choice.SCHEMA: SchemaRefused}
_NOT_OVERRIDDEN = NOT_KEPT | {"model", "fallback_models"}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference."""

    request: int | None
    """Number of the request, from 1; None for the end of the run."""
    part: str
    """The differing part, e.g. `system prompt`, `definition of the tool read` or `message 3`."""
    stored: str
    now: str
    hints: tuple[str, ...] = ()
    """The probable causes, one sentence each."""

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON values, with the lines of a unified diff."""
        diff = difflib.unified_diff(self.stored.split("\n"), self.now.split("\n"), "stored", "now", lineterm="")
        return {**asdict(self), "hints": [*self.hints], "diff": [*diff]}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    cassette: Cassette
    outcome: Outcome | None
    """Outcome of the replay; None if it stopped at a difference."""
    requests: int
    """Number of compared requests."""
    difference: Difference | None
    not_compared: Sequence[str]
    """Tools whose definitions were taken from the recorded run."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        found = self.difference and self.difference.as_json()
        return {"run_id": self.cassette.source, "same": not found, "requests": self.requests, "difference": found}


async def replay(
    cassette: Cassette,
    root: Path | None = None,
    *,
    dir: Path | None = None,  # noqa: A002 - as in `Runner`
    file: Path | None = None,
    trust: bool = False,
) -> ReplayResult:
    """Replay a recorded run; nothing is sent or stored.

    root: the folder of the file tools; None for the project root.
    dir: a folder with specialists that is searched first.
    file: the file of the specialist; None to find it by name.
    trust: whether to allow everything that the file declares.
    Raises UsageError if the specialist cannot be found or run.
    """
    normalize = cleaner(root or project_root(Path.cwd())) if cassette.is_file else lambda value: value
    recorded = _RecordedRun(cassette, normalize)
    providers = [_RecordedProvider(recorded, number) for number in range(len(cassette.models))]
    provider = ModelChain(providers[0], providers[1:]) if providers[1:] else providers[0]
    named = None if root is None else root.absolute()  # noqa: ASYNC240 - asks the system for the current folder only
    project = project_root(named or Path.cwd(), named)
    config = read_config(project, meant=is_same(project, named))
    dir = dir or config.get("dir")  # noqa: A001 - as above
    if dir is None and named is not None and not is_same(project, project_root(Path.cwd())):
        # The specialists of a project other than the current one.
        folders = (project / "specialists", project / ".claude" / "agents")
        dir = next((one for one in folders if one.is_dir()), None)  # noqa: A001 - as above
    outcome, difference = None, None
    async with Runner(
        root=root, dir=dir, provider=provider, store="none", trust=trust, defaults=config.defaults
    ) as runner:
        found = runner.registry.find(str(file or cassette.specialist))
        job, settings, not_compared = await _rebuilt(recorded, runner, found, provider)
        if settings["landing"] != cassette.settings.landing:
            for model in providers:
                model.capabilities = replace(model.capabilities, rungs=None)

        def steer(event: Event) -> None:
            """Add the texts that the request after a reply carried."""
            for text in [
                one for turn, one in cassette.steered if isinstance(event, Replied) and turn == event.turn + 1
            ]:
                run.steer(text)

        run = Run(job, steer, clock=lambda: 0.0)
        try:
            outcome = await run.outcome()
            recorded.compare_end(outcome, run.transcript)
        except _Differs as one:
            difference = replace(one.difference, hints=(*_hints(cassette, found, settings), ADVICE))
    return ReplayResult(cassette, outcome, min(recorded.sent, len(cassette.requests)), difference, not_compared)


def _hints(cassette: Cassette, file: SpecialistFile, now: Mapping[str, Any]) -> list[str]:
    """Return the differences between the recorded and the current files and settings."""
    before, path = cassette.settings.model_dump(mode="json", by_alias=True), file.path
    changed = [
        f"{key} {json.dumps(before[key], ensure_ascii=False)} -> {json.dumps(now[key], ensure_ascii=False)}"
        for key in now
        if key not in {*_NOT_OVERRIDDEN, "output_schema"} and key in before and before[key] != now[key]
    ]
    hints = [f"Settings that differ: {', '.join(changed)}."] if changed else []
    if cassette.digest == digest(path):
        hints.append(f"{path.name} is unchanged, so a tool, a config file or this program differs.")
    elif cassette.digest:
        hints.append(f"{path.name} has changed since the run.")
    return hints


def shown_text(value: object) -> str:
    """Return a JSON value as text on several lines, also where a text in it has several."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\\n", "\n")


def opening_parts(system: str, tools: Iterable[Mapping[str, Any]], settings: Opening | Specialist) -> dict[str, Any]:
    """Return the parts that are the same in all requests."""
    definitions = {f"definition of the tool {one['name']}": one for one in sorted(tools, key=lambda one: one["name"])}
    return {"system prompt": system, **definitions, "effort": settings.effort, "tool_calls": settings.tool_calls}


def message_parts(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the parts of messages, each result apart; the last one without its landing instruction."""
    parts: dict[str, Any] = {}
    names = {str(block.get("id")): block.get("name") for one in messages for block in one.blocks}
    for number, message in enumerate(messages, 1):
        for block in message.blocks:
            name = f"message {number}"
            if block["type"] == "tool_result":
                call = str(block.get("tool_use_id"))
                name = f"result of the tool {names.get(call, call)} in {name}"
            parts.setdefault(name, [message.role]).append(block)
        if number < len(messages):
            parts[f"instruction at the end of message {number}"] = message.landing_instruction
    return parts


class _Differs(BaseException):
    """The replay differs; not an Exception, so that the loop does not mistake it for a failure of the endpoint."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.part)
        self.difference = difference


class _RecordedRun:
    """The progress of a replay over all its models, and the recorded calls, each of which is used once."""

    def __init__(self, cassette: Cassette, normalize: Callable[[Any], Any]) -> None:
        self.cassette = cassette
        self._normalize = normalize
        # Number of requests sent so far.
        self.sent = 0
        # A call that the run did not execute, reported with the next request.
        self.found: Difference | None = None
        self._calls: dict[str, deque[RecordedCall]] = {}
        for one in cassette.calls:
            self._calls.setdefault(ToolCall(one.id, one.name, one.arguments).key, deque()).append(one)
        self._children = [*cassette.children]

    def compare(self, stored: Mapping[str, Any], now: Mapping[str, Any], *, at_end: bool = False) -> None:
        """Raise _Differs for the first part that differs; a None is the same as a missing part."""
        if self.found is not None:
            raise _Differs(self.found)
        for part in {**stored, **now}:
            before, after = stored.get(part), now.get(part)
            if encode(before) != encode(after) and encode(before) != encode(after := self._normalize(after)):
                request = None if at_end else self.sent
                raise _Differs(Difference(request, part, shown_text(before), shown_text(after)))

    def compare_end(self, outcome: Outcome, transcript: Sequence[Message]) -> None:
        """Compare the number of requests, the outcome and all messages."""
        requests = self.cassette.requests
        if self.found is None and self.sent < len(requests):
            ending = "\n".join(part for part in (f"status {outcome.status}", outcome.error, outcome.answer) if part)
            self.found = Difference(None, f"the replay ended after {self.sent} of {len(requests)} requests", "", ending)
        stored, now = (
            {f"{name} of the outcome": value for name, value in asdict(one).items() if not name.startswith("error")}
            for one in (self.cassette.outcome, RecordedOutcome.of(outcome.as_json()))
        )
        sent = self.cassette.messages_before(len(requests) + 1)
        self.compare({**stored, **message_parts(sent)}, {**now, **message_parts(transcript)}, at_end=True)

    def replaced(self, tool: Tool) -> Tool:
        """Return a tool with the same definition that returns recorded results."""

        async def recorded(context_of_the_call: Context, **arguments: Any) -> Output:  # noqa: ANN401 - any arguments
            call = ToolCall(context_of_the_call.call_id, tool.name, arguments)
            calls = self._calls.get(call.key)
            if not calls:
                text = f"{call.name} {shown_text(call.arguments)}"
                part = "a tool call that the run did not execute"
                self.found = self.found or Difference(self.sent + 1, part, "", text)
                return Output("", is_error=True)
            found = next((one for one in calls if one.id == call.id), calls[0])
            calls.remove(found)
            if isinstance(context_of_the_call, ChildContext):
                # The result begins with the child's name, status and number of calls.
                begins = (f"[{one.specialist}: {one.status} after {one.tool_calls} " for one in self._children)
                at = next((at for at, text in enumerate(begins) if found.output.startswith(text)), None)
                child = None if at is None else self._children.pop(at)
                context_of_the_call.lender.settle(child)
            note = "" if _READ_ON.fullmatch(found.note) else found.note
            return Output(found.output, note, found.is_error)

        # Nothing is executed, so no timeout applies.
        return replace(tool, function=recorded, schema=tool.input_schema, timeout=float("inf"))


class _RecordedProvider:
    """One of the models of the run: compares each request with the recorded one, and returns the recorded reply."""

    def __init__(self, run: _RecordedRun, place: int) -> None:
        self._run, self._recorded = run, run.cassette.models[place]
        self.model = self._recorded.model
        self._model: Provider = described(self.model).provider
        self._costs = {one.reply.usage: one.cost_usd for one in self._recorded.requests if one.reply}
        self._opening: Opening | None = None
        # Not recorded are the first rung of `finalize`, for which nothing is sent, and the rung on which a model
        # continues the landing of the one before.
        earlier = [rung for one in run.cassette.models[:place] for rung in one.rungs]
        begun = earlier[-1:] or ([Rung.WAIT] if run.cassette.settings.landing == "finalize" else [])
        first, requests = self._recorded.rungs[:1], self._recorded.requests
        goes_on = [CHOICES.get(rung, Choice.AUTO) for rung in first] != [one.choice for one in requests[:1]]
        rungs = (*(begun if goes_on or not earlier else ()), *self._recorded.rungs)
        self.capabilities = replace(self._model.capabilities, reads_json_calls=True, context_tokens=None, rungs=rungs)

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:  # noqa: ARG002 - nothing streams
        """Start a conversation; a second one, for a summary, differs at its first request."""
        self._opening = self._opening or opening
        return self

    async def ask(self, request: Request) -> Reply:
        """Return the recorded reply; raise _Differs, or the failure of the recorded request."""
        run, cassette = self._run, self._run.cassette
        run.sent += 1
        if run.found is None and run.sent > len(cassette.requests):
            text = f"request {run.sent}, choice {request.choice}"
            run.found = Difference(None, "a further request", "", text)
        if run.found is not None:
            raise _Differs(run.found)
        line, last = cassette.requests[run.sent - 1], request.messages[-1]
        stored: dict[str, Any] = {}
        now: dict[str, Any] = {}
        if self._opening is not None and run.sent == 1:
            stored |= opening_parts(cassette.system, cassette.tools, cassette.settings)
            definitions = (tool.definition for tool in self._opening.tools)
            now |= opening_parts(self._opening.system, definitions, self._opening)
        # A request that was refused has no stored messages.
        if line.reply is not None:
            stored |= message_parts(cassette.messages_before(run.sent))
            now |= message_parts(request.messages)
        instruction = last.landing_instruction if last.role == "user" and line.reply else line.landing_instruction
        stored |= {"tool choice": line.choice, "landing instruction": line.landing_instruction}
        run.compare(stored, {**now, "tool choice": request.choice, "landing instruction": instruction})
        if line.reply is None:
            raise self._failure(line)
        return line.reply

    def _failure(self, line: RecordedRequest) -> ProviderError:
        cassette = self._run.cassette
        if line is self._recorded.requests[-1]:
            if self._recorded.failure:
                return ProviderError(self._recorded.failure, kind=self._recorded.failure_kind)
            # If several models have failed, the error names each with its reason, the last one at the end.
            text = str(cassette.outcome.error or "the request failed")
            return ProviderError(text.rpartition(f"; {self.model}: ")[2], kind=cassette.outcome.error_kind)
        if line.choice is Choice.AUTO:
            return ContextExceeded("the recorded request exceeded the context of its model")
        return _REFUSED.get(line.choice, ChoiceRefused)("the recorded request was refused")

    def cost(self, usage: Usage) -> float | None:
        """Return the recorded cost of a reply; for other amounts the cost at the current price [USD]."""
        return self._costs[usage] if usage in self._costs else self._model.cost(usage)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


async def _rebuilt(
    recorded: _RecordedRun, runner: Runner, file: SpecialistFile, provider: Provider
) -> tuple[Job, Mapping[str, Any], Sequence[str]]:
    """Return the job of a recorded run, its settings, and the tools whose definitions are the recorded ones."""
    cassette = recorded.cassette
    overrides = {key: getattr(cassette.settings, key) for key in cassette.overridden if key not in _NOT_OVERRIDDEN}
    settings = resolve(file, overrides).settings
    idle = settings.model_copy(update=_NOT_STARTED)
    parent = Parent("", runner.root, cassette.parents) if cassette.parents else None
    context = RunContext(file, idle, runner.root, runner.environments.trust)
    environment = await runner.environments.make(context, provider, parent)
    environment = _with_recorded_tools(cassette, settings, environment)
    if settings.memory is not None:
        environment = _with_recorded_memory(cassette, environment)
    # Otherwise the archive was offered only because a local model has a small context.
    is_local = prefix_of(cassette.models[0].model) is not None
    keeps_archive = is_local and any(one["name"] == GET_TOOL_RESPONSE for one in cassette.tools)
    job = spawn(file, settings, cassette.question, replace(environment, keeps_archive=keeps_archive))
    extra = environment.extra_tools
    foreign = {tool.name for tool in (*environment.tools, *extra.functions, *extra.served)}
    # No tool of a replay is executed.
    offered = [tool if tool.name == RESPOND else recorded.replaced(tool) for tool in job.opening.tools]
    opening = replace(job.opening, tools=Toolset(offered))
    # Recorded results are masked already, and nothing is retried.
    once = job.settings.model_copy(update={"patience": 0})
    job = replace(job, run_id="replay", opening=opening, secrets=(), settings=once)
    return job, settings_of(settings, job.answer_schema), sorted(foreign & {*job.opening.tools.names})


def _stand_ins(definitions: Iterable[Mapping[str, Any]], cassette: Cassette) -> tuple[Tool, ...]:
    """Return tools with recorded definitions, to be replaced by recorded results."""
    # Identical calls of these tools were executed again.
    repeatable = {call.name for call in cassette.calls if call.repeated}
    return tuple(
        Tool(one["name"], one["description"], lambda: "", one["name"] in repeatable, one["input_schema"])
        if "input_schema" in one
        else server_tool(one)
        for one in definitions
    )


def _with_recorded_memory(cassette: Cassette, environment: RunEnvironment) -> RunEnvironment:
    """Return an environment with the notes of the recorded prompt instead of the current ones, and a stand-in tool.

    Neither needs trust, because the tool is not run.
    """
    now, texts = environment.memory.text, environment.prompt_texts
    recorded = prompts.notes_in(cassette.system, MAIN)
    kept = tuple(one for one in texts.texts if one is not now)
    tools = _stand_ins([one for one in cassette.tools if one["name"] == MEMORY], cassette)
    memory = replace(environment.memory, tool=environment.memory.tool or next(iter(tools), None))
    texts = replace(texts, texts=(*kept, AddedText(MAIN, recorded)) if recorded else kept)
    return replace(environment, memory=memory, prompt_texts=texts)


def _with_recorded_tools(cassette: Cassette, settings: Specialist, environment: RunEnvironment) -> RunEnvironment:
    """Return the environment with stand-ins for tools that cannot be made here, as recorded."""
    # A decorator may have changed the name of a function; a function may have the name of a built-in tool.
    references = (cassette.settings.python_tools, settings.python_tools)
    recorded, declared = ({one.rpartition(":")[2].rpartition(".")[2] for one in named} for named in references)
    own = [one for one in cassette.tools if "input_schema" in one]
    built_in = {*BUILT_IN} - {*cassette.given_tools, *recorded}
    defined = {str(one["name"]): one for one in own if one["name"] not in built_in}
    given = _stand_ins([defined.pop(name) for name in cassette.given_tools if name in defined], cassette)
    servers = tuple(f"mcp__{name}__" for name in servers_of(settings, environment.root))
    gone = recorded - declared
    kept = [one for name, one in defined.items() if not (name.startswith("mcp__") or name in gone)]
    functions = kept if settings.python_tools else []
    functions += [{"name": name, "description": "", "input_schema": {}} for name in sorted(declared - recorded)]
    asked_for = [one for one in own if one["name"] in OFFERED and names_tool(settings.tools, str(one["name"]))]
    # The replies contain the calls that the API has run.
    of_api = {str(one["name"]) for one in cassette.tools if "input_schema" not in one}
    by_api = [tool for tool in server_tools(settings) if tool.name in of_api]
    # Whether they are trusted here does not matter, because they are not run.
    offered = (*_stand_ins(asked_for, cassette), *environment.extra_tools.offered, *by_api)
    distinct = tuple({one.name: one for one in offered}.values())
    served = _stand_ins([one for name, one in defined.items() if name.startswith(servers)], cassette)
    extra = ExtraTools(_stand_ins(functions, cassette), served, distinct, files=environment.extra_tools.files)
    return replace(environment, tools=given, extra_tools=extra)
