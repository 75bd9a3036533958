"""Build the job of a fork: a new run that begins with the first turns of a stored one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from run_specialist import prompts
from run_specialist.budget import units
from run_specialist.budget.budget import Budget, Kind
from run_specialist.errors import NotResumable
from run_specialist.loop.compaction.plan import tokens
from run_specialist.loop.compaction.turns import characters
from run_specialist.loop.founded import proven as proven_by
from run_specialist.loop.job import ForkedFrom, Job, ResumeState
from run_specialist.loop.portable import lost_parts
from run_specialist.providers.base import Opening, Provider
from run_specialist.record.journal import Checkpointed, Record
from run_specialist.record.messages import Message, Usage, encode
from run_specialist.spawning.begun_with import begun_with
from run_specialist.spawning.copied_records import copied_records
from run_specialist.spawning.first_turns import FirstTurns, first_turns
from run_specialist.spawning.other_model import for_other_model, with_own_ids
from run_specialist.spawning.resume_state import state_after_turns
from run_specialist.spawning.resuming import ResumeRequest, changed_file, continued, missing_tools
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.spawning.spawner import LIMITS, new_run_id
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.resolve import overridden
from run_specialist.store.fork_mark import MARK
from run_specialist.store.stored import StoredRun


@dataclass(frozen=True)
class ForkRequest:
    """The options of a fork."""

    at: int
    """Number of copied turns; 0 = only the question."""
    resume: ResumeRequest = field(default_factory=ResumeRequest)
    """The follow-up question and the other options of resuming; `limits` may also contain `preset` and `landing`."""


@dataclass(frozen=True)
class Fork:
    """A job that begins with the turns of another run, and what is stored before its first request."""

    job: Job
    copied: tuple[Record, ...]
    """The turns, calls and messages that the new run begins with."""


def fork(run: StoredRun, request: ForkRequest, environment: RunEnvironment) -> Fork:
    """Return a new run that continues after the first turns of a stored one, which is only read.

    System prompt and tools are those of the stored run, byte for byte.
    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid setting.
    """
    resuming, provider = request.resume, environment.provider
    file, before = begun_with(run, resuming.file, environment.root)
    settings = overridden(before, resuming.limits)
    begin = first_turns(run, request.at)
    _check_question(run, begin, request)
    changed = _changed(run, begin, before, settings)
    remarks = [*changed_file(run, resuming), *missing_tools(run, environment, resuming)]
    # Replies of another model may be in it even if the run has continued with this one.
    author = run.model if begin.last is None else run.model_of(begin.last.number)
    is_other = provider.model != author
    copied = with_own_ids(begin.run) if is_other else begin.run
    state = state_after_turns(copied)
    _check_totals(run, settings, state, request.at)
    warnings = [_what_counts(run, request.at, len(copied.calls))]
    if is_other:
        if lost := lost_parts(state.messages):
            remarks.append(prompts.other_model(author))
            warnings.append(f"{lost} of {author} were left out, because {provider.model} cannot use them")
        state = for_other_model(state, also_written=True)
    job = continued(copied, file, settings, environment)
    used = _spent(job.budget, state)
    if not (remarks or changed or resuming.question) and state.messages[-1].role == "assistant":
        remarks = [] if begin.is_paused and not is_other else [prompts.GO_ON]
    note = prompts.resumed(used, changed, resuming.question, remarks)
    cold = _cold_tokens(job.opening, state) if is_other and provider.capabilities.is_language_model else None
    state = _noted(_with_dearest(state, copied, provider, cold), note)
    own = sum(not one.copied for one in copied.messages)
    source = ForkedFrom(run.run_id, request.at, author, note, cold, _price(provider, cold))
    origin = _origin(job, run, begin, resuming.question)
    proven = _proven(run, copied, job)
    stored = source.stored([asdict(one) for one in begin.notes], proven, own)
    warnings = [*job.warnings, *warnings]
    job = replace(
        job,
        run_id=new_run_id(MARK),
        parent_id=None,
        warnings=tuple(warnings),
        origin=lambda: {**origin, "warnings": warnings, "fork": stored},
        resume_state=state,
        proven=proven,
        forked_from=source,
    )
    return Fork(job, (*copied_records(copied), _checkpointed(state)))


def _check_question(run: StoredRun, begin: FirstTurns, request: ForkRequest) -> None:
    question = request.resume.question
    if question is not None and not question.strip():
        raise NotResumable("the question is empty; omit it, or ask a further question")
    if question is None and begin.is_answered:
        raise NotResumable(
            f"`at={request.at}`: turn {request.at} of {run.run_id} is its answer; add a further question, or use "
            f"`at={request.at - 1}` to have it answered again"
        )


def _changed(run: StoredRun, begin: FirstTurns, before: Specialist, settings: Specialist) -> tuple[Kind, ...]:
    """Return the kinds whose limits differ from those that the model knows from the copied turns."""
    # Without the note about it, the model does not know of a limit that was changed after these turns.
    known = run.frozen.get("begun_limits", {}) if begin.left_out else {}
    now = {key: getattr(settings, key) for key in LIMITS}
    return tuple(
        kind
        for key, kind in LIMITS.items()
        if now[key] != getattr(before, key) or (key in known and now[key] != known[key])
    )


def _check_totals(run: StoredRun, settings: Specialist, state: ResumeState, at: int) -> None:
    for kind in (Kind.TOOL_CALLS, Kind.TURNS, Kind.CHARACTERS):
        limit, used = getattr(settings, kind.key), state.snapshot.used.get(kind, 0)
        if limit is not None and limit < used:
            raise NotResumable(
                f"{kind.key}: the first {units.amount(Kind.TURNS, at)} of {run.run_id} used "
                f"{units.amount(kind, used)}, so the total limit cannot be {units.number(kind, limit)}; set a higher "
                "one, or none, or copy fewer turns"
            )


def _what_counts(run: StoredRun, at: int, calls: int) -> str:
    if not at:
        return f"forked from {run.run_id} at its question"
    turns = "the first turn" if at == 1 else f"the first {at} turns"
    return (
        f"{turns} of {run.run_id} {'is' if at == 1 else 'are'} copied: {units.amount(Kind.TOOL_CALLS, calls)} and "
        f"{units.amount(Kind.TURNS, at)} count against the limits, their tokens, cost and time do not"
    )


def _spent(budget: Budget, state: ResumeState) -> Budget:
    for kind in Kind:
        budget = budget.spend(state.snapshot.used.get(kind, 0), kind)
    return budget


def _noted(state: ResumeState, note: str) -> ResumeState:
    """Return the state with a note at the end of the next message."""
    if not note:
        return state
    *earlier, last = state.messages
    if last.role == "user":
        messages = (*earlier, replace(last, blocks=(*last.blocks, *Message.user(note).blocks)))
    else:
        messages = (*state.messages, Message.user(note))
    copies = len(messages) if state.copies == len(state.messages) else state.copies
    return replace(state, messages=messages, copies=copies)


def _cold_tokens(opening: Opening, state: ResumeState) -> int:
    """Return the estimated input of the first request [tokens]."""
    snapshot = state.snapshot
    if snapshot.history_tokens:
        tail = state.messages[-1:] if state.messages[-1].role == "user" else ()
        return snapshot.history_tokens + tokens(characters(tail))
    front = len(opening.system) + sum(len(encode(tool.definition)) for tool in opening.tools)
    return tokens(front + characters(state.messages))


def _price(provider: Provider, cold: int | None) -> float | None:
    return None if cold is None else provider.cost(Usage(input_tokens=cold))


def _with_dearest(state: ResumeState, begin: StoredRun, provider: Provider, cold: int | None) -> ResumeState:
    """Return the state with the price of its most expensive request, which determines the reserve."""
    known = max((turn.cost_usd or 0 for turn in begin.turns), default=0)
    dearest = known if cold is None else _price(provider, cold) or 0
    return replace(state, snapshot=replace(state.snapshot, dearest_request=dearest))


def _origin(job: Job, run: StoredRun, begin: FirstTurns, question: str | None) -> Mapping[str, Any]:
    """Return the stored values of the new run, without values that concern later turns of the source."""
    frozen = run.frozen
    kept = {key: frozen[key] for key in ("digest", "given_tools", "parents") if key in frozen}
    origin = job.origin()
    settings, at_first = origin["settings"], {**frozen["settings"], **frozen.get("begun_limits", {})}
    begun = {key: at_first[key] for key in LIMITS if key in at_first and at_first[key] != settings[key]}
    asked = [one for one in frozen.get("questions", ()) if any(prompts.ASKS + one in note.text for note in begin.notes)]
    kept |= {"begun_limits": begun} if begun else {}
    return {**origin, **kept, "questions": [*asked, *([question] if question else [])]}


def _proven(run: StoredRun, begin: StoredRun, job: Job) -> tuple[str, ...]:
    """Return the quotes verified by child runs whose answers were copied, if these contain them."""
    answers = [call.whole for call in begin.calls if job.opening.tools.runs_child(call.call.name)]
    children = (*(run.snapshot.children if run.snapshot else ()), *run.children)
    quotes = [*(run.frozen.get("fork") or {}).get("proven", ()), *(one.quote for one in proven_by(children))]
    return tuple(dict.fromkeys(quote for quote in quotes if any(quote in answer for answer in answers)))


def _checkpointed(state: ResumeState) -> Checkpointed:
    return Checkpointed(state.part, 0, state.messages, state.copies, state.snapshot)
