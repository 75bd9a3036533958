"""Records become rows, and no content of a run can prevent its storage; transcripts, changes, forks and permissions."""

import json
import math
import stat
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.loop.compaction import summary_pair
from run_specialist.record.events import Finished
from run_specialist.record.journal import Ended, EventLogged, FileChanging, Received, Returned, RunSnapshot
from run_specialist.record.messages import Message, Reply, Stop, ToolCall, ToolResult, Usage
from run_specialist.store import rows as from_rows
from run_specialist.store.location import Location
from run_specialist.store.reader import Store
from run_specialist.store.rows import LARGEST, Rows, json_text, row, rows_of
from run_specialist.store.selection import Selection
from run_specialist.store.stored import StoredMessage, transcript_rows
from run_specialist.store.writer import Writer
from tests.journals import load
from tests.loop.replies import ANSWER, THREE
from tests.stored_runs import StoredRunHarness
from tests.unit.store import records
from tests.unit.store.records import begun, opened, unpacked, write


def body_of(row):
    """Return the record in a row."""
    return json.loads(unpacked(row["body"]))


class Unspeakable:
    """Raises when it is converted to text."""

    def __str__(self) -> str:
        """Raise an error."""
        raise RuntimeError("no words")


def cycle():
    """Return a value that contains itself."""
    value = {"a": 1}
    value["self"] = value
    return value


