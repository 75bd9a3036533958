"""The live view of `map`, what programs read of it, and the command as a process through signals and kills."""

import io
import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from run_specialist.batch.item import Counts, ItemStarted
from run_specialist.batch.limits import Pause
from run_specialist.cli import map_progress
from run_specialist.cli.map_progress import MapProgress, MapView
from run_specialist.record.events import Called, Replied, Requested
from run_specialist.record.messages import Usage
from run_specialist.store import ledger
from run_specialist.store.reader import Store
from tests.cli.map.map_model import about, answer, item_of, items_of
from tests.cli.specialists_command import MAIN, call, program
from tests.contracts.tables import BATCH_EVENTS, EVENTS, PRINTED, faults
from tests.loop_jobs import Clock
from tests.map_batches import LookedAt, done
from tests.plugins.tiers import examples
from tests.screen import run_on_terminal, screen
from tests.wire.simulator import Gate
from tests.wire.simulator.faults import ApiError
from tests.wire.simulator.replies import calls, respond, says

COUNTS = Counts(answered=30, landed=4, partial=1, failed={"rate_limited": 2}, under_way=2, total=112)


@pytest.fixture
def clock():
    """Return the clock of the progress."""
    return Clock()


def progress_of(clock, items=2, batch=None):
    """Return the progress of a batch in which some items have ended in a minute, and some are under way."""
    progress = MapProgress(batch or LookedAt(COUNTS), clock=clock)
    for number in range(1, 9):
        clock.now += 7.5
        progress.end(done(number, cost=0.03))
    for number in range(38, 38 + items):
        progress.hear_batch(ItemStarted(number, f"run-{number}"))
    return progress


def drawn(view, width=80, height=24):
    """Return the lines of the view."""
    paper = io.StringIO()
    view.console = Console(file=paper, width=width, height=height, highlight=False)
    view.console.print(view.render())
    return paper.getvalue().splitlines()


def test_the_view_has_counts_cost_time_a_pause_and_the_newest_items(clock, monkeypatch):
    """How many items are done, what each does, the seconds of a pause; an unknown number has no bar and no end."""
    progress = progress_of(clock)
    progress.hear(39, Requested(1, "auto"))
    progress.hear(38, Called("started", "c", "read", {"path": "docs/a.md"}))
    progress.hear(38, Replied(1, "wants_tools", "", "", Usage(5, 0, 0, 0), 0.01))
    head, counts, figures, *items = drawn(MapView(progress), 100)
    assert "37 of 112 items · 2 under way ━━━" in head
    assert counts == "  30 answered · 4 landed · 1 partial · 2 failed (2 rate limited)"
    assert figures == "  $0.25 of about $2.49 · 9m 22s left · 1m 00s"
    assert items == ["    38  docs/limits-38.md  read docs/a.md", "    39  docs/limits-39.md  thinking"]
    monkeypatch.setattr(map_progress.time, "time", lambda: 1_000.0)
    batch = LookedAt(COUNTS, paused=Pause("quota", "the quota is used up\x1b[2J", 1_025.0))
    view = MapView(progress_of(clock, batch=batch))
    assert drawn(view)[3] == "  paused, next try in 25 s: the quota is used up\ufffd[2J"
    batch.paused = Pause("quota", "the quota is used up", 999.0)
    assert drawn(view)[3] == "  paused, trying again: the quota is used up"
    lines = drawn(MapView(progress_of(clock, batch=LookedAt(Counts(answered=8)))))
    assert ("8 items · 2 under way" in lines[0], "━" in lines[0]) == (True, False)
    assert not {"left", "about"} & set(lines[2].split())


