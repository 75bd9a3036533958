"""A store that is looked at: what a writer kept comes back, on both databases."""

import asyncio
import os
import time
from contextlib import closing
from dataclasses import replace

import pytest

from run_specialist.errors import RunNotFound, StoreMissing, StoreUnusable, UsageError
from run_specialist.loop.run import Run
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.record.journal import Opened
from run_specialist.record.messages import Message, ToolCall
from run_specialist.store.conversation import transcript_rows
from run_specialist.store.location import file_of
from run_specialist.store.reader import Store
from run_specialist.store.writer import Writer
from tests.loop_jobs import job
from tests.unit.store.records import (
    begun,
    change,
    counts,
    ended,
    nowhere,
    opened,
    outcome,
    received,
    returned,
    stood,
    turn_of,
)

DAY = 86_400.0


def keep(url, **runs):
    """Keep runs by their ids, each a list of records, and end the process that wrote them."""
    with closing(Writer(nowhere(url))) as writer:
        write(writer, **runs)


def write(writer, **runs):
    """Write runs; the process goes on."""
    for run_id, records in runs.items():
        journal = writer.journal(run_id)
        for record in records:
            journal.write(record)
        assert asyncio.run(journal.committed()) is None


def run_of(run_id, at=1_000.0, turns=1, status="answered", **changed):
    """Return the records of a run that is over."""
    worked = [record for turn in range(1, turns + 1) for record in turn_of(turn)]
    *said, last, told = [*begun(run_id), *worked, *ended(run_id)]
    said[0] = replace(opened(run_id, **changed), at=at)
    return [*said, replace(last, at=at + 60, outcome=outcome(run_id, status)), told]


@pytest.fixture
def three(store_url):
    """A store with three runs, of which r2 is the newest."""
    keep(
        store_url,
        r1=run_of("r1", 1_000.0),
        r2=run_of("r2", 3_000.0, turns=2, status="partial", specialist="reader", model="m", question="Why?\nHow?"),
        r3=run_of("r3", 2_000.0),
    )
    with Store(store_url) as store:
        yield store


def ids(found):
    """Return the ids of runs."""
    return [one.run_id for one in found]


def test_a_listing_has_the_newest_first(three):
    """With all that is told of each run."""
    found = three.runs()
    assert ids(found) == ["r2", "r3", "r1"]
    assert found[0] == replace(
        found[1], run_id="r2", specialist="reader", model="m", question="Why?\nHow?", status="partial",
        started_at=3_000.0, ended_at=3_060.0, tool_calls=2, cost_usd=0.5,
    )  # fmt: skip
    assert (found[1].parent_id, found[1].tool_calls, found[1].cost_usd) == (None, 1, 0.25)


def test_a_listing_is_narrowed(three):
    """By beginnings of ids, specialist, status, age and number; what stands beside each other must all be true."""
    assert ids(three.runs(ids=["r1", "r2"])) == ["r2", "r1"]
    assert ids(three.runs(ids=["r"], limit=2)) == ["r2", "r3"]
    assert ids(three.runs(ids=["_1", "%"])) == []
    assert ids(three.runs(specialist="looker")) == ["r3", "r1"]
    assert ids(three.runs(status="answered", limit=1)) == ["r3"]
    assert ids(three.runs(status="failed")) == []
    assert ids(three.runs(before=2_060.0)) == ["r1"]
    assert ids(three.runs(before=2_061.0, specialist="looker", limit=5)) == ["r3", "r1"]
    assert ids(three.runs(limit=0)) == []


def test_a_run_without_an_outcome_is_running_while_its_process_lives_and_then_interrupted(store_url):
    """Both are stored as running; the lock of the process tells."""
    keep(store_url, dead=begun("dead"), dead_too=[replace(opened("dead_too"), at=2.0)], over=run_of("over"))
    with closing(Writer(nowhere(store_url))) as writer, Store(store_url) as store:
        write(writer, alive=begun("alive"))
        told = {one.run_id: (one.status, one.ended_at) for one in store.runs()}
        dead = ("interrupted", None)
        assert told == {"dead": dead, "dead_too": dead, "alive": ("running", None), "over": ("answered", 1_060.0)}
        assert ids(store.runs(status="running", limit=1)) == ["alive"]
        assert ids(store.runs(status="interrupted", limit=1)) == ["dead"]
        assert (store.load("alive").status, store.load("dead").status) == ("running", "interrupted")
        write(writer, alive=[replace(ended("alive")[0], at=5.0)])
    with Store(store_url) as store:
        assert store.find("alive").status == "answered"