def nested(depth):
    """Return nested lists."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({1, 2}, "[1,2]"),
        (b"\xff", "\"b'\\\\xff'\""),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({"x": Unspeakable()}, '{"x":"Unspeakable"}'),
        ({(1, 2): "x"}, '{"[1, 2]":"x"}'),
        ({"n": 10**5_000, "m": 1}, '"m":1'),
        (cycle(), '{"a":1,"self"'),
        (nested(100_000), "[[["),
        (math.nan, "NaN"),
        (Usage(1), '{"input_tokens":1'),
        ("\0\ud800", '"\\u0000\ud800"'),
    ],
)
def test_a_value_that_is_no_json_is_stored(value, kept):
    """A value that is no JSON, returned by a tool or server, does not prevent storage."""
    written = json_text(value)
    assert kept in written
    json.loads(written)


@pytest.mark.parametrize(
    ("said", "kept"), [(10**30, LARGEST), (-1, 0), (2.7, 2), (math.nan, 0), (math.inf, LARGEST), (None, 0), ("many", 0)]
)
def test_impossible_numbers_are_clamped(said, kept):
    """Impossible numbers are clamped to what the column accepts."""
    assert row("runs", tool_calls=said)["tool_calls"] == kept


def test_the_outcome_is_stored_as_printed():
    """The outcome is stored as it is printed, with its error and its exit code; in the last event, as it is printed."""
    outcome = records.outcome("run-1")
    rows = rows_of("run-1", "me", [Ended(outcome=outcome), EventLogged(event=Finished(outcome))], event=1)
    assert rows.ending
    assert rows.ending["status"] == "answered"
    stored = {**outcome.as_json(), "error": outcome.error, "exit_code": outcome.exit_code}
    assert json.loads(unpacked(rows.ending["outcome"])) == json.loads(json.dumps(stored))
    printed = json.loads(json.dumps(outcome.as_json()))
    assert body_of(rows.added["events"][0])["outcome"] == printed
    assert from_rows.outcome(unpacked(rows.ending["outcome"])) == printed


def written(kept: dict, rows: Rows) -> dict:
    """Return the stored messages by part and place after a transaction."""
    for part, (begin, messages) in rows.tails.items():
        kept = {key: body for key, body in kept.items() if key[0] != part or key[1] < begin}
        kept |= {(part, row["place"]): row["body"] for row in messages}
    return kept


STOOD = st.builds(
    lambda part, place, texts: records.checkpointed(1, place, [Message.user(each) for each in texts], part=part),
    st.integers(0, 1),
    st.integers(0, 4),
    st.lists(st.sampled_from("abc"), max_size=4),
)


@given(st.lists(STOOD, max_size=6))
def test_one_transaction_gives_the_same_rows_as_many(stands):
    """One transaction for many records gives the same rows as one for each."""
    before = {(part, place): "old" for part in (0, 1) for place in range(6)}
    one_by_one = before
    for stand in stands:
        one_by_one = written(one_by_one, rows_of("run-1", "me", [stand], event=1))
    assert written(before, rows_of("run-1", "me", stands, event=1)) == one_by_one


QUESTION = Message.user("What is known?")


def kept(*messages, part=0, copies=0):
    """Return stored messages, the first `copies` of which were copied by a summary."""
    return [StoredMessage(part, at, at < copies, message) for at, message in enumerate(messages)]


def run(messages, *, turns=(), calls=(), acted_on=0):
    """Return a stored run.

    acted_on: Number of turns whose replies were processed.
    """
    rows = {"turns": tuple(turns), "calls": tuple(calls), "messages": tuple(messages)}
    return replace(records.stored("run-1"), frozen={}, snapshot=RunSnapshot({"turns": acted_on}), **rows)


def call(number, name="look"):
    """Return the block of a tool call."""
    return {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {"number": number}}


def said(*blocks):
    """Return an assistant message."""
    return Message("assistant", blocks)


def text(words):
    """Return a text block."""
    return {"type": "text", "text": words}


def answered(*numbers, words=None):
    """Return the message with the results of some calls."""
    return Message.results([ToolResult(f"call_{number}", f"result {number}") for number in numbers]).with_instruction(
        words
    )


def short(rows):
    """Return the kind and the text of each row."""
    return [(row["kind"], row.get("text", row.get("content", row.get("id")))) for row in rows]


def test_a_summary_is_shown_once_where_it_was_made():
    """A summary is shown once, where it was made; messages it kept are not repeated.

    The same holds for a second one.
    """
    first = kept(QUESTION, said(call(1)), answered(1), said(call(2)), answered(2))
    pair = summary_pair("One is known.", 1, [])
    second = kept(QUESTION, *pair, said(call(2)), answered(2), said(call(3)), answered(3), part=1, copies=5)
    again = summary_pair("One and two are known.", 1, pair)
    third = kept(QUESTION, *again, said(call(3)), answered(3), said(text("Three.")), part=2, copies=5)
    assert short(transcript_rows(run(first + second + third)))[1:] == [
        ("tool_call", "call_1"),
        ("tool_result", "result 1"),
        ("tool_call", "call_2"),
        ("tool_result", "result 2"),
        ("summary", "One is known."),
        ("tool_call", "call_3"),
        ("tool_result", "result 3"),
        ("summary", "One and two are known."),
        ("assistant", "Three."),
    ]


def test_text_appended_to_a_result_after_a_summary_is_kept():
    """A text appended to a result after a summary is not lost: the result is shown with it, once."""
    first = kept(QUESTION, said(call(1)), answered(1), said(call(2)), answered(2))
    copies = (QUESTION, *summary_pair("One is known.", 1, []), said(call(2)), answered(2, words="Enough."))
    second = kept(*copies, said(text("Two.")), part=1, copies=5)
    assert short(transcript_rows(run(first + second)))[-3:] == [
        ("tool_result", "result 2\nEnough."),
        ("summary", "One is known."),
        ("assistant", "Two."),
    ]


def test_an_interrupted_reply_is_shown_with_its_results():
    """A reply whose calls were interrupted is shown with the results that exist: here two of three."""
    reply = Reply(Stop.WANTS_TOOLS, (text("On I go."), call(2), call(3), call(4)))
    turn = Received(2, "auto", False, reply, 0.0, 0.0)
    done = [
        Returned(at, of_turn, ToolCall(f"call_{at}", "look", {}), f"result {at} whole", size, at == 3, note, False, 0.0)
        for at, of_turn, size, note in ((1, 1, 99, ""), (2, 2, 8, "[cut]"), (3, 2, 99, ""))
    ]
    earlier = kept(QUESTION, said(call(1)), answered(1))
    cut_off = run(earlier, turns=[turn], calls=done, acted_on=1)
    rows = transcript_rows(cut_off)
    assert short(rows)[3:] == [
        ("assistant", "On I go."),
        ("tool_call", "call_2"),
        ("tool_call", "call_3"),
        ("tool_call", "call_4"),
        ("tool_result", "result 2\n[cut]"),
        ("tool_result", "result 3 whole"),
    ]
    assert [(row["name"], row["is_error"]) for row in rows[-2:]] == [("look", False), ("look", True)]
    acted_on = replace(cut_off, snapshot=RunSnapshot({"turns": 2}))
    assert short(transcript_rows(acted_on)) == short(rows)[:3]


def changing(name, at, *, before="ä\r\n\0"):
    """Return the record of a change."""
    old = None if before is None else "old"
    return FileChanging(f"id-{name}", f"{name}.md", old, "new", before, f".{name}.tmp", 2, at=at)


async def test_changes_are_read_with_those_of_children_oldest_first(store_url, make_writer):
    """Each with its root and its content; sent again, it is stored once; it is deleted with its run."""
    last, first, between = changing("c", 3.0), changing("a", 1.0, before=None), changing("b", 2.0)
    with closing(make_writer(store_url)) as writer:
        parent, child = writer.journal("parent"), writer.journal("child")
        for record in (opened("parent", frozen={"root": "/p"}), first, first, last):
            parent.write(record)
        for record in (opened("child", frozen={"root": "/p"}, parent_id="parent"), between):
            child.write(record)
        assert await parent.has_stored()
        assert await child.has_stored()
    with Store(store_url) as store:
        found = store.changes("parent")
        assert [(one.run_id, one.root) for one in found] == [("parent", "/p"), ("child", "/p"), ("parent", "/p")]
        assert [one.change for one in found] == [first, between, last]
        assert [one.change for one in store.changes("child")] == [between]


async def test_a_journal_says_whether_it_has_stored_a_record(make_writer, tmp_path):
    """Not in a store that cannot be written; the reason stays for the run, which warns once."""
    (tmp_path / "folder").mkdir()
    with closing(make_writer(f"sqlite:///{tmp_path}/folder")) as writer:
        journal = writer.journal("run")
        for record in (opened("run"), changing("a", 1.0)):
            journal.write(record)
        assert not await journal.has_stored()
        assert not await journal.has_stored()
        assert "this run is not stored" in await journal.committed()
        assert await journal.committed() is None


async def test_f_5_a_fork_is_committed_in_one_transaction(store_url, tmp_path):
    """Before its first request a fork has its turns, calls and messages; listings name the run that it is from."""
    desk = StoredRunHarness(tmp_path, store=store_url)
    first = await desk.ask(*THREE, ANSWER)
    source = load(store_url, first.outcome.run_id)
    async with desk.process() as runner:
        run = await runner.fork(source.run_id, at=2)
        prepared = load(store_url, run.run_id)
    assert prepared.turns == source.turns[:2]
    assert prepared.calls == source.calls[:2]
    assert [one.message.encoded for one in prepared.messages] == [one.message.encoded for one in source.messages[:5]]
    with Store(store_url) as store:
        assert store.forks(source) == [run.run_id]
        assert store.forks(prepared) == []
        listed = {one.run_id: (one.forked_from, one.forked_at) for one in store.trees(Selection(), 5)}
    assert listed == {run.run_id: (source.run_id, 2), source.run_id: (None, None)}


def modes(folder):
    """Return the permissions of a folder and of all files in it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


