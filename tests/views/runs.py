"""Stored runs for tests of the views, from the first request to the outcome."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, Limit
from run_specialist.loop.compaction import archived_placeholder, summary_pair
from run_specialist.record.events import Finished, Resumed, Started, Summarized
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Evidence, LandingReport, Outcome, Spent, Status, ToolCalls
from run_specialist.store.stored import StoredRun
from tests.views.recording import BEGIN, MODEL, SYSTEM, Recording

FROZEN = {
    "system": "You explain how existing code behaves. The person who asked will open the lines that you name.\n\n"
    + prompts.DATA_NOT_INSTRUCTIONS,
    "tools": [
        {"name": "search", "description": "Return the passages that fit a question best.", "input_schema": {}},
        {"name": "grep", "description": "Return the lines that match a pattern.", "input_schema": {}},
        {"name": "read", "description": "Return numbered lines of a file.", "input_schema": {}},
        {"name": "respond", "description": "Deliver your answer.", "input_schema": {}},
    ],
    "effort": None,
    "model": MODEL,
    "settings": {"name": "codebase-analyst", "tool_calls_limit": 20, "countdown": {"from": 0.5}, "landing": "force"},
    "file": "specialists/codebase-analyst.md",
    "digest": "sha256:4f1c0a7e",
    "root": "/home/ada/agents",
    "version": "0.1.0",
}


class Tape(Recording):
    """A run while it is recorded for the store: its requests, summaries, resumes and end."""

    def summarize(self, summary: str, keep: int = 2, usage: Usage = Usage(21_000, 0, 0, 900)) -> None:  # noqa: B008 - a frozen value
        """Record a summary that replaces all but the newest messages.

        keep: Number of newest messages to keep.
        """
        old = [one.message for one in self.messages if one.part == self.part]
        ids = {call.id for turn in self.turns for call in turn.reply.calls}
        self.now += 6.5
        self.part += 1
        cost = round(usage.input_tokens * 3e-6 + usage.output_tokens * 15e-6, 8)
        self.spend(usage, cost, turns=0)
        question, *middle = old[:-keep]
        short = [
            replace(
                one,
                blocks=tuple(
                    {**block, "content": archived_placeholder(block["tool_use_id"])}
                    if block.get("tool_use_id") in ids
                    else block
                    for block in one.blocks
                ),
            )
            for one in middle
        ]
        archived = sum(block["type"] == "tool_result" for one in middle for block in one.blocks)
        for message in (question, *short, *summary_pair(summary, archived, old), *old[-keep:]):
            self.say(message, copied=True)
        before, self.cached = self.cached, SYSTEM + 3_000
        self.tell(Summarized(summary, archived, before, self.cached, usage, cost))

    def resume(self, after: float, note: str, **limits: float) -> None:
        """Record a resume with other limits, some time after the last event [s]."""
        self.stop()
        self.now += after
        used = {limit.kind.value: limit.used for limit in self.budget.limits}
        self.begun = self.now
        self.budget = Budget(
            tuple(Limit(one.kind, limits.get(one.kind.value, one.limit), one.used) for one in self.budget.limits)
        )
        self.landing = None
        self.tell(Started("", "codebase-analyst", self.model, self.question, (), self._limits()))
        self.tell(Resumed("", used, note))
        self.say(Message.user(note))

    def stop(self) -> None:
        """Add the time since the start or the last resume to the budget."""
        self.budget = self.budget.spend(self.now - self.begun, Kind.TIME)
        self.begun = self.now

    def outcome(self, status: Status, answer: str, evidence: Sequence[Evidence] = (), **others: Any) -> Outcome:
        """Return the outcome of the run so far."""
        self.stop()
        used = {limit.kind: limit.used for limit in self.budget.limits}
        usage = sum((Usage(**one.body["usage"]) for one in self.events if "usage" in one.body), Usage())
        landing = None
        if self.landing:
            billed = [turn for turn in self.turns if turn.landing]
            landing = LandingReport(
                self.landing.reason.value,
                self.landing.how.value,
                len(billed),
                sum((turn.reply.usage for turn in billed), Usage()),
                sum(turn.cost_usd or 0 for turn in billed),
            )
        limit = self.budget[Kind.TOOL_CALLS].limit
        given: dict[str, Any] = {
            "gaps": (),
            "output": None,
            "tool_calls": ToolCalls(
                int(used[Kind.TOOL_CALLS]),
                None if limit is None else int(limit),
                sum(call.is_error for call in self.calls),
                self.skipped,
            ),
            "limits": {one.kind.value: Spent(round(one.used, 4), one.limit) for one in self.budget.limits},
            "landing": landing,
            "usage": usage,
            "cost_usd": round(used[Kind.COST], 8),
            "duration_s": round(used[Kind.TIME], 3),
            "warnings": tuple(self.warnings),
        }
        return Outcome(
            "20261122-040000-5f3a9c",
            "codebase-analyst",
            self.model,
            status,
            answer,
            tuple(evidence),
            **(given | others),
        )

    def end(self, outcome: Outcome) -> StoredRun:
        """Record the end, and return the run with its outcome."""
        self.tell(Finished(outcome))
        return self.stored(outcome.status, outcome=outcome.as_json(), ended_at=self.now)

    def stored(self, status: str, **others: Any) -> StoredRun:
        """Return the run so far as it is stored."""
        self.stop()
        used = {limit.kind.value: limit.used for limit in self.budget.limits}
        last = next((turn.reply.text for turn in reversed(self.turns) if turn.reply.text), "")
        given: dict[str, Any] = {
            "run_id": "20261122-040000-5f3a9c",
            "parent_id": None,
            "specialist": "codebase-analyst",
            "model": self.model,
            "question": self.question,
            "status": status,
            "started_at": BEGIN,
            "ended_at": None,
            "tool_calls": len(self.calls),
            "cost_usd": used["cost"],
            "frozen": FROZEN,
            "snapshot": RunSnapshot(used, skipped=self.skipped, last_text=last, warnings=tuple(self.warnings)),
            "outcome": None,
            "turns": tuple(self.turns),
            "calls": tuple(self.calls),
            "messages": tuple(self.messages),
            "events": tuple(self.events),
        }
        return StoredRun(**(given | others))
