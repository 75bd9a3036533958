"""Loading a run from a store, on both databases."""

import time
from contextlib import closing
from dataclasses import replace

import pytest

from run_specialist.errors import StoreUnusable
from run_specialist.loop.run import Run
from run_specialist.record.journal import Opened
from run_specialist.record.messages import Message, ToolCall
from run_specialist.store.reader import Store
from run_specialist.store.stored import transcript_rows
from run_specialist.store.writer import Writer
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.unit.store.finished_runs import keep, named, run_of
from tests.unit.store.records import (
    begun,
    change,
    checkpointed,
    ended,
    nowhere,
    opened,
    outcome,
    received,
    returned,
)

DAY = 86_400.0


def test_every_field_of_every_record_is_read_back(store_url):
    """Every field of every record is read back, whatever characters it contains."""
    odd = "\udcff \0 é 🦉 " + "long " * 500
    call = ToolCall(odd, odd, None)
    first = Opened(at=1.0, run_id="r1", specialist="looker", model="m", question=odd, frozen={"system": odd, "n": [1]})
    reply = received(1, {"type": "thinking", "thinking": odd, "signature": "s"}, {"type": "text", "text": odd})
    reply = replace(reply, choice="none", landing=True, reply=replace(reply.reply, more_room_helps=False))
    result = replace(returned(1, odd), call=call, characters=7, is_error=True, note=odd, repeated=True)
    said = [Message.user(odd), Message("assistant", reply.reply.content), Message.user("On.").with_instruction(odd)]
    snapshot = checkpointed(1, 0, said)
    keep(store_url, r1=[first, reply, result, snapshot, *ended("r1")])
    with Store(store_url) as store:
        kept = store.load("r1")
    assert (kept.question, kept.frozen, kept.started_at) == (odd, first.frozen, 1.0)
    assert kept.snapshot == snapshot.snapshot
    lists = ("evidence", "gaps", "warnings", "children", "models", "changes")
    empty: dict[str, list[object]] = {key: [] for key in lists}
    assert kept.outcome == outcome("r1").as_json() | empty
    (turn,), (returned_,), (event,) = kept.turns, kept.calls, kept.events
    assert (turn.reply, turn.cost_usd, turn.choice, turn.landing) == (reply.reply, 0.25, "none", True)
    assert (turn.number, turn.at, turn.seconds) == (1, reply.at, 1.5)
    assert (returned_.call, returned_.whole, returned_.text, returned_.note) == (call, odd, odd[:7], odd)
    assert (returned_.number, returned_.turn, returned_.at, returned_.seconds) == (1, 1, result.at, 0.5)
    assert (returned_.is_error, returned_.repeated, returned_.truncated) == (True, True, True)
    assert [one.message.encoded for one in kept.messages] == [one.encoded for one in said]
    assert [(one.part, one.place, one.copied) for one in kept.messages] == [(0, 0, False), (0, 1, False), (0, 2, False)]
    assert kept.transcript == tuple(said)
    assert (event.number, event.body["event"], event.body["outcome"]["answer"]) == (1, "finished", "It is known.")


def test_a_corrupt_row_causes_a_one_line_error(store_url):
    """A corrupt row causes a one-line error that names the run and the store; other runs can be read."""
    keep(store_url, r1=run_of("r1"), r2=run_of("r2"))
    change(store_url, "update runs set frozen = outcome, outcome = substr(question, 1, 1) where run_id = 'r1'")
    with Store(store_url) as store:
        with pytest.raises(StoreUnusable, match=r"^.*the data of r1 cannot be read: [^\n]*$"):
            store.load("r1")
        assert store.load("r2").frozen == {"system": "Look."}
        change(store_url, "drop table events")
        with pytest.raises(StoreUnusable, match=r"^[^\n]*events[^\n]*$") as caught:
            store.load("r2")
        assert str(caught.value).startswith(named(store_url))


def test_the_history_of_a_specialist_lists_its_finished_runs(store_url):
    """The history of a specialist lists its finished runs with their number of calls and of repeated calls."""
    again = [returned(2, repeated=True), returned(3, repeated=True)]
    keep(
        store_url,
        r1=[*run_of("r1", 1.0), *again],
        r2=run_of("r2", 2.0, turns=0),
        r3=begun("r3"),
        r4=run_of("r4", 4.0, specialist="reader"),
    )
    with Store(store_url) as store:
        found = store.past("looker")
        assert [(one.run_id, one.started_at, one.calls, one.repeated) for one in found] == [
            ("r2", 2.0, 0, 0), ("r1", 1.0, 3, 2),
        ]  # fmt: skip
        assert found[0].outcome["answer"] == "It is known."
        assert store.past("nobody") == []


def test_outcomes_are_those_of_the_newest_runs_that_began_from_a_file(store_url, tmp_path):
    """Runs of other files and specialists, and those without an outcome, are left out; a link leads to its file."""
    file, link = tmp_path / "looker.md", tmp_path / "link.md"
    link.symlink_to(file)
    here, elsewhere = {"file": str(file)}, {"file": str(tmp_path / "other.md")}
    keep(
        store_url,
        r1=run_of("r1", 1.0, frozen=here),
        r2=run_of("r2", 2.0, frozen={"file": str(link)}, status="landed"),
        r3=run_of("r3", 3.0, frozen=elsewhere),
        r4=run_of("r4", 4.0, frozen=here, specialist="reader"),
        r5=[opened("r5", frozen=here)],
    )
    with Store(store_url) as store:
        found = [store.outcomes_of_file("looker", link, most) for most in (1, 2, 3)]
    assert [[one["status"] for one in outcomes] for outcomes in found] == [[], ["landed"], ["landed", "answered"]]


@pytest.mark.anyio
async def test_s4_4_every_message_is_in_the_database(store_url):
    """A run with a limit of 3 stores 1 user message, 3 calls with their results and 1 assistant message, in order."""
    script = [calls(("look", {"query": word}), first_id=at) for at, word in enumerate("abc", 1)]
    work = job(ScriptedProvider([*script, says("Owls eat mice.")]), 3, landing="none")
    with closing(Writer(nowhere(store_url))) as writer:
        done = await Run(work, journal=writer.journal(work.run_id)).outcome()
    with Store(store_url) as store:
        kept = store.load("last")
    assert (kept.status, kept.tool_calls) == (done.status, 3) == ("landed", 3)
    rows = transcript_rows(kept)
    pair = ["tool_call", "tool_result"]
    assert [row["kind"] for row in rows] == ["user", *pair, *pair, *pair, "assistant"]
    assert [row["arguments"]["query"] for row in rows if row["kind"] == "tool_call"] == ["a", "b", "c"]
    assert [row["content"] for row in rows if row["kind"] == "tool_result"] == [
        "note on 'a', part 0",
        "note on 'b', part 0\n1 tool call remaining",
        "note on 'c', part 0\n0 tool calls remaining",
    ]
    assert (rows[0]["text"], rows[-1]["text"]) == ("What is known?", "Owls eat mice.")
    assert kept.started_at <= time.time() < kept.started_at + DAY
