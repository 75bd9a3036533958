"""`specialists map` asks about each item once, and the same command again pays only for what is missing."""

import csv
import json

import pytest

from tests.cli.map.map_model import about, answer, items_of
from tests.cli.specialists_command import call
from tests.wire.simulator.faults import ApiError

BAD = ApiError(400, "invalid_request_error", "messages: this item cannot be read")


def rows_of(text):
    """Return the rows of JSON lines, by number."""
    return {row["number"]: row for row in map(json.loads, text.splitlines())}


def test_each_item_is_asked_once_and_has_a_row(api, items, map_):
    """A pipe gets a row of JSON for each item; standard error says what happens; the exit code is 0."""
    simulator = api(about())
    result = map_(str(items(["owls", "toads", "mice"])))
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


def test_the_same_command_again_asks_nothing_and_writes_the_same(api, items, map_, notes):
    """The second call only writes the rows of the first one, here to a file; it costs nothing."""
    simulator = api(about())
    path = str(items(["owls", "toads"]))
    first = map_(path)
    result = map_(path, "--out", "answers.jsonl")
    assert len(simulator.requests) == 2
    assert rows_of((notes / "answers.jsonl").read_text()) == rows_of(first.stdout)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 items, 2 of them with an outcome already · nothing to ask" in result.stderr
    assert "2 outcomes of earlier calls, not paid again" in result.stderr
    assert "answers: answers.jsonl" in result.stderr


def test_a_table_in_and_a_table_out(api, items, map_, notes):
    """The header of a CSV file has the fields; the answers have columns; `--ordered` keeps the order of the items."""
    api(about())
    items(["name,item", "a,owls", "b,toads"], "items.csv")
    assert map_("items.csv", "--out", "answers.csv", "--ordered").exit_code == 0
    with (notes / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["number"], row["name"], row["state"], row["answer"]) for row in rows] == [
        ("1", "a", "answered", "all about owls"),
        ("2", "b", "answered", "all about toads"),
    ]


def test_files_are_items(api, finder, notes):
    """A changed file is asked about again, the others are not."""
    simulator = api(about())
    command = ["map", "finder", "--files", "notes/*.md", "--question", "What about {stem}?"]
    assert call(*command).exit_code == 0
    (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls sleep.\n")
    result = call(*command)
    assert items_of(simulator.requests) == ["owls", "owls", "toads"]
    assert rows_of(result.stdout)[1]["input"] == {"path": "notes/owls.md", "name": "owls.md", "stem": "owls"}


def test_items_of_standard_input(api, map_):
    """`-` reads lines; how many there are is known at the end."""
    api(about())
    result = map_("-", "--ordered", input="owls\n\ntoads\n")
    assert [row["input"] for row in rows_of(result.stdout).values()] == ["owls", "toads"]
    assert "items as they come" in result.stderr
    assert "2 items for finder: 2 answered" in result.stderr


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


def test_quiet_prints_rows_and_errors_only(api, items, map_):
    """With an answer for each item nothing is on standard error; else the counts are."""
    special = {}
    api(about(special))
    path = str(items(["owls"]))
    assert map_(path, "--quiet").stderr == ""
    special["toads"] = BAD
    result = map_(str(items(["owls", "toads"])), "--quiet")
    assert (result.exit_code, len(result.stdout.splitlines())) == (4, 2)
    assert result.stderr.splitlines()[0].endswith("2 items for finder: 1 answered, 1 failed (1 invalid request)")


def test_a_batch_can_be_named(api, items, map_, write):
    """With `--batch` a batch continues although the specialist's file has changed; without it, a new batch starts."""
    simulator = api(about())
    path = str(items(["owls"]))
    map_(path, "--batch", "night")
    result = map_(path, "--batch", "night", "--json")
    assert json.loads(result.stdout)["batch"] == "night"
    assert len(simulator.requests) == 1
    write("finder", "model: haiku", "tools: search, read", "patience: 0", "tool_calls_limit: 3")
    map_(path)
    assert len(simulator.requests) == 2


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
        (["finder", "items.txt", "--reduce", "nobody"], "nobody"),
        (["finder", "items.txt", "--files", "*.md", "--format", "csv"], "cannot be combined"),
        (["finder", "items.txt", "--json", "--events"], "--json and --events cannot be combined"),
        (["finder", "items.txt", "--out", "-", "--json"], "cannot be combined"),
        (["finder", "items.txt", "--out", "items.txt"], "items.txt"),
        (["finder", "items.txt", "--out", "nowhere/a.jsonl"], "does not exist"),
        (["finder", "items.txt", "--batch", "a b"], "cannot be the id of a batch"),
        (["finder", "items.txt", "--cost-limit", "much"], "'much' is not an amount of dollars"),
        (["finder", "items.txt", "--retry", "answered"], "'answered' is not one of"),
        (["finder", "items.txt", "--at-once", "0"], "greater than or equal to 1"),
        (["finder", "items.txt", "--store", "none", "--retry", "failed"], "--retry needs stored runs"),
    ],
)
def test_mistakes_are_said_before_anything_is_sent(api, items, finder, arguments, says):
    """One line says what is wrong; the exit code is 2 and no request was sent."""
    simulator = api(about())
    items(["owls"])
    result = call("map", *arguments)
    assert (result.exit_code, simulator.requests) == (2, [])
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_strict_refuses_a_file_with_warnings(api, items, finder, write):
    """A tool that does not exist is an error with `--strict`: the exit code is 2 and no request was sent."""
    write("finder", "model: haiku", "tools: search, telepathy")
    simulator, path = api(about()), str(items(["owls"]))
    result = call("map", "finder", path, "--strict")
    assert (result.exit_code, simulator.requests) == (2, [])
    assert "telepathy" in result.stderr
    assert call("map", "finder", path).exit_code == 0