@settings(max_examples=examples(20))
@given(
    st.builds(
        Counts,
        answered=st.integers(0, 10**7),
        failed=st.dictionaries(st.sampled_from(["quota", "rate_limited", "usage"]), st.integers(1, 10**6)),
        not_run=st.integers(0, 10**7),
        total=st.none() | st.integers(0, 10**8),
    ),
    st.text(max_size=60),
    st.integers(0, 12),
    st.integers(12, 220),
    st.integers(3, 60),
)
@example(Counts(total=100_000), "", 0, 12, 3)
def test_the_lines_fit_any_terminal(counts, reason, items, width, height):
    """No line is wider than the terminal, and together they are not higher, whatever the figures and texts."""
    clock = Clock()
    progress = progress_of(clock, items, LookedAt(counts, paused=Pause("quota", reason, 0.0)))
    for number in progress.running:
        progress.hear(number, Called("started", "c", "read", {"path": reason}))
    view = MapView(progress)
    lines = drawn(view, width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < height


def printed(view, *items, width=80):
    """Return what the view prints above itself when items end."""
    paper = io.StringIO()
    view.console = Console(file=paper, width=width, highlight=False)
    for one in items:
        view.end(one)
    return [line.rstrip() for line in paper.getvalue().splitlines()]


ENDS = (
    done(1, answer="Owls eat mice,\nat night.\x1b[2J"),
    done(2, "failed", answer="[No finished answer]", error="the API answered 400: no such thing", cost=None),
    done(3, is_earlier=True),
)


def test_items_without_an_answer_get_a_line(clock):
    """With a file only failures are shown, with their reason; without one also the beginning of each answer, cut."""
    assert printed(MapView(MapProgress(LookedAt(COUNTS), clock=clock)), *ENDS, width=100) == [
        "2 docs/2.md · failed: the API answered 400: no such thing · 5 tool calls · 12 s"
    ]
    assert printed(MapView(MapProgress(LookedAt(COUNTS), clock=clock), answers=True), *ENDS, width=36) == [
        "1 docs/1.md · answered · 5 tool cal…",
        "    Owls eat mice, at night.\ufffd[2J",
        "2 docs/2.md · failed: the API",
        "answered 400: no such thing · 5 tool",
        "calls · 12 s",
    ]


BAD = ApiError(400, "invalid_request_error", "messages: this item cannot be read")
QUESTION = ("--question", "What about {item}?")


def test_plan_summary_and_events_match_their_tables(api, items, map_):
    """Counts by state and reason, cost, time, and where the rows are; events of the runs name their item."""
    from run_specialist.batch.item import BatchEvent

    assert {one.event for one in BatchEvent.__subclasses__()} == set(BATCH_EVENTS)
    api(about({"toads": BAD}))
    path = str(items(["owls", "toads"]))
    for again in (False, True):
        plan = json.loads(map_(path, "--dry-run", "--json").stdout)
        assert list(faults(plan, PRINTED["specialists map --dry-run"])) == []
        summary = json.loads(map_(path, "--json", "--out", "answers.jsonl").stdout)
        assert list(faults(summary, PRINTED["specialists map"])) == []
        assert (summary["items"], summary["counts"]["answered"]) == (2, 1)
        assert summary["counts"]["failed"] == {"invalid_request": 1}
        assert (summary["out"], summary["reduced"], summary["ended_because"]) == ("answers.jsonl", None, None)
        assert again or summary["cost_usd"] > 0
    result = map_(path, "--events", "--batch", "another")
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


@pytest.mark.exhaustive
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
    # A question of one's own is another run, which begins with it.
    map_(path, "--reduce", "reducer", "--reduce-question", "Which is larger?", "--out", "answers.jsonl")
    assert len(simulator.requests) == sent + 1
    assert "Which is larger?\\n\\nThe folder contains 2 answers" in seen[-1]
    assert "Bring the answers together" not in seen[-1]
    # So is another specialist.
    other = json.loads(map_(path, "--reduce", str(write("other", "model: haiku")), "--json").stdout)["reduced"]
    assert (other["specialist"], len(simulator.requests)) == ("other", sent + 2)
    for flags in (("--reduce", "Which is larger?"), ("--reduce-question", "Which?")):
        refused = map_(path, *flags)
        assert (refused.exit_code, refused.stderr.count("\n"), "--reduce-question" in refused.stderr) == (2, 1, True)


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_and_a_closed_pipe_none(finder, items):
    """The exit code is 2, and there is no traceback; as with `| head -0` it is 0, and nothing is said."""
    words = ("map", "finder", str(items(["Owls?"])), "--model", "offline")
    with Path("/dev/full").open("w") as full:
        done = program(*words, stdout=full)
    assert done.returncode == 2
    assert ("No space left on device" in done.stderr, "Traceback" in done.stderr) == (True, False)
    ours, theirs = os.pipe()
    os.close(ours)
    done = program(*words, "--quiet", stdout=theirs)
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


PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""


@pytest.fixture
def command(program, finder):
    """Return a function that starts the command."""

    def start(*arguments, **options):
        return program("map", "finder", *arguments, *QUESTION, code=MAIN, **options)

    return start


def wait_for(text, process):
    """Read the lines of standard error until one contains a text."""
    said = process.stderr.readline()
    while text not in said:
        assert said, f"{text!r} was never said"
        said = process.stderr.readline()


class Held:
    """A model that looks once and holds back the second reply of some items until a gate opens."""

    def __init__(self, *held):
        self.gate = Gate()
        self._held = held

    def __call__(self, request):
        """Return the next reply."""
        item = item_of(request)
        if not request.calls_so_far:
            return calls("search", {"query": item})
        if item in self._held and not self.gate.opened.is_set():
            return says(respond(f"all about {item}"), gate=self.gate)
        return answer(f"all about {item}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
@pytest.mark.parametrize("twice", [False, True])
def test_a_signal_finishes_the_turns_under_way_and_a_second_one_stops(api, items, command, map_, number, twice):
    """The reply under way is stored and counted, or with a second Ctrl-C not waited for; the same call continues."""
    model = Held("owls")
    simulator = api(model)
    path = str(items(["owls", "toads"]))
    process = command(path, "--at-once", "1", "--json")
    model.gate.wait_for_request(PATIENCE)
    process.send_signal(number)
    wait_for("finishing 1 turn; Ctrl-C again to stop immediately", process)
    if twice:
        process.send_signal(signal.SIGINT)
    else:
        model.gate.open()
    out, err = process.communicate(timeout=PATIENCE)
    model.gate.open()
    counts = json.loads(out)["counts"]
    assert (process.returncode, "Traceback" in err, counts["not_run"]) == (130, False, 1)
    assert counts["aborted" if twice else "answered"] == 1
    assert "to continue: specialists map finder" in err
    before = len(simulator.requests)
    again = map_(path, "--json")
    assert (again.exit_code, json.loads(again.stdout)["counts"]["answered"]) == (0, 2)
    # The search about owls is not repeated.
    assert items_of(simulator.requests[before:]) == ["owls"] * twice + ["toads"] * 2


@pytest.mark.exhaustive
def test_after_a_kill_the_same_call_pays_only_for_what_is_missing(api, items, command, map_, notes):
    """The rows that were written are kept; only the request that was under way is sent again."""
    model = Held("newts")
    simulator = api(model)
    path = str(items(["owls", "toads", "newts", "mice"]))
    process = command(path, "--at-once", "1", "--out", "answers.jsonl")
    model.gate.wait_for_request(PATIENCE)
    process.kill()
    process.communicate(timeout=PATIENCE)
    part = (notes / "answers.jsonl.part").read_text()
    assert [json.loads(line)["input"] for line in part.splitlines()] == ["owls", "toads"]
    model.gate.open()
    before = len(simulator.requests)
    again = map_(path, "--at-once", "1", "--out", "answers.jsonl")
    rows = [json.loads(line) for line in (notes / "answers.jsonl").read_text().splitlines()]
    assert (again.exit_code, sorted(row["input"] for row in rows)) == (0, ["mice", "newts", "owls", "toads"])
    assert items_of(simulator.requests[before:]) == ["mice", "mice", "newts"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [40, 200])
def test_on_a_terminal_the_progress_disappears_and_the_summary_stays(api, items, finder, width):
    """The live view is erased; without a file the beginning of each answer is shown; each line fits."""
    api(about())
    words = ["specialists", "map", "finder", str(Path(items(["owls", "toads"])).name), *QUESTION]
    written, _, code = run_on_terminal(words, columns=width)
    lines = screen(written, width)
    shown = " ".join(" ".join(lines).split())
    assert (code, "under way" in written, "under way" in shown) == (0, True, False)
    for part in ("2 items for finder: 2 answered", "all about owls", "all about toads"):
        assert part in shown
    assert "the answers are stored; the same command with --out FILE writes them" in shown
    assert max(map(len, lines)) <= width


@pytest.mark.exhaustive
@pytest.mark.parametrize(("typed", "code", "asked"), [("n", 0, 0), ("y", 0, 1)])
def test_on_a_terminal_a_dear_batch_is_asked_about(api, items, map_, typed, code, asked):
    """`n` sends nothing; `y` continues."""
    simulator = api(about())
    map_(str(items(["owls"])))
    items(["toads"], "more.txt")
    words = ["specialists", "map", "finder", "more.txt", *QUESTION, "--confirm-above", "0.000001"]
    written, _, exit_code = run_on_terminal(words, typed=f"{typed}\n")
    assert "This may cost $0.0000" in written
    assert (exit_code, len(simulator.requests)) == (code, 1 + asked)
    assert ("nothing was sent" in written) is not asked


HANGS = """
import asyncio, os, sys
from run_specialist.providers.offline import OfflineConversation, OfflineProvider
sys.argv[0] = "specialists"

async def wait_for_ever(*arguments):
    os.write(2, b"hanging\\n")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

OfflineConversation.ask = OfflineProvider.aclose = wait_for_ever
from run_specialist.cli.manage import main
main()
"""
"""The program with a provider that never answers, and ignores that it is cancelled."""


@pytest.mark.exhaustive
def test_a_third_ctrl_c_ends_a_program_that_hangs(program, finder, items):
    """The first and the second one are waited for in vain; the third ends the program without a traceback."""
    process = program("map", "finder", str(items(["owls"])), "--model", "offline", code=HANGS)
    for line in ("hanging", "Ctrl-C again to stop immediately", "stopping immediately"):
        wait_for(line, process)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
