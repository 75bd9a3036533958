"""Load the requests and calls of many runs in one query, without their texts."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, select

from run_specialist.record.messages import Usage
from run_specialist.store.descendants import portions
from run_specialist.store.failures import readable_errors
from run_specialist.store.opening import open_engine
from run_specialist.store.tables import calls, runs, turns

_RUN = (runs.c.run_id, runs.c.specialist, runs.c.model, runs.c.status, runs.c.started_at, runs.c.ended_at)
_USAGE = (
    turns.c.input_tokens,
    turns.c.cache_read_input_tokens,
    turns.c.cache_creation_input_tokens,
    turns.c.output_tokens,
)
_REQUEST = (turns.c.run_id, turns.c.number, turns.c.at, turns.c.seconds, *_USAGE)
_CALL = (
    calls.c.run_id,
    calls.c.number,
    calls.c.at,
    calls.c.seconds,
    calls.c.call_id,
    calls.c.name,
    calls.c.arguments,
    calls.c.is_error,
)


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One answered request."""

    number: int
    at: float
    """Time of the reply [seconds since 1970]."""
    seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallStep:
    """One executed tool call."""

    number: int
    at: float
    """Time of return [seconds since 1970]."""
    seconds: float
    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    is_error: bool


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The requests and calls of a run."""

    run_id: str
    specialist: str
    model: str
    status: str
    started_at: float
    """[seconds since 1970]"""
    ended_at: float | None
    """[seconds since 1970]"""
    requests: tuple[RequestStep, ...]
    calls: tuple[CallStep, ...]


def run_steps(url: str, ids: Sequence[str]) -> dict[str, RunSteps]:
    """Return the requests and calls of those runs that are stored; raises StoreUnusable, also without a store."""
    engine = open_engine(url, write=False)
    try:
        with readable_errors(url), engine.begin() as connection:
            found: dict[str, RunSteps] = {}

            def rows(table: Table, columns: Sequence[Any], part: Sequence[str]) -> dict[str, list[Any]]:
                by_run = defaultdict(list)
                query = select(*columns).where(table.c.run_id.in_(part)).order_by(table.c.run_id, table.c.number)
                for run_id, *values in connection.execute(query):
                    by_run[run_id].append(values)
                return by_run

            for part in portions(ids):
                requests, called = rows(turns, _REQUEST, part), rows(calls, _CALL, part)
                for run in connection.execute(select(*_RUN).where(runs.c.run_id.in_(part))):
                    found[run.run_id] = RunSteps(
                        *run,
                        tuple(_request(*row) for row in requests.get(run.run_id, ())),
                        tuple(_call(*row) for row in called.get(run.run_id, ())),
                    )
            return found
    finally:
        engine.dispose()


def _request(number: int, at: float, seconds: float, *usage: int) -> RequestStep:
    return RequestStep(number, at, seconds, Usage(*usage))


def _call(  # noqa: PLR0913, PLR0917 - the columns of a row
    number: int,
    at: float,
    seconds: float,
    call_id: str,
    name: str,
    arguments: str | None,
    is_error: bool,  # noqa: FBT001 - as above
) -> CallStep:
    given = None if arguments is None else json.loads(arguments)
    return CallStep(number, at, seconds, call_id, name, given, is_error)
