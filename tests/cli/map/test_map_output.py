"""What programs read of `map`: the summary, the events, and rows in a closed pipe or on a full disk."""

import json
import os
from pathlib import Path

import pytest

from run_specialist.store import ledger
from run_specialist.store.reader import Store
from tests.cli.map.map_model import about, answer
from tests.cli.specialists_command import call, program
from tests.contracts.tables import BATCH_EVENTS, EVENTS, PRINTED, faults
from tests.wire.simulator.faults import ApiError

BAD = ApiError(400, "invalid_request_error", "messages: this item cannot be read")
QUESTION = ("--question", "What about {item}?")


def test_the_summary_is_one_object_that_matches_its_table(api, items, map_):
    """Counts by state and reason, cost, time, and where the rows are."""
    api(about({"toads": BAD}))
    result = map_(str(items(["owls", "toads"])), "--json", "--out", "answers.jsonl")
    summary = json.loads(result.stdout)
    assert list(faults(summary, PRINTED["specialists map"])) == []
    assert (summary["items"], summary["counts"]["answered"]) == (2, 1)
    assert summary["counts"]["failed"] == {"invalid_request": 1}
    assert (summary["out"], summary["reduced"], summary["ended_because"]) == ("answers.jsonl", None, None)
    assert summary["cost_usd"] > 0


def test_a_plan_matches_its_table(api, items, map_):
    """`--dry-run --json` without and with past runs."""
    api(about())
    path = str(items(["owls"]))
    for _ in range(2):
        plan = json.loads(map_(path, "--dry-run", "--json").stdout)
        assert list(faults(plan, PRINTED["specialists map --dry-run"])) == []
        map_(path)


def test_events_of_the_batch_and_of_its_runs(api, items, map_):
    """Each line is an event; those of the runs name their item; nothing else is printed."""
    api(about({"toads": BAD}))
    result = map_(str(items(["owls", "toads"])), "--events")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    wrong = []
    for event in events:
        shape = (BATCH_EVENTS | EVENTS)[event["event"]]
        item = {"item": "count"} if event["event"] in EVENTS else {}
        wrong += faults(event, {"event": event["event"], **item, **shape})
    assert wrong == []
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("batch_started", "batch_ended")
    assert names.count("item_started") == names.count("item_ended") == names.count("finished") == 2
    assert {event["item"] for event in events if "item" in event} == {1, 2}
    assert events[-1]["counts"]["done"] == 2


def test_the_tables_have_every_event_of_a_batch():
    """The names of the events are those of the code."""
    from run_specialist.batch.item import BatchEvent

    assert {one.event for one in BatchEvent.__subclasses__()} == set(BATCH_EVENTS)


def test_another_specialist_brings_the_answers_together(api, items, map_, write, store):
    """It reads the answers as files; its answer follows the rows, as JSON; the same ones are not paid for twice."""
    write("reducer", "model: haiku", "paths: [notes/]")
    seen = []

    def model(request):
        text = str(request.messages)
        if "one file for each item" in text:
            seen.append(text)
            return answer("all of them")
        return about()(request)

    simulator = api(model)
    path = str(items(["owls", "toads"]))
    result = map_(path, "--reduce", "reducer", "--json")
    reduced = json.loads(result.stdout)["reduced"]
    assert (result.exit_code, reduced["specialist"], reduced["answer"]) == (0, "reducer", "all of them")
    assert "The folder contains 2 answers of the specialist `finder`" in seen[0]
    assert "What about {item}?" in seen[0]
    with Store(f"sqlite:///{store}") as opened:
        assert Path(opened.load(reduced["run_id"]).frozen["root"], "index.md").exists()
    sent = len(simulator.requests)
    again = map_(path, "--reduce", "reducer", "--out", "answers.jsonl")
    assert (again.exit_code, again.stdout, len(simulator.requests)) == (0, "all of them\n", sent)
    *rows, last = map(json.loads, map_(path, "--reduce", "reducer").stdout.splitlines())
    assert (sorted(row["number"] for row in rows), last) == ([1, 2], {"reduced": reduced})
    assert len(simulator.requests) == sent


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(finder, items):
    """The exit code is 2, and there is no traceback; the runs are stored."""
    with Path("/dev/full").open("w") as full:
        done = program("map", "finder", str(items(["Owls?"])), "--model", "offline", stdout=full)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_closes_the_pipe_causes_no_error(finder, items):
    """As with `| head -0`: exit code 0, and nothing about it on standard error."""
    ours, theirs = os.pipe()
    os.close(ours)
    done = program("map", "finder", str(items(["Owls?"])), "--model", "offline", "--quiet", stdout=theirs)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_control_characters_of_items_and_errors_stay_text(api, items, finder):
    """Neither the lines on standard error nor the rows can control a terminal."""
    api(lambda _: ApiError(400, "invalid_request_error", "no \x1b[2J such thing"))
    result = call("map", "finder", str(items(["owls\x1b]0;x\x07"])), *QUESTION)
    assert result.exit_code == 4
    assert not {"\x1b", "\x07"} & set(result.stdout + result.stderr)


@pytest.mark.exhaustive
def test_rows_of_a_full_disk_are_used_again(api, map_, items, notes, monkeypatch, store):
    """Runs that the store has no room for are counted, with exit code 2; the same command pays for none again."""
    served = api(about(looks=2))
    given = str(items([f"owls{number}" for number in range(12)]))
    whole = ledger.open_session

    def full(url):
        session = whole(url)
        session.raw.execute("pragma max_page_count = 60")
        return session

    with monkeypatch.context() as small:
        small.setattr(ledger, "open_session", full)
        first = map_(given, "--out", "answers.jsonl", "--json")
    summary, rows = json.loads(first.stdout), (notes / "answers.jsonl").read_text()
    assert (first.exit_code, summary["counts"]["answered"]) == (2, 12)
    assert 0 < summary["not_stored"] <= 12
    assert f"{summary['not_stored']} runs are not stored: free disk space" in first.stderr
    assert "their answers are in answers.jsonl, and are used from there" in first.stderr
    paid = len(served.requests)
    again = map_(given, "--out", "answers.jsonl", "--json")
    assert (again.exit_code, len(served.requests) - paid) == (0, 0), again.stderr
    assert (json.loads(again.stdout)["earlier"], json.loads(again.stdout)["not_stored"]) == (12, 0)
    assert sorted((notes / "answers.jsonl").read_text().splitlines()) == sorted(rows.splitlines())
    assert store.is_file()