def test_a_run_is_found_by_its_id_by_its_beginning_and_as_the_last(store_url):
    """An id that is the beginning of another one means itself; the last one is none that another run started."""
    keep(store_url, r1=run_of("r1", 3.0), r12=run_of("r12", 2.0), x1=run_of("x1", 1.0), child=run_of("child", 4.0))
    change(store_url, "update runs set parent_id = 'r1' where run_id = 'child'")
    with Store(store_url) as store:
        assert [store.find(given).run_id for given in ("r1", "r12", "x", "last", "child")] == [
            "r1", "r12", "x1", "r1", "child",
        ]  # fmt: skip
        assert store.find("child").parent_id == "r1"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("2", "7 runs begin with 2: 27, 26, 25, 24, 23 and 2 more; give more of the id"),
        ("nothing like it", "no run nothing like it is kept in {}; the newest is 27"),
        ("277", "no run 277 is kept in {}; did you mean 27?"),
        ("%", "no run % is kept in {}; the newest is 27"),
        ("\udcff\0", "no run \udcff\0 is kept in {}; the newest is 27"),
    ],
)
def test_an_id_that_fits_none_or_several_is_told_with_those_that_fit_or_are_near(store_url, given, told):
    """In one line."""
    keep(store_url, **{f"2{number}": run_of(f"2{number}", float(number)) for number in range(1, 8)})
    with Store(store_url) as store, pytest.raises(RunNotFound) as caught:
        store.load(given)
    assert str(caught.value) == told.format(named(store_url))


def named(url):
    """Return how a store is called."""
    from run_specialist.store.location import shown

    return shown(url)


def test_in_an_empty_store_no_run_is_the_last(store_url):
    """That is said, and no id is made up."""
    keep(store_url)
    with closing(Writer(nowhere(store_url))) as writer:
        writer.check()
    with Store(store_url) as store, pytest.raises(RunNotFound, match=r"^no run is kept in .* yet$"):
        store.find("last")


def test_a_store_that_is_not_there_is_missing(store_url):
    """And who only looks makes none."""
    for _ in range(2):
        with pytest.raises(StoreMissing, match=r"^there is no store at .* yet; a run makes it$"):
            Store(store_url)


def test_all_that_was_written_comes_back(store_url):
    """Every field of every record, whatever characters are in it."""
    odd = "\udcff \0 é 🦉 " + "long " * 500
    call = ToolCall(odd, odd, None)
    first = Opened(at=1.0, run_id="r1", specialist="looker", model="m", question=odd, frozen={"system": odd, "n": [1]})
    reply = received(1, {"type": "thinking", "thinking": odd, "signature": "s"}, {"type": "text", "text": odd})
    reply = replace(reply, choice="none", landing=True, reply=replace(reply.reply, more_room_helps=False))
    result = replace(returned(1, odd), call=call, characters=7, is_error=True, note=odd, repeated=True)
    said = [Message.user(odd), Message("assistant", reply.reply.content), Message.user("On.").with_instruction(odd)]
    standing = stood(1, 0, said)
    keep(store_url, r1=[first, reply, result, standing, *ended("r1")])
    with Store(store_url) as store:
        kept = store.load("r1")
    assert (kept.question, kept.frozen, kept.started_at) == (odd, first.frozen, 1.0)
    assert kept.standing == standing.standing
    assert kept.outcome == outcome("r1").as_json() | {"evidence": [], "gaps": [], "warnings": [], "children": []}
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


def test_a_run_that_has_only_begun_has_no_standing_and_no_outcome(store_url):
    """Nor anything else."""
    keep(store_url, r1=[opened("r1")])
    with Store(store_url) as store:
        kept = store.load("r1")
    assert (kept.standing, kept.outcome, kept.ended_at) == (None, None, None)
    assert (kept.turns, kept.calls, kept.messages, kept.events) == ((), (), (), ())