@pytest.fixture
async def wide(tmp_path):
    """Create a store that everybody can read, and leave its WAL behind as a killed process does."""
    folder = tmp_path / "run-specialist"
    writer = Writer(Location(f"sqlite:///{folder}/runs.db", named=True))
    assert await write(writer.journal("run-0"), *begun("run-0")) is None
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    writer.close()


@pytest.mark.parametrize("named", [False, True])
async def test_only_the_permissions_of_the_default_store_are_narrowed(wide, named):
    """Permissions of the default store are narrowed; those of an explicitly named one are kept, as it may be shared."""
    assert {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db.owners"} <= set(modes(wide))
    writer = Writer(Location(f"sqlite:///{wide}/runs.db", named=named))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    found = modes(wide)
    writer.close()
    folder, file = (0o755, 0o644) if named else (0o700, 0o600)
    assert {found.pop("run-specialist"), found.pop("runs.db.owners")} == {folder}
    assert set(found.values()) == {file}


async def test_narrowing_adds_no_permissions(wide):
    """Narrowing does not add permissions: a file made read-only on purpose does not become writable."""
    extra = wide / "runs.db-journal"
    extra.touch()
    extra.chmod(0o444)
    writer = Writer(Location(f"sqlite:///{wide}/runs.db", named=False))
    writer.journal("run-1")
    writer.close()
    assert stat.S_IMODE(extra.stat().st_mode) == 0o400


async def test_the_target_of_a_symlink_keeps_its_permissions(wide, tmp_path):
    """The permissions of a symlink's target are not changed: the user who made the link decides about them."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "runs.db").symlink_to(wide / "runs.db")
    before = modes(wide)
    writer = Writer(Location(f"sqlite:///{away}/runs.db", named=False))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    after = modes(wide)
    writer.close()
    assert {name: after[name] for name in ("run-specialist", "runs.db")} == {
        name: before[name] for name in ("run-specialist", "runs.db")
    }


async def test_a_shared_folder_keeps_its_permissions(wide, tmp_path):
    """A folder that holds more than the store, such as the home directory or `/dev`, keeps its permissions."""
    shared = wide.rename(tmp_path / "shared")
    writer = Writer(Location(f"sqlite:///{shared}/runs.db", named=False))
    assert await write(writer.journal("run-1"), *begun("run-1")) is None
    found = modes(shared)
    writer.close()
    assert (found["shared"], found["runs.db"]) == (0o755, 0o600)
