"""`specialists map` asks about each item once, pays only for what is missing, and keeps to a cost limit."""

import csv
import json
from types import SimpleNamespace

import pytest

from run_specialist.batch.item import Counts
from run_specialist.cli.map_progress import MOST_FAILURES, ItemLines, MapProgress, label, spread
from run_specialist.cli.map_run import same_command, summary_lines
from tests.cli.map.map_model import about, answer, items_of
from tests.cli.specialists_command import call
from tests.loop_jobs import Clock
from tests.map_batches import LookedAt, done
from tests.wire.simulator.faults import ApiError

BAD = ApiError(400, "invalid_request_error", "messages: this item cannot be read")


def rows_of(text):
    """Return the rows of JSON lines, by number."""
    return {row["number"]: row for row in map(json.loads, text.splitlines())}


def test_each_item_is_asked_once_and_has_a_row(api, items, map_, notes, write):
    """A pipe gets rows of JSON, standard error what happens; again, nothing is asked; a named batch stays the same."""
    simulator = api(about())
    path = str(items(["owls", "toads", "mice"]))
    result = map_(path)
    rows = rows_of(result.stdout)
    assert result.exit_code == 0
    assert [(rows[number]["input"], rows[number]["state"]) for number in (1, 2, 3)] == [
        ("owls", "answered"),
        ("toads", "answered"),
        ("mice", "answered"),
    ]
    assert rows[2]["outcome"]["answer"] == "all about toads"
    assert rows[2]["run_id"] == rows[2]["outcome"]["run_id"]
    assert items_of(simulator.requests) == ["mice", "owls", "toads"]
    first, *lines = result.stderr.splitlines()
    assert first.endswith(": 3 items · no past runs: the first 5 items give a forecast")
    assert sum(" of 3: item " in line for line in lines) == 3
    assert any(line.endswith(": 3 items for finder: 3 answered") for line in lines)
    again = map_(path, "--out", "answers.jsonl")
    assert rows_of((notes / "answers.jsonl").read_text()) == rows
    assert (again.exit_code, again.stdout, len(simulator.requests)) == (0, "", 3)
    assert "3 items, 3 of them with an outcome already · nothing to ask" in again.stderr
    assert "3 outcomes of earlier calls, not paid again" in again.stderr
    assert "answers: answers.jsonl" in again.stderr
    assert map_(path, "--quiet").stderr == ""
    for _ in range(2):
        assert json.loads(map_(path, "--batch", "night", "--json").stdout)["batch"] == "night"
        write("finder", "model: haiku", "tools: search, read", "patience: 0", "tool_calls_limit: 3")
    assert len(simulator.requests) == 6
    map_(path)
    assert len(simulator.requests) == 9, "the file has changed"


