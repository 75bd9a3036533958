"""The page on `map` matches the code: flags, formats, limits, states, exit codes, and the example in Python."""

import asyncio
import re
import shutil
from dataclasses import fields

import pytest

from run_specialist.batch.item import Counts, Done
from run_specialist.batch.read_items import FORMATS
from run_specialist.cli import batch_options, map_progress
from run_specialist.cli.map_progress import TELLING
from tests.contracts.tables import BATCH_EVENTS, PRINTED, SHAPES
from tests.docs.examples import execute
from tests.docs.markdown import JSON, ROOT, blocks, named, page, table
from tests.map_batches import done

PAGE = page("map")


def test_the_fields_of_a_row_are_documented():
    """The table has exactly the keys of a row."""
    assert [name for row in table(PAGE, "## Answers") for name in named(row[0])] == [
        key for key in ("number", "input", "outcome", "state", "run_id", "error") if key in done().as_row()
    ]
    assert set(done().as_row()) == {"number", "input", "outcome", "state", "run_id", "error"}
    assert isinstance(done(), Done)


def test_every_count_is_documented():
    """Each count has its row, by its name on a terminal."""
    said = {name for row in table(PAGE, "## Progress and counts") for name in row[0].split(", ")}
    names = {field.name.replace("_", " ").replace("aborted", "interrupted") for field in fields(Counts)}
    assert said == names - {"under way", "earlier", "total"}


def test_the_numbers_are_those_of_the_code():
    """Amounts and times in the text are the constants of the code."""
    text = " ".join(PAGE.split())
    assert f"({batch_options.CONFIRM_ABOVE:.2f} unless given)" in text
    assert f"more than {map_progress.EACH_UP_TO} items get a line every {map_progress.SECONDS:.0f} seconds" in text
    assert f"each of the first {map_progress.MOST_FAILURES} items without an answer" in text
    assert TELLING == 5
    assert "the forecast is made from the first five items" in text
    assert f"`--format {'|'.join(FORMATS)}`" in text


def test_the_json_and_the_events_of_the_command_are_documented():
    """Each key of the summary and of the plan, and each event with its fields, is documented."""
    section = JSON.split("## specialists map\n")[1].split("\n## ")[0]
    first, second = section.split("| event | when | fields |")
    keys = set(re.findall(r"`([a-z_0-9]+)`", first))
    for name in ("specialists map", "specialists map --dry-run"):
        assert set(PRINTED[name]) <= keys
    assert set(SHAPES["BATCH_COUNTS"]) | set(PRINTED["specialists map --dry-run"]["forecast"]) <= keys
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", second, re.MULTILINE))
    assert {name: text.split(", ") for name, text in rows.items()} == {
        name: [*shape] for name, shape in BATCH_EVENTS.items()
    }


@pytest.mark.parametrize("example", blocks(PAGE, "python"))
def test_the_example_runs(tmp_path, monkeypatch, capsys, example):
    """It answers from the notes of this repository, offline."""
    (tmp_path / ".git").mkdir()
    for folder in ("thoughts", "specialists"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    asyncio.run(execute(example))
    out = capsys.readouterr().out
    assert re.search(r"^1 (answered|landed) b[0-9a-f]{8}-[0-9a-f]{16}$", out, re.MULTILINE)
    assert "not_run=0" in out
    assert "total=2" in out
