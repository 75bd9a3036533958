"""Make the job that resumes a stored run."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from run_specialist import budget, prompts
from run_specialist.budget import Kind
from run_specialist.errors import NotResumable, SpecialistNotFound, UsageError
from run_specialist.loop.account import NOT_STARTED, drawn
from run_specialist.loop.compaction import archived_placeholder
from run_specialist.loop.evidence import ReturnReason
from run_specialist.loop.job import CallRecord, EarlierCalls, Job, ResumeNote, ResumeState
from run_specialist.loop.transcript import (
    named_arguments,
    named_blocks,
    naming,
    portable_blocks,
    portable_id,
    portable_messages,
)
from run_specialist.record.journal import Received, RunSnapshot
from run_specialist.record.messages import Stop, counted, text_of
from run_specialist.spawning.server_tools import reserved
from run_specialist.spawning.spawner import (
    LIMITS,
    RunEnvironment,
    answer_schema,
    as_stored,
    digest,
    digests,
    resumed,
    settings_of,
    spawn,
)
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_of
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import checked
from run_specialist.store.rows import KnownRun, file_change
from run_specialist.store.stored import StoredRun
from run_specialist.tools.archive import NAME as GET_TOOL_RESPONSE
from run_specialist.tools.archive import Archive
from run_specialist.tools.planning import TODO, TodoList
from run_specialist.tools.respond import NAME as RESPOND

_ORIGINAL = ("digest", "given_tools", "parents", "warnings", "given", "fork", "overridden")
"""Stored values that a resumption does not change."""


@dataclass(frozen=True)
class ResumeRequest:
    """The options of resuming."""

    question: str | None = None
    """A follow-up question."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """New totals by front matter key; None = no limit."""
    force: bool = False
    """Resume even if the file has changed, tools are missing, or another model rejects parts of the transcript."""
    file: Path | None = None
    """The specialist's file on the machine where the run continues; None = the original one."""


def resume(run: StoredRun, request: ResumeRequest, environment: RunEnvironment) -> Job:
    """Return the job that resumes a run, with the same system prompt and tools, byte for byte.

    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid limit or a missing folder.
    """
    frozen = run.frozen
    file, before = begun_with(run, request.file, environment.root)
    given = checked(request.limits)
    settings = before.model_copy(update={key: getattr(given, key) for key in given.model_fields_set})
    changed = tuple(kind for key, kind in LIMITS.items() if getattr(settings, key) != getattr(before, key))
    state = state_when_stopped(run, before.tool_calls_limit)
    _check_totals(run, settings, state, changed)
    _check_purpose(run, request, changed)
    remarks = [*changed_file(run, request), *missing_tools(run, environment, request)]
    if run.model != environment.provider.model and (adapted := for_other_model(state)) is not state:
        state = adapted
        if not request.force:
            raise NotResumable(
                f"{run.run_id} contains parts, such as thinking, that only {run.model} accepts; "
                "resume it with that model, or add `force=True` to omit them"
            )
        remarks.append(prompts.other_model(run.model))
    # If the transcript ends with the model, a user message must precede the next request.
    ends_with_model = state.messages and state.messages[-1].role == "assistant" and state.pending is None
    if ends_with_model and not (remarks or changed or request.question) and run.turns[-1].reply.stop != Stop.PAUSED:
        remarks.append(prompts.GO_ON)
    job = continued(run, file, settings, environment)
    original = {key: frozen[key] for key in _ORIGINAL if key in frozen}
    return replace(
        job,
        run_id=run.run_id,
        warnings=tuple(dict.fromkeys([*frozen["warnings"], *job.warnings])),
        origin=lambda: {**job.origin(), **original, **resumed(frozen, changed, request.question)},
        proven=tuple((frozen.get("fork") or {}).get("proven", ())),
        resume_state=state,
        resume_note=ResumeNote(changed, request.question, tuple(remarks)),
    )


