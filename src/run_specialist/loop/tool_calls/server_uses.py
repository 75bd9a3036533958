"""Count and record the tool calls that the API ran itself during a reply."""

from collections.abc import Mapping
from dataclasses import dataclass

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.loop.executed import CallRecord
from run_specialist.loop.job import RunContext
from run_specialist.record.events import BudgetSpent, Called, CallPhase
from run_specialist.record.journal import Returned
from run_specialist.record.messages import Reply
from run_specialist.record.server_calls import ServerCall, server_calls


@dataclass(frozen=True, slots=True)
class ServerCallRecords:
    """The calls that the API ran for one reply."""

    records: Mapping[int, CallRecord]
    """The calls with a result, by their number in the run."""
    skipped: int = 0
    """Number of calls that it refused, because they exceeded the limit of one request."""


class ServerUses:
    """Books the calls of tools that run on the server; each counts like a local call."""

    def __init__(self, run: RunContext) -> None:
        self._run = run

    def book(self, reply: Reply, started: int) -> ServerCallRecords:
        """Charge and record the calls in a reply.

        A call without a result is charged, too: the API runs it with the next request, whose reply begins with the
        result.
        started: number of calls before the reply.
        """
        records: dict[int, CallRecord] = {}
        uses = server_calls(reply.content)
        refused = [use for use in uses if use.is_refused]
        for use in refused:
            self._notify(use, "skipped", prompts.skipped(use.call.name))
        for use in uses:
            if use in refused:
                continue
            if use.was_made_here:
                self._run.account.spend(1, Kind.TOOL_CALLS)
                self._notify(use, "started")
            if use.result is not None:
                number = started + len(records) + 1
                records[number] = self._record(use, number)
                self._run.observers.notify(BudgetSpent.of(self._run.account.budget.tightest))
        return ServerCallRecords(records, len(refused))

    def _record(self, use: ServerCall, number: int) -> CallRecord:
        text = self._run.job.hide(use.text)
        record = CallRecord(use.call, text, is_error=bool(use.error))
        if self._run.job.archive is not None:
            self._run.job.archive.add(use.call.id, text)
        self._run.account.spend(len(text), Kind.CHARACTERS)
        turn = self._run.account.turns
        returned = Returned(number, turn, use.call, text, len(text), record.is_error, "", repeated=False, seconds=0.0)
        self._run.observers.record(returned)
        self._notify(use, "failed" if record.is_error else "finished", text if record.is_error else "", len(text))
        return record

    def _notify(self, use: ServerCall, phase: CallPhase, text: str = "", size: int = 0) -> None:
        call = use.call
        self._run.observers.notify(Called(phase, call.id, call.name, call.arguments, size, text=text))
