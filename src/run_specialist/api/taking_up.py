"""Begin, resume or return a run by an id of the caller, so that a repeated call is not paid for twice."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from run_specialist.api.ended_run import EndedRun
from run_specialist.api.query import optional_question
from run_specialist.api.run_maker import RunMaker, RunRequest, Watchers
from run_specialist.errors import AtWork, NotResumable, UsageError
from run_specialist.loop.run import Run
from run_specialist.spawning.forking import ForkRequest
from run_specialist.spawning.resuming import ResumeRequest
from run_specialist.spawning.same_run import check_same
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path
from run_specialist.store.known_run import KnownRun

LAST = "last"
"""Alias for the newest run of a project, which is not an id; see `store.reader`."""
LONGEST_ID = 100
"""Maximum length of an id [characters]."""
RETRIED = ("failed", "aborted", "partial")
"""Statuses of runs that can be resumed without a higher limit or a further question."""
ATTEMPTS = 3
"""Maximum number of attempts if other processes begin or resume the run between the look-up and the claim."""

_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_ID}}}")


def checked_id(run_id: str) -> str:
    """Return a valid id.

    Raises UsageError for an id that cannot name a run.
    """
    if not isinstance(run_id, str):
        raise UsageError(f"run_id must be a string, got {type(run_id).__name__}")
    if run_id == LAST or not _ID.fullmatch(run_id):
        raise UsageError(
            f"run_id: {shown(run_id)} cannot be the id of a run; use 1 to {LONGEST_ID} letters, digits, `.`, `_` and "
            f"`-`, and not `{LAST}`"
        )
    return run_id


def checked_statuses(retry: Sequence[str]) -> frozenset[str]:
    """Return valid statuses of runs to resume.

    Raises UsageError for a status that needs a new limit or question.
    """
    statuses = frozenset([retry] if isinstance(retry, str) else retry)
    if unknown := sorted(map(str, statuses - {*RETRIED})):
        raise UsageError(f"retry: {shown(unknown[0])} is not one of {', '.join(RETRIED)}")
    return statuses


async def begin(maker: RunMaker, asked: RunRequest, run_id: str) -> Run:
    """Return a new run with an id of the caller.

    Raises AtWork if a process works on a run with this id, UsageError if one is stored.
    """
    run = await maker.begin(asked, checked_id(run_id))
    if isinstance(run, Run):
        return run
    if run.is_running:
        await _refuse_if_at_work(maker, run)
    raise UsageError(f"run_id: {run_id} is stored already; use another id, or take it up with Runner.take_up")


async def resume(maker: RunMaker, run_id: str, query: str | None, options: Mapping[str, Any], *, force: bool) -> Run:
    """Return a stored run, ready to continue where it stopped; see `Runner.resume`.

    options: `ResumeOptions`.
    """
    limits = dict(options)
    question = optional_question(query, limits.pop("question", None))
    watchers = Watchers.taken_from(limits)
    run = await maker.store.load(run_id, project_path(maker.root))
    return await maker.resume(run, ResumeRequest(question, limits, force), watchers)


async def fork(  # noqa: PLR0913 - keyword arguments, all optional
    maker: RunMaker,
    run_id: str,
    query: str | None,
    options: Mapping[str, Any],
    *,
    at: int,
    model: str | None,
    force: bool,
) -> Run:
    """Return a new run that begins with the first turns of a stored one; see `Runner.fork`.

    options: `ForkOptions`.
    """
    settings = dict(options)
    question = optional_question(query, settings.pop("question", None))
    watchers = Watchers.taken_from(settings)
    run = await maker.store.load(run_id, project_path(maker.root))
    return await maker.fork(run, ForkRequest(at, ResumeRequest(question, settings, force)), watchers, model)


async def take_up(  # noqa: PLR0913 - keyword arguments, all optional
    maker: RunMaker,
    asked: RunRequest,
    run_id: str,
    *,
    force: bool = False,
    retry: Sequence[str] = (),
    is_new: bool = False,
) -> Run | EndedRun:
    """Begin the run with this id, resume it, or return it with its stored outcome.

    force: resume even if the specialist's file or the settings have changed.
    retry: statuses of ended runs that are resumed.
    is_new: the run was not stored a moment ago, so it is begun without looking it up.
    Raises AtWork if another process works on the run, UsageError if it is another run, NotResumable with the reason.
    """
    statuses = checked_statuses(retry)
    run_id = checked_id(run_id)
    known = None if is_new else await maker.store.look(run_id)
    for attempt in range(ATTEMPTS):
        if known is None:
            run = await maker.begin(asked, run_id)
            if isinstance(run, Run):
                return run
            known = run
        check_same(known, asked.file, asked.settings, asked.question, force=force)
        if known.ended is not None and known.ended.status not in statuses:
            return EndedRun(known.ended)
        if known.is_running:
            await _refuse_if_at_work(maker, known)
        try:
            return await _resumed(maker, asked, run_id, force=force)
        except AtWork:
            if attempt == ATTEMPTS - 1:
                raise
        # Another process was faster; it may even have ended the run.
        known = await maker.store.look(run_id)
    raise AtWork(f"{run_id} is repeatedly created and deleted by other processes")


async def _resumed(maker: RunMaker, asked: RunRequest, run_id: str, *, force: bool) -> Run:
    stored = await maker.store.load(run_id, "")
    if stored.run_id != run_id:
        raise NotResumable(f"{run_id} was deleted")
    return await maker.resume(stored, ResumeRequest(force=force), asked.watchers, asked)


async def _refuse_if_at_work(maker: RunMaker, known: KnownRun) -> None:
    if worker := await maker.store.worker_of(known):
        raise AtWork(f"{known.run_id} is being worked on: {worker}; wait until it has ended, or stop it there")