def continued(run: StoredRun, file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> Job:
    """Return the job of a new run with system prompt, tools and archive of a stored one."""
    frozen = run.frozen
    keeps_archive = any(tool["name"] == GET_TOOL_RESPONSE for tool in frozen["tools"])
    # The list of the tool `todo` as the run left it.
    plan = TodoList()
    for call in sorted(run.calls, key=lambda call: call.at):
        if call.call.name == TODO and not call.is_error:
            plan.take(call.call.arguments)
    given = replace(environment, keeps_archive=keeps_archive, plan=plan)
    job = spawn(file, settings, run.question, given)
    if job.archive is not None:
        _refill(job.archive, run)
    tools = as_stored(frozen["tools"], job.opening.tools)
    opening = replace(
        job.opening,
        system=frozen["system"],
        tools=tools,
        effort=frozen["effort"],
    )
    warnings = dict.fromkeys([*environment.extra_tools.warnings, *job.context_warnings])
    return replace(job, opening=opening, budget=reserved(job.budget, tools), warnings=tuple(warnings))


def _refill(archive: Archive, run: StoredRun) -> None:
    """Restore the content of the archive."""
    for call in sorted(run.calls, key=lambda call: call.at):
        archive.add(call.call.id, call.whole)
    if run.snapshot and len(run.snapshot.models) > 1:
        archive.add_names(portable_id)
    # Results of calls that were not run are archived only when they are summarized.
    newest = max((stored.part for stored in run.messages), default=0)
    for block in (block for stored in run.messages if stored.part < newest for block in stored.message.content):
        call_id, text = str(block.get("tool_use_id")), text_of(block.get("content"))
        if block["type"] == "tool_result" and call_id not in archive and text != archived_placeholder(call_id):
            archive.add(call_id, text)


def _check_totals(run: StoredRun, settings: Specialist, state: ResumeState, changed: Sequence[Kind]) -> None:
    for kind in changed:
        limit, used = getattr(settings, kind.key), state.snapshot.used.get(kind, 0)
        if kind is Kind.TOOL_CALLS:
            # Calls that were started count even if they never returned.
            used += state.earlier.cut_off
        if limit is not None and limit < used:
            raise NotResumable(
                f"{kind.key}: {run.run_id} has already used {budget.amount(kind, used)}, so its total limit cannot be "
                f"{budget.number(kind, limit)}; set a higher one, or none"
            )


def _check_purpose(run: StoredRun, request: ResumeRequest, changed: Sequence[Kind]) -> None:
    if request.question is not None and not request.question.strip():
        raise NotResumable("the question is empty; omit it, or ask a follow-up question")
    if request.question is not None or run.status not in {"answered", "landed"}:
        return
    if run.status == "answered":
        raise NotResumable(f"{run.run_id} is already answered; to ask a follow-up question, add it after the run")
    if not changed:
        raise NotResumable(f"{run.run_id} landed at its limit; set a higher limit, or ask a follow-up question")


def changed_file(run: StoredRun, request: ResumeRequest) -> list[str]:
    """Return a remark if the file has changed; raises NotResumable instead without `force`."""
    original, file = run.frozen["digest"], request.file or Path(run.frozen["file"])
    if not original or (current := digest(file)) == original:
        return []
    if not request.force:
        raise NotResumable(
            f"{file} was changed or deleted since {run.run_id} began; ask the question in a new run, or "
            f"add `force=True` to resume with the original instructions; {digests(original, current)}"
        )
    return [prompts.CHANGED_FILE]


def missing_tools(run: StoredRun, environment: RunEnvironment, request: ResumeRequest) -> list[str]:
    """Return a remark if tools of the program are missing; raises NotResumable instead without `force`."""
    available = {tool.name for tool in environment.tools}
    missing = [name for name in run.frozen["given_tools"] if name not in available]
    if missing and not request.force:
        raise NotResumable(
            f"{run.run_id} uses tools of the program that started it: {', '.join(missing)}; resume it there with "
            "Runner(tools=...), or add `force=True` to resume without them; "
            f"this program has {', '.join(sorted(available)) or 'none'}"
        )
    return [prompts.tools_gone(missing)] if missing else []


def models_left(run: StoredRun) -> tuple[str, ...]:
    """Return the model of a stored run, and its remaining fallbacks."""
    known = [str(one) for one in run.frozen.get("models", ())]
    following = known[known.index(run.model) + 1 :] if run.model in known else []
    return (run.model, *following)


def begun_with(run: StoredRun, file: Path | None = None, root: Path | None = None) -> tuple[SpecialistFile, Specialist]:
    """Return the file and the settings with which a run began.

    file, root: the specialist's file and the folder with which the run continues; None = the original ones.
    """
    # Settings from another version of this program may have keys that this version does not know.
    settings = Specialist.model_validate(run.frozen["settings"], extra="ignore")
    if isinstance(settings.output_schema, str):
        # A run stores the schema itself; the path of one could lead to any file.
        raise NotResumable(f"{run.run_id}: its stored output_schema is not a schema")
    # The others are defaults, which follow from the model that the run is resumed with.
    settings.model_fields_set.intersection_update(run.frozen.get("given", settings.model_fields_set))
    path = file or Path(run.frozen["file"])
    current = load(path, project_of(path, [root or Path(run.frozen["root"])])) if settings.mcp_servers else None
    if current and current.specialist and current.digest == run.frozen["digest"]:
        # Values that may be secret, such as headers of MCP servers, are masked in the store: take them from the file.
        settings = settings.model_copy(update={"mcp_servers": current.specialist.mcp_servers})
    return SpecialistFile(path, settings.name, settings.description, specialist=settings), settings


def for_other_model(state: ResumeState, *, also_written: bool = False) -> ResumeState:
    """Return the state without the parts that only the first model accepts; the same object if there are none.

    also_written: also remove thinking that a server wrote at the beginning of the text.
    """
    messages = portable_messages(state.messages, also_written=also_written)
    pending = state.pending
    if pending:
        content = portable_blocks(pending.reply.content)
        pending = replace(pending, reply=replace(pending.reply, content=content))
    if messages == state.messages and pending == state.pending:
        return state
    # The adapted transcript is stored as a new part, all of it copied.
    return replace(state, messages=messages, part=state.part + 1, copies=len(messages), pending=pending)


def with_own_ids(run: StoredRun) -> StoredRun:
    """Return a run in which all calls have new ids, for the reasons given in `portable_id`."""
    contents = [*(turn.reply.content for turn in run.turns), *(one.message.blocks for one in run.messages)]
    ids = dict.fromkeys(block["id"] for blocks in contents for block in blocks if block.get("type") == "tool_use")
    # A run that has changed its model may have two ids of one call.
    known = {portable_id(call_id): call_id for call_id in ids if portable_id(call_id) != call_id}
    firsts = dict.fromkeys(known.get(call_id, call_id) for call_id in ids)
    names = {call_id: f"copied_{number}" for number, call_id in enumerate(firsts, 1)}
    names |= {call_id: names[known[call_id]] for call_id in ids if call_id in known}

    def name(call_id: str) -> str:
        return names.get(call_id, call_id)

    return replace(
        run,
        turns=tuple(
            replace(turn, reply=replace(turn.reply, content=named_blocks(turn.reply.content, name)))
            for turn in run.turns
        ),
        calls=tuple(
            replace(
                one,
                call=replace(one.call, id=name(one.call.id), arguments=named_arguments(one.call.arguments, name)),
                note=naming(one.note, name),
            )
            for one in run.calls
        ),
        messages=tuple(
            replace(one, message=replace(one.message, blocks=named_blocks(one.message.blocks, name)))
            for one in run.messages
        ),
    )


def state_when_stopped(run: StoredRun, limit: int | None) -> ResumeState:
    """Return the state in which a run ended or was interrupted.

    limit: the limit of tool calls before the run is resumed.
    """
    snapshot, pending = _with_children(run), run.pending
    events = (event.body for event in run.events)
    changes = tuple(change for body in events if (change := file_change(body)))
    state = replace(state_after_turns(run), snapshot=snapshot, changes=changes)
    if pending is None:
        return state
    to_run = _calls_to_run(pending, snapshot)
    used = int(snapshot.used.get(Kind.TOOL_CALLS, 0)) + counted(pending.reply.content)
    affordable = to_run if limit is None else max(limit - used, 0)
    return replace(
        state,
        earlier=replace(state.earlier, cut_off=min(to_run, affordable)),
        pending=pending,
    )


def state_after_turns(run: StoredRun) -> ResumeState:
    """Return the state after the turns of a run that were acted upon."""
    snapshot = run.snapshot or NOT_STARTED
    part = max((stored.part for stored in run.messages), default=0)
    return ResumeState(
        snapshot=snapshot,
        messages=run.transcript,
        part=part,
        copies=sum(stored.copied for stored in run.messages if stored.part == part),
        earlier=EarlierCalls(
            executed={
                one.number: CallRecord(
                    one.call, one.text, one.is_error, one.truncated, one.note, one.repeated, one.whole
                )
                for one in run.calls
            },
            started=snapshot.calls,
            skipped=snapshot.skipped,
        ),
    )


def _with_children(run: StoredRun) -> RunSnapshot:
    """Return the last snapshot of a run, with the spending of children that ended after it."""
    snapshot = run.snapshot or NOT_STARTED
    used, total = dict(snapshot.used), snapshot.total
    missing = snapshot.missing_children(run.children)
    for child in missing:
        total = total.plus(child.usage, child.cost_usd)
        for kind, amount in drawn(child).items() if run.frozen["settings"]["share_budget"] else ():
            used[kind] = used.get(kind, 0) + amount
    return replace(snapshot, used=used, total=total, children=(*snapshot.children, *missing))


def _calls_to_run(turn: Received, snapshot: RunSnapshot) -> int:
    """Return how many calls of a turn may have been run: none in a landing or if truncated.

    Calls beside an answer may have been run once; the loop decides this again, see `Replies`.
    """
    answers = sum(call.name == RESPOND for call in turn.reply.calls)
    if turn.landing or turn.reply.stop not in {Stop.WANTS_TOOLS, Stop.PAUSED}:
        return 0
    return 0 if answers and ReturnReason.TOO_EARLY in snapshot.returned else len(turn.reply.calls) - answers


@dataclass(frozen=True)
class ResumePlace:
    """The folder and the specialist's file with which a run continues."""

    root: Path
    file: Path

    def warnings(self, run: StoredRun) -> tuple[str, ...]:
        """Return a warning if the run began in another folder."""
        begun = run.frozen["root"]
        is_same = os.path.realpath(begun) == os.path.realpath(self.root)
        return () if is_same else (f"the run began in {begun} and continues in {self.root}",)


def place_of(run: StoredRun, root: Path, registry: Registry, *, force: bool = False) -> ResumePlace:
    """Return where a run continues: in its original folder, or in `root` if that folder does not exist here.

    root: the folder that the caller named, or the current project; others may have written to the store, so the run
        cannot choose a folder outside of it.
    registry: where the specialist is looked up by its name, if its file is not where it was.
    force: accept a specialist with another content.
    Raises NotResumable for another folder, and if the specialist found here is not the same.
    """
    begun = ResumePlace(Path(run.frozen["root"]), Path(run.frozen.get("file", "")))
    has_root, content = begun.root.is_dir(), run.frozen.get("digest", "")
    if has_root and not Path(os.path.realpath(begun.root)).is_relative_to(os.path.realpath(root)):
        where = shown(str(begun.root), None)
        raise NotResumable(
            f"{run.run_id} began in {where}, which is not in the current project; to let it read the files there, add "
            f"`root={where}`"
        )
    if has_root and (not content or digest(begun.file) == content):
        return begun
    found, why = None, ""
    if content:
        try:
            found = registry.find(run.specialist)
        except SpecialistNotFound as error:
            why = f"; to continue in another one, its specialist must be there: {error}"
    if found is not None and found.digest == content:
        return ResumePlace(begun.root if has_root else root, found.path)
    if has_root:
        return begun
    if found is not None and force:
        return ResumePlace(root, found.path)
    if found is not None:
        why = f", and {found.path} is another specialist: {digests(content, found.digest)}"
    raise NotResumable(f"{run.run_id}: its working folder {begun.root} no longer exists{why}")


SHOWN = 60
"""Maximum length of a value in an error [characters]."""


def check_same(known: KnownRun, file: SpecialistFile, settings: Specialist, question: str, *, force: bool) -> None:
    """Raise UsageError with each difference unless a stored run has this question and this specialist.

    force: ignore a changed file and other settings; another question or specialist is always another run.
    """
    found = [("question", known.question, question), ("specialist", known.specialist, settings.name)]
    differences = [_difference(name, then, now) for name, then, now in found if then != now]
    if not force:
        differences += _of_file_or_settings(known.frozen, file, settings)
    if differences:
        raise UsageError(f"{known.run_id} is stored as another run: {'; '.join(differences)}; use another id")


def _of_file_or_settings(frozen: Mapping[str, Any], file: SpecialistFile, settings: Specialist) -> Iterator[str]:
    if frozen["digest"] != (now := file.digest or digest(file.path)):
        # Settings of the file may differ as well.
        yield f"{file.path} has another content, {digests(frozen['digest'], now)}"
        return
    begun = Specialist.model_validate(frozen["settings"], extra="ignore")
    stored = settings_of(begun, None) | frozen.get("begun_limits", {})
    wanted = settings_of(settings, answer_schema(file, settings))
    stored["output_schema"] = frozen["settings"].get("output_schema")
    # Settings that were not given depend on the model and the version of this program.
    for key in sorted(settings.model_fields_set | {*frozen.get("given", begun.model_fields_set)}):
        if key in wanted and stored.get(key) != wanted[key]:
            yield _difference(key, stored.get(key), wanted[key])


def _difference(name: str, then: object, now: object) -> str:
    return f"{name} was {_short(then)} and is {_short(now)}"


def _short(value: object) -> str:
    return "none" if value is None else shown(str(value), SHOWN)