def test_files_tables_and_standard_input_are_items(api, finder, notes, items, map_):
    """A changed file is asked about again; columns are fields, in and out; `--ordered` keeps the order of the items."""
    api(about())
    items(["name,item", "a,owls", "b,toads"], "items.csv")
    assert map_("items.csv", "--out", "answers.csv", "--ordered").exit_code == 0
    with (notes / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["number"], row["name"], row["state"], row["answer"]) for row in rows] == [
        ("1", "a", "answered", "all about owls"),
        ("2", "b", "answered", "all about toads"),
    ]
    result = map_("-", "--ordered", input="owls\n\ntoads\n")
    assert [row["input"] for row in rows_of(result.stdout).values()] == ["owls", "toads"]
    assert "items as they come" in result.stderr
    assert "2 items for finder: 2 answered" in result.stderr
    simulator = api(about())
    command = ["map", "finder", "--files", "notes/*.md", "--question", "What about {stem}?"]
    assert call(*command).exit_code == 0
    (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls sleep.\n")
    result = call(*command)
    assert items_of(simulator.requests) == ["owls", "owls", "toads"]
    assert rows_of(result.stdout)[1]["input"] == {"path": "notes/owls.md", "name": "owls.md", "stem": "owls"}


def test_t8_a_batch_does_not_read_its_own_answers(finder, notes):
    """Answers of an earlier call, and those that are being written, are no evidence for the answers of a batch."""
    command = ["map", "finder", "--files", "notes/*.md", "--question", "What does {path} say about the hunt of owls?"]
    command += ["--model", "offline", "--at-once", "1", "--out", "answers.jsonl"]
    for _ in range(2):
        assert call(*command).exit_code == 0
        (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls hunt at dusk.\n")
    rows = rows_of((notes / "answers.jsonl").read_text())
    sources = [one["source"].partition(":")[0] for number in rows for one in rows[number]["outcome"]["evidence"]]
    assert set(sources) == {"notes/owls.md", "notes/toads.md"}


def test_a_failed_item_is_counted_with_its_reason_and_can_be_retried(api, items, map_):
    """The other items are answered; the exit code is 4; the command for a retry is named and asks about it alone."""
    special = {"toads": BAD}
    simulator = api(about(special))
    path = str(items(["owls", "toads", "mice"]))
    result = map_(path)
    assert result.exit_code == 4
    assert rows_of(result.stdout)[2]["state"] == "failed"
    assert "item cannot be read" in rows_of(result.stdout)[2]["error"]
    assert "3 items for finder: 2 answered, 1 failed (1 invalid request)" in result.stderr
    assert f"to retry the failed: specialists map finder {path} --question 'What about {{item}}?' --retry failed" in (
        result.stderr
    )
    before = len(simulator.requests)
    assert map_(path).exit_code == 4, "without --retry it stays as it is"
    quiet = map_(path, "--quiet")
    assert (quiet.exit_code, len(quiet.stdout.splitlines())) == (4, 3)
    assert quiet.stderr.splitlines()[0].endswith("3 items for finder: 2 answered, 1 failed (1 invalid request)")
    call = ("finder", "a.txt", "--retry", "aborted", "--store", "postgresql://me:secret@host/db")
    once = "specialists map finder a.txt --store 'postgresql://me:***@host/db' --retry failed"
    assert same_command(call, "--retry", "failed") == once
    once = "specialists map finder a.txt --retry failed"
    assert same_command(("finder", "--retry=all", "a.txt"), "--retry", "failed") == once
    assert len(simulator.requests) == before
    special["toads"] = answer("at last")
    result = map_(path, "--retry", "failed")
    assert (result.exit_code, rows_of(result.stdout)[2]["outcome"]["answer"]) == (0, "at last")
    assert items_of(simulator.requests[before:]) == ["toads"]


def test_wrong_credentials_end_the_batch(api, items, map_):
    """One refusal is enough: nothing is counted as failed, the rest was not run, the exit code is 3."""
    refused = ApiError(401, "authentication_error", "invalid x-api-key")
    api(lambda _: refused)
    result = map_(str(items(["owls", "toads", "mice"])), "--at-once", "1")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "3 items for finder: 3 not run" in result.stderr
    assert "ended early: " in result.stderr
    assert "invalid x-api-key" in result.stderr
    assert "to continue: specialists map finder" in result.stderr


@pytest.mark.exhaustive
def test_a_batch_that_ends_early_keeps_the_rows_of_the_file(api, items, map_, notes):
    """Rows of an earlier call are dropped only if all items of the newest one have a row."""
    refused = ApiError(401, "authentication_error", "invalid x-api-key")
    api(about(dict.fromkeys(["mice", "newts", "moles"], refused)))
    map_(str(items(["owls", "toads"])), "--out", "answers.jsonl")
    result = map_(str(items(["bats", "mice", "newts", "moles"])), "--out", "answers.jsonl", "--at-once", "1")
    assert result.exit_code == 3
    assert "4 items for finder: 1 answered, 3 not run" in result.stderr
    rows = map(json.loads, (notes / "answers.jsonl").read_text().splitlines())
    assert sorted(row["input"] for row in rows) == ["bats", "owls", "toads"]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["finder", "--question", "What about {item}?"], "there are no items"),
        (["finder", "items.txt", "--files", "*.md"], "cannot be combined"),
        (["finder", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["finder", "items.txt", "--question", "What about {topic}?"], "items.txt:1 has no field 'topic'"),
        (["finder", "items.txt", "--question", "What about {item?"], "the question, character 12"),
        (["nobody", "items.txt"], "nobody"),
        (["finder", "items.txt", "--out", "-", "--json"], "cannot be combined"),
        (["finder", "items.txt", "--out", "items.txt"], "items.txt"),
        (["finder", "items.txt", "--out", "nowhere/a.jsonl"], "does not exist"),
        (["finder", "items.txt", "--batch", "a b"], "cannot be the id of a batch"),
        (["finder", "items.txt", "--cost-limit", "much"], "'much' is not an amount of dollars"),
        (["finder", "items.txt", "--retry", "answered"], "'answered' is not one of"),
        (["finder", "items.txt", "--store", "none", "--retry", "failed"], "--retry needs stored runs"),
        (["finder", "items.txt", "--cost-limit", "1", "--model", "openai:nobodys"], "the price of openai:nobodys is"),
        (["odd", "items.txt", "--strict"], "telepathy"),
    ],
)
def test_mistakes_are_said_before_anything_is_sent(api, items, finder, write, monkeypatch, arguments, says):
    """One line says what is wrong; the exit code is 2 and no request was sent."""
    simulator = api(about())
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    items(["owls"])
    write("odd", "model: haiku", "tools: search, telepathy")
    result = call("map", *arguments)
    assert (result.exit_code, simulator.requests) == (2, [])
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ("Why?\n\nNow", "Why? Now"),
        ({"topic": "owls", "path": "a.md"}, "a.md"),
        ({"topic": "owls", "id": 7}, "7"),
        ({"topic": "owls"}, "owls"),
        ({"size": 3.5}, "What?"),
        ({"path": "  ", "topic": "\x1b[2Jowls"}, "\ufffd[2Jowls"),
    ],
)
def test_an_item_is_named_by_the_field_that_tells_it_from_others(given_, text):
    """A path, a name or an id is better than a text; the question is the last resort; nothing controls the terminal."""
    assert label(given_, "What?") == text