def test_messages_come_in_order_and_the_calls_of_one_run_alone(store_url):
    """Parts one after the other, and of another run nothing."""
    later = stood(3, 0, [Message.user("Short."), Message.user("New.")], part=1, copies=1)
    keep(store_url, r1=[*run_of("r1", turns=11)[:-2], later], r2=run_of("r2", turns=2))
    with Store(store_url) as store:
        kept = store.load("r1")
    assert [call.number for call in kept.calls] == [turn.number for turn in kept.turns] == [*range(1, 12)]
    assert [(one.part, one.place) for one in kept.messages] == [*((0, at) for at in range(23)), (1, 0), (1, 1)]
    assert [one.copied for one in kept.messages][-3:] == [False, True, False]
    assert [event.number for event in kept.events] == [*range(1, 23)]


def test_what_cannot_be_read_is_one_line(store_url):
    """A row that was spoiled names its run and the store; the other runs are read."""
    keep(store_url, r1=run_of("r1"), r2=run_of("r2"))
    change(store_url, "update runs set frozen = outcome, outcome = substr(question, 1, 1) where run_id = 'r1'")
    with Store(store_url) as store:
        with pytest.raises(StoreUnusable, match=r"^.*what is kept of r1 cannot be read: [^\n]*$"):
            store.load("r1")
        assert store.load("r2").frozen == {"system": "Look."}
        change(store_url, "drop table events")
        with pytest.raises(StoreUnusable, match=r"^[^\n]*events[^\n]*$") as caught:
            store.load("r2")
        assert str(caught.value).startswith(named(store_url))


def test_the_past_of_a_specialist_are_its_runs_that_are_over(store_url):
    """With how many calls were made, and how many of them repeated another."""
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


def test_deleting_takes_all_that_was_kept_of_a_run_and_nothing_of_another(store_url):
    """Ids are whole ones here; one that is not there is passed over."""
    keep(store_url, r1=run_of("r1"), r12=run_of("r12"), r2=begun("r2"))
    before = counts(store_url, "r12")
    with Store(store_url) as store:
        store.delete(["r1", "r2", "other"])
        assert ids(store.runs()) == ["r12"]
    assert counts(store_url) == counts(store_url, "r12") == before
    assert min(before.values()) > 0


def test_deleting_gives_the_room_back(tmp_path):
    """Of an SQLite file, and says how much; a small run that stays costs little."""
    url = f"sqlite:///{tmp_path}/runs.db"
    noise = [turn for number in range(1, 30) for turn in turn_of(number, os.urandom(20_000).hex())]
    keep(url, r1=[*begun("r1"), *noise], r2=run_of("r2"))
    path = file_of(url)
    with Store(url) as store:
        before = store.size
        assert before >= path.stat().st_size > 500_000
        freed = store.delete(["r1"])
        assert freed == before - store.size
        assert path.stat().st_size < 200_000
        assert store.load("r2").outcome is not None


def test_a_run_at_work_is_not_deleted_nor_any_other_with_it(store_url):
    """The line says which and whose; when its process has died, it can be."""
    keep(store_url, dead=begun("dead"))
    writer = Writer(nowhere(store_url))
    with Store(store_url) as store:
        with closing(writer):
            write(writer, alive=begun("alive"), done=run_of("done"))
            before = counts(store_url)
            with pytest.raises(UsageError, match=r"^alive is still at work: .*; stop it first; nothing was deleted$"):
                store.delete(["dead", "alive"])
            assert counts(store_url) == before
            # What a living process has ended may go.
            store.delete(["done", "dead"])
        assert ids(store.runs()) == ["alive"]
        store.delete(["alive"])
    assert set(counts(store_url).values()) == {0}


def test_the_size_grows_with_what_is_kept(store_url):
    """Counted in bytes on both databases."""
    keep(store_url, r1=run_of("r1"))
    with Store(store_url) as store:
        before = store.size
        keep(store_url, r2=[*begun("r2"), *turn_of(1, os.urandom(100_000).hex())])
        assert store.size > before + 100_000 > 100_000


@pytest.mark.anyio
async def test_s4_4_every_message_is_in_the_database(store_url):
    """A plain tool loop at a limit of 3: 1 user, 3 calls with their results, 1 assistant, in order."""
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
