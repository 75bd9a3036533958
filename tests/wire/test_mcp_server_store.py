"""Run ids are validated before the store is read, and clients never see the store's location."""

from pathlib import Path

import pytest

from run_specialist.mcp_server.runs import StoreLocation
from tests.scripted_provider import calls, says
from tests.wire.serving import PATIENCE, serving, write_specialist


@pytest.fixture(autouse=True)
def project(project):
    """The project with one specialist."""
    write_specialist(project, "looker", "tools: []")
    return project


@pytest.fixture
def file(tmp_path) -> Path:
    """Return the path of a store that does not exist yet, in a folder whose name clients must not see."""
    (tmp_path / "secret-place").mkdir()
    return tmp_path / "secret-place" / "runs.db"


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("tool", ["get_run", "cancel_run"])
@pytest.mark.parametrize("run_id", ["%" * 60_000, "../x", "a\0b"], ids=lambda run_id: f"{run_id[:12]!a}-{len(run_id)}")
async def test_a_malformed_id_is_refused_in_one_short_line(file, tool, run_id):
    """A malformed id is refused without reading the store, in one short line with the expected form and its start."""
    async with serving([says("Mice.")], store=str(file)) as served:
        await served.call("looker", query="?")
        result = await served.call(tool, run_id=run_id)
    text = result.content[0].text
    assert result.is_error
    assert text.startswith("run_id: wanted the whole run_id as start_run returned it, found ")
    assert len(text) < 200
    assert text.isprintable()


@pytest.mark.parametrize("tool", ["get_run", "cancel_run"])
async def test_a_run_of_another_project_is_not_known(file, tool, tmp_path, monkeypatch):
    """A stored run of another project is not shown, even by its id: it may have read files that are not served here."""
    async with serving([says("Mice.")], store=str(file)) as served:
        run_id = (await served.call("looker", query="?")).structured_content["run_id"]
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    async with serving(store=str(file)) as served:
        result = await served.call(tool, run_id=run_id)
    assert result.is_error
    assert result.content[0].text == f"no run {run_id} is known here; give the whole run_id as start_run returned it"


@pytest.mark.exhaustive
async def test_start_run_replies_to_the_question_of_a_stored_run(file):
    """The text says first what the specialist asks, and how to reply; the reply goes on with the same run."""
    asks = calls(("respond", {"answer": "Two.", "question": "Which owl?"}))
    async with serving([asks, says("Tawny.")], store=str(file)) as served:
        asked = await served.call("looker", query="?")
        run_id = asked.structured_content["run_id"]
        assert asked.structured_content["question"] == "Which owl?"
        assert asked.content[0].text.split("\n\n")[1:3] == ["It asks: Which owl?", "Two."]
        assert f"start_run with run_id {run_id}" in asked.content[0].text
        begun = await served.call("start_run", specialist="looker", query="Tawny?", run_id=run_id)
        ended = await served.call("get_run", run_id=run_id, wait_seconds=PATIENCE)
    assert begun.structured_content["run_id"] == run_id
    assert ended.structured_content["outcome"]["answer"] == "Tawny."


@pytest.mark.parametrize("tool", ["get_run", "cancel_run"])
async def test_the_error_for_an_unreadable_store_hides_its_location(file, tool):
    """The error for an unreadable store gives the reason and not the path."""
    async with serving(store=str(file)) as served:
        file.write_bytes(b"no database" * 1000)
        result = await served.call(tool, run_id="20261122-070353-47d14e8e88")
    assert result.is_error
    assert result.content[0].text == "the store is not an SQLite database; choose another store with --store"


async def test_an_unexpected_error_hides_the_store_location(file, monkeypatch):
    """The store's path is removed from an unexpected error, wherever a library's message contains it."""

    def broken(*_) -> None:
        raise OSError(5, "Input/output error", str(file))

    monkeypatch.setattr("run_specialist.mcp_server.runs.past_run", broken)
    async with serving(store=str(file)) as served:
        result = await served.call("get_run", run_id="x")
    assert result.content[0].text.startswith("internal error: OSError(")
    assert "secret-place" not in result.content[0].text


async def test_the_warning_of_an_unstored_run_hides_the_location(file, monkeypatch):
    """The warning that a run was not stored hides the location, in text and JSON, immediately and in get_run."""
    monkeypatch.setenv("SPECIALIST_STORE", str(file))
    async with serving([says("Mice.")] * 2, store=str(file)) as served:
        file.mkdir()
        asked = await served.call("looker", query="?")
        begun = await served.call("start_run", specialist="looker", query="?")
        told = [asked.model_dump_json()]
        if not begun.is_error:
            given = {"run_id": begun.structured_content["run_id"], "wait_seconds": PATIENCE}
            told.append((await served.call("get_run", **given)).model_dump_json())
    assert "the store is a folder" in told[0]
    assert not [text for text in [*told, begun.model_dump_json()] if "secret-place" in text]


def test_the_store_location_is_replaced_in_a_text():
    """A file's path, URL and folder, and a server's URL with or without its password, are replaced in a text."""
    location = StoreLocation("/x/y/runs.db")
    assert location.hide("/x/y/runs.db: no; sqlite:////x/y/runs.db; /x/y forbids it") == (
        "the store: no; the store; the store forbids it"
    )
    assert StoreLocation("/runs.db").hide("a/b of /runs.db") == "a/b of the store"
    url = "postgresql://me:hidden@host/db"
    assert StoreLocation(url).hide(f"{url} or postgresql://me:***@host/db") == "the store or the store"
    assert StoreLocation("none").hide("none") == "none"