def lines_of(counts, *ends, seconds=0.0):
    """Return the lines that are printed when items end, so many seconds apart."""
    clock, said = Clock(), []
    progress = MapProgress(LookedAt(counts), clock=clock)
    lines = ItemLines(progress, said.append)
    for one in ends:
        clock.now += seconds
        progress.end(one)
        lines.end(one)
    return said


def test_a_large_batch_gets_a_line_now_and_then_and_one_for_each_failure():
    """Items with an answer are counted, those without one named; the further ones do not fill a log."""
    counts = Counts(answered=600, failed={"quota": 1}, total=1_000)
    failed = done(7, "failed", error="the quota is used up")
    assert lines_of(counts, *map(done, range(1, 7)), failed, seconds=3) == [
        "601 of 1,000 items · 600 answered · 1 failed (1 quota) · $0.10 · 19m 57s left",
        "item 7 docs/7.md · failed: the quota is used up · 5 tool calls · $0.02 · 12 s",
    ]
    for total in (None, 10_000):
        said = lines_of(Counts(total=total), *(done(number, "failed", error="no") for number in range(1, 200)))
        assert len(said) == MOST_FAILURES
        assert said[-1].endswith("; further ones are only counted")


@pytest.mark.parametrize(("costs", "shown"), [((0.02, None), "price unknown · 1m 10s"), ((0.0,), "1m 10s")])
def test_a_price_that_is_not_known_is_not_a_sum(costs, shown):
    """One unknown price makes the cost unknown; offline nothing is billed, and no cost is shown; equal ends are one."""
    assert [spread(2.1, 4.4), spread(2.101, 2.1)] == ["$2.10 to $4.40", "$2.10"]
    clock, batch = Clock(), LookedAt(Counts(answered=1, total=1))
    progress = MapProgress(batch, clock=clock)
    clock.now += 70
    for cost in costs:
        progress.end(done(cost=cost))
    ended = SimpleNamespace(name="finder", words=("finder",), batch=batch, file=None, writes_rows=True, is_stored=True)
    assert [*summary_lines(ended, progress)][1][0] == shown


SIX = ["owls", "toads", "mice", "newts", "bats", "moles"]


