"""Checks of a stored run after its process was killed, and after it has answered."""

import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.prompts import NOT_BEGUN, PROCESS_ENDED, STOPPED
from run_specialist.record.journal import Returned
from run_specialist.record.messages import Usage
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.store.location import file_of
from run_specialist.store.reader import Store
from run_specialist.store.rows import RUNNING
from run_specialist.store.stored import StoredRun

Wire = dict[str, Any]
"""A message as it is sent, without cache markers."""
BROKEN_OFF = "Not finished: "
"""Start of the result of a call that was running when its run was stopped or its process was killed."""
assert PROCESS_ENDED.startswith(BROKEN_OFF)
assert STOPPED.startswith(BROKEN_OFF)
NOT_RUN = NOT_BEGUN.partition("{")[0]


@dataclass(frozen=True)
class ReceivedRequest:
    """One request that the simulated model received, and its reply."""

    messages: Sequence[Wire]
    content: Sequence[Mapping[str, Any]] = ()
    """The blocks of the reply; empty if there was none."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class StoredRunCheck:
    """What is missing in the store."""

    lost: int
    """Number of replies that were sent but are not stored."""
    open: int
    """Number of calls of the newest turn that are not stored."""


def unmarked(messages: Sequence[Mapping[str, Any]]) -> list[Wire]:
    """Return messages without cache markers, which are not part of the content."""
    return [
        {
            "role": message["role"],
            "content": [
                {key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]
            ],
        }
        for message in messages
    ]


def said(run: StoredRun) -> list[list[Wire]]:
    """Return the messages of each part as they are sent, with the reply that was not acted upon yet."""
    parts: list[list[Wire]] = []
    if not run.messages:
        # In that case the question is in the run's own row.
        return [[{"role": "user", "content": [{"type": "text", "text": run.question}]}]]
    for part in range(run.messages[-1].part + 1):
        messages = [one.message for one in run.messages if one.part == part]
        newest = part == run.messages[-1].part
        if newest and run.pending:
            messages[-1] = messages[-1].with_instruction(run.pending.landing_instruction)
        wire: list[Wire] = [{"role": each.role, "content": [*each.content]} for each in messages]
        if newest and run.pending:
            wire.append({"role": "assistant", "content": [*run.pending.reply.content]})
        parts.append(wire)
    return parts


def check_stored_run(
    run: StoredRun, asked: Sequence[ReceivedRequest], limit: int | None = None, for_notes: Usage | None = None
) -> StoredRunCheck:
    """Check that a stored run matches the requests and replies on the model's side.

    asked: All accepted requests of the run, in order.
    limit: Maximum number of tool calls.
    for_notes: Usage of the summaries.
    """
    lost = _check_replies(run, asked)
    _check_requests(run, asked)
    for messages in said(run):
        _check_results(messages, has_pending=run.pending is not None)
    still_open = _check_calls(run, limit)
    _check_counters(run, for_notes or Usage())
    assert [event.number for event in run.events] == list(range(1, len(run.events) + 1))
    assert [turn.number for turn in run.turns] == list(range(1, len(run.turns) + 1))
    return StoredRunCheck(lost, still_open)


def _check_replies(run: StoredRun, asked: Sequence[ReceivedRequest]) -> int:
    """Check that the stored replies were sent in this order with this usage; return how many replies are not stored."""
    turns, lost = list(run.turns), 0
    for one in asked:
        if turns and list(turns[0].reply.content) == list(one.content):
            assert turns.pop(0).reply.usage == one.usage, "a stored turn has another usage than was billed"
        elif one.content:
            lost += 1
    assert not turns, f"stored turns {[turn.number for turn in turns]} were never sent, or in another order"
    return lost


def _check_requests(run: StoredRun, asked: Sequence[ReceivedRequest]) -> None:
    """Check that each accepted request is the beginning of a stored part, and that none follows an answer."""
    parts = said(run)
    answers = [one.content for one in asked if one.content and _is_answer(one.content)]
    replies = [list(turn.reply.content) for turn in run.turns]
    for number, one in enumerate(asked, 1):
        answered = list(one.content) in replies
        assert any(_begins(part, one.messages, answered=answered) for part in parts), (
            f"request {number} is not in the store as it was sent"
        )
        again = [message for message in one.messages if message["content"] in answers]
        assert not again, f"request {number} asks again although this answer is stored: {again}"


def _is_answer(content: Sequence[Mapping[str, Any]]) -> bool:
    return all(block["type"] != "tool_use" or block["name"] == RESPOND for block in content)


def _begins(stored: Sequence[Wire], sent: Sequence[Wire], *, answered: bool) -> bool:
    """Return whether stored messages begin with those sent.

    answered: Whether the reply is stored too; then the last message must be equal, including the landing instruction.
    """
    last = len(sent) - 1
    if len(stored) <= last or list(stored[:last]) != list(sent[:last]):
        return False
    return stored[last] == sent[last] or (not answered and _grew(stored[last], sent[last]))


def _grew(one: Wire, other: Wire) -> bool:
    """Return whether two user messages differ only by text at the end of one of them."""
    *before, last = one["content"]
    *before_other, last_other = other["content"]
    kind = "content" if last["type"] == "tool_result" else "text"
    texts = sorted((last[kind], last_other.get(kind, "")), key=len)
    return before == before_other and texts[1].startswith(texts[0]) and _id(last) == _id(last_other)


def _id(block: Mapping[str, Any]) -> object:
    return block.get("tool_use_id")


def _check_results(messages: Sequence[Wire], *, has_pending: bool) -> None:
    """Check that each call has exactly one result, in the next message and in call order; a pending reply has none."""
    done = messages[:-1] if has_pending else messages
    for number, message in enumerate(done):
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        behind = messages[number + 1]["content"] if number + 1 < len(messages) else []
        results = [block["tool_use_id"] for block in behind if block["type"] == "tool_result"]
        if message["role"] == "assistant":
            assert calls == results, f"message {number}: calls {calls}, results {results}"


def _check_calls(run: StoredRun, limit: int | None) -> int:
    """Check that the calls of processed turns are stored once and were shown; return how many others are not stored."""
    ids = [row.call.id for row in run.calls]
    assert len(set(ids)) == len(ids), "a call is stored twice"
    shown = _shown(run)
    used = missing = 0
    for turn in run.turns:
        rows = [row for row in run.calls if row.turn == turn.number]
        names = [call.name for call in turn.reply.calls]
        room = 0 if turn.landing or RESPOND in names else len(names) if limit is None else max(limit - used, 0)
        wanted = [call.id for call in turn.reply.calls[:room]]
        found = [row.call.id for row in rows]
        assert found == [one for one in wanted if one in found], f"turn {turn.number}: {found} of {wanted}"
        if run.pending is None or turn.number < run.pending.number:
            if not found and all(_not_begun(run, one) for one in wanted):
                # The run was stopped between a reply and its first call.
                continue
            assert found == wanted, f"turn {turn.number}: {found} of {wanted} is stored"
            for row in rows:
                assert any(text.startswith(row.text) for text in shown[row.call.id]), f"{row.call.id} was not shown"
        else:
            missing += len(wanted) - len(found)
        used += len(wanted)
    return missing


def _not_begun(run: StoredRun, call_id: str) -> bool:
    blocks = [block for part in said(run) for message in part for block in message["content"]]
    return any(block.get("tool_use_id") == call_id and block["content"].startswith(NOT_RUN) for block in blocks)


def _shown(run: StoredRun) -> dict[str, list[str]]:
    shown: dict[str, list[str]] = {row.call.id: [] for row in run.calls}
    for part in said(run):
        for message in part:
            for block in message["content"]:
                if block["type"] == "tool_result" and block["tool_use_id"] in shown:
                    shown[block["tool_use_id"]].append(block["content"])
    return shown


def _check_counters(run: StoredRun, for_notes: Usage) -> None:
    """Check that the stored usage and the stored number of calls match the processed turns."""
    snapshot = run.snapshot
    if snapshot is None:
        assert len(run.turns) <= 1, "more than one turn, and nothing tells where the run stands"
        return
    total = sum((turn.reply.usage for turn in run.turns[: snapshot.turns]), for_notes)
    calls = sum(row.turn <= snapshot.turns for row in run.calls)
    assert snapshot.total.usage == total, f"{snapshot.total.usage} are said to be used, billed were {total}"
    assert snapshot.used["tool_calls"] == calls == snapshot.calls == run.tool_calls
    assert snapshot.turns in {len(run.turns), len(run.turns) - 1}


def check_ended(
    run: StoredRun, asked: Sequence[ReceivedRequest], limit: int | None = None, for_notes: Usage | None = None
) -> StoredRunCheck:
    """Check a run that has its answer, whether or not it was interrupted before."""
    kept = check_stored_run(run, asked, limit, for_notes)
    assert run.status in {"answered", "landed"}, run.status
    assert run.outcome is not None
    assert run.pending is None
    total = sum((turn.reply.usage for turn in run.turns), for_notes or Usage())
    assert Usage(**run.outcome["usage"]) == total, f"the outcome tells {run.outcome['usage']}, billed were {total}"
    assert run.outcome["tool_calls"]["used"] == len(run.calls)
    assert kept.open == 0
    assert run.events[-1].body["event"] in {"finished", *_LATE}
    return kept


_LATE = {"reply", "budget", "tool_call", "landing", "warning"}
"""Events that may be the last one stored, if the process was killed after its outcome was stored."""


def finished(run: StoredRun) -> Counter[str]:
    """Count the calls whose output is stored, by tool and arguments."""
    return Counter(row.call.key for row in run.calls if not (row.repeated or broken_off(row)))


def broken_off(row: Returned) -> bool:
    """Return whether a call was running when its run was stopped or its process was killed."""
    return row.is_error and row.whole.startswith(BROKEN_OFF)


PATIENCE = 60.0
"""Maximum time for which a store may take a dead process for alive [s]."""


def look(store: str, question: str, folder: Path) -> StoredRun | None:
    """Return the run with this question, or None if it is not stored.

    A store in a file is copied first, so that the next process finds it as the previous one left it.
    """
    if (file := file_of(store)) is not None:
        copy = folder / "copy.db"
        for end in ("", "-wal", "-journal"):
            copy.with_name(f"copy.db{end}").unlink(missing_ok=True)
            if (part := file.with_name(f"{file.name}{end}")).exists():
                shutil.copyfile(part, copy.with_name(f"copy.db{end}"))
        if not (copy.exists() and _holds_runs(copy)):
            return None
        store = f"sqlite:///{copy}"
    return stored(store, question)


def stored(store: str, question: str) -> StoredRun | None:
    """Return the run with this question once its process is known to be dead, or None if it is not stored."""
    last = time.monotonic() + PATIENCE
    with Store(store) as opened:
        while True:
            found = [one for one in opened.runs() if one.question == question]
            # A server takes some milliseconds to detect a closed connection.
            if not found or found[0].status != RUNNING:
                return opened.load(found[0].run_id) if found else None
            assert time.monotonic() < last, f"{found[0].run_id} is taken for alive"
            time.sleep(0.005)


def _holds_runs(file: Path) -> bool:
    """Return whether the file holds a run, even if the store is incomplete; check its integrity."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        if not connection.execute("select 1 from sqlite_schema where name = 'runs'").fetchall():
            return False
        return bool(connection.execute("select 1 from runs").fetchall())