@pytest.fixture
def past(api, items, map_):
    """Ask about six items, so that there are past runs, and return the simulator."""
    simulator = api(about())
    assert map_(str(items(SIX, "past.txt"))).exit_code == 0
    return simulator


def cost_of(map_, path="past.txt"):
    """Return the cost of a batch that is done."""
    return json.loads(map_(path, "--json").stdout)["cost_usd"]


def test_a_dry_run_shows_questions_and_forecast_and_sends_nothing(past, items, map_):
    """The first three questions, what is answered already, and what the rest may cost."""
    before = len(past.requests)
    result = map_(str(items([*SIX, "hares", "foxes"], "past.txt")), "--dry-run")
    assert (result.exit_code, result.stderr, len(past.requests)) == (0, "", before)
    head, *rest = result.stdout.splitlines()
    assert head.startswith("8 items, 6 of them with an outcome already · 9 of 10 past runs took at most ")
    assert " · about $0.00" in head
    assert head.endswith(" at 8 at once")
    assert "    What about toads?" in rest
    assert "    What about newts?" not in rest
    assert rest[-1].endswith("nothing was sent")


@pytest.mark.exhaustive
def test_what_the_endpoint_failed_is_asked_again_and_confirmed(api, items, map_):
    """Failed runs that the same call resumes count as items to ask about, also for `--confirm-above`."""
    refused: dict[str, object] = {}
    simulator = api(about(refused))
    assert map_(str(items(SIX, "past.txt"))).exit_code == 0
    refused["hares"] = ApiError(429, "rate_limit_error", "slow down", {"retry-after": "7200"})
    path = str(items(["hares"], "more.txt"))
    before = len(simulator.requests)
    assert map_(path, "--pause-limit", "0", "--breaker", "1").exit_code == 3
    assert len(simulator.requests) == before + 1, "one failure is enough"
    before = len(simulator.requests)
    result = map_(path, "--confirm-above", "0.000001")
    assert (result.exit_code, len(simulator.requests)) == (2, before)
    assert ": 1 item · 9 of 10 past runs took at most " in result.stderr
    assert "more than --confirm-above" in result.stderr


@pytest.mark.exhaustive
def test_without_a_terminal_a_dear_batch_is_refused_only_if_asked_for(past, items, map_):
    """`--confirm-above` that is given refuses it with exit code 2; `--yes` and a low `--cost-limit` do not."""
    before = len(past.requests)
    path = str(items(["hares"], "more.txt"))
    result = map_(path, "--confirm-above", "0.000001")
    assert (result.exit_code, result.stdout, len(past.requests)) == (2, "", before)
    assert "more than --confirm-above" in result.stderr
    assert "nothing was sent" in result.stderr
    assert map_(path, "--confirm-above", "0.000001", "--yes").exit_code == 0
    assert map_(path, "--confirm-above", "0.000001").exit_code == 0, "everything has an outcome: nothing to confirm"
    assert map_(str(items(["foxes"], "more.txt"))).exit_code == 0, "below a dollar"


@pytest.mark.exhaustive
def test_the_cost_limit_of_a_batch_leaves_items_not_run(past, items, map_):
    """Within the limit items are answered; the others are not run; a higher limit asks them alone."""
    limit = cost_of(map_) / 6 * 2.5
    before = len(past.requests)
    path = str(items(["hares", "foxes", "stoats", "otters"], "more.txt"))
    result = map_(path, "--cost-limit", f"{limit:.6f}", "--at-once", "1", "--json")
    summary = json.loads(result.stdout)
    done = summary["counts"]["answered"] + summary["counts"]["landed"]
    assert (result.exit_code, summary["ended_because"]) == (4, "cost_limit")
    assert 1 <= done < 4
    assert summary["counts"]["not_run"] == 4 - done
    assert summary["cost_usd"] <= limit
    assert "leaves too little for another item" in result.stderr
    assert len(set(items_of(past.requests[before:]))) == done
    assert "to continue, raise --cost-limit" in result.stderr
    result = map_(path, "--cost-limit", f"{10 * limit:.6f}", "--json")
    assert (result.exit_code, json.loads(result.stdout)["earlier"]) == (0, done), result.stderr
