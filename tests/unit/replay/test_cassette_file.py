"""Cassette files: stable and complete, without credentials and paths, and each problem with its place."""

import json
from dataclasses import replace

import pytest

from run_specialist.budget import Rung
from run_specialist.errors import UsageError
from run_specialist.providers.base import Choice
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.record.outcome import Child, Evidence
from run_specialist.replay.cassette import (
    Cassette,
    RecordedCall,
    RecordedOutcome,
    RecordedRequest,
    Setup,
    cassette_text,
    fit_for_file,
    read_cassette,
)
from run_specialist.specialist.fields import Specialist

SETTINGS = Specialist(name="finder", description="Finds.", prompt="You find.", tool_calls_limit=3)
TOOL = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "first\u2028line\n2 tool calls remaining"}
OUTCOME = RecordedOutcome("answered", "A.", None, [], [], {"used": 1}, None)


def cassette(**changes):
    """Return a cassette with a line of each kind."""
    setup = Setup(
        specialist="finder",
        digest="0" * 64,
        model="haiku",
        question="Where?",
        settings=SETTINGS.model_dump(mode="json", by_alias=True),
        overridden=["tool_calls_limit"],
        system="You find.\n\nBudget: 3",
        tools=[TOOL],
        rungs=[Rung.FORCE],
    )
    called = Reply(Stop.WANTS_TOOLS, (CALL,), Usage(1, 2, 3, 4), "tool_use")
    lines = (
        Message.user("Where?"),
        RecordedRequest(Choice.AUTO, "answered", None, called, 0.5, True),
        Message("user", (RESULT,), "Answer now."),
        RecordedRequest(Choice.RESPOND, "refused"),
        RecordedRequest(
            Choice.SCHEMA,
            "answered",
            "Answer now.",
            Reply(Stop.ANSWERED, (), Usage(), "end", more_room_helps=False),
            None,
            False,
        ),
    )
    whole = Cassette(
        run_specialist_cassette=1,
        setup=setup,
        lines=lines,
        calls=(
            RecordedCall("call_1", "read", {"path": "a"}, "first\u2028line"),
            RecordedCall("x", "no", None, "n", is_error=True),
        ),
        outcome=OUTCOME,
        children=(Child("run-2", "owls", "answered", 1, Usage(1), 0.1, (Evidence("a:1", "q", verified=True),)),),
        source="run-1",
    )
    return whole.model_copy(update=changes)


@pytest.fixture
def saved(tmp_path):
    """Return the path of a cassette file."""
    path = tmp_path / "one.json"
    path.write_text(cassette_text(fit_for_file(cassette(), tmp_path)))
    return path


def test_c4_a_cassette_is_read_as_it_was_written(tmp_path, saved):
    """Everything that a replay needs is in the file, and writing it again gives the same bytes."""
    found, before = read_cassette(saved), fit_for_file(cassette(), tmp_path)
    assert found.setup.settings["tool_calls_limit"] == 3
    assert ([*found.lines], [*found.calls], [*found.children]) == ([*before.lines], [*before.calls], [*before.children])
    assert (found.setup.system, [*found.setup.tools]) == (before.setup.system, [TOOL])
    assert cassette_text(found) == saved.read_text()


def test_c4_a_cassette_is_readable_json(saved):
    """Invisible characters are escaped, and settings with their default value are left out."""
    text = saved.read_text()
    assert json.loads(text)["setup"]["settings"] == {"tool_calls_limit": 3}
    assert "first\\u2028line" in text
    assert text.replace("\n", "").isprintable()


def test_c4_credentials_paths_and_ids_are_not_in_the_file(tmp_path, monkeypatch):
    """A key in the environment, a token, the folders of the machine and the ids of runs are replaced everywhere."""
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    token = "ghp_" + "a1B2" * 9
    text = f"very-secret-value {token} {tmp_path}/notes run-1 run-2 run-3 {tmp_path.home()}"
    before = cassette()
    child, quoted = before.children[0], (Evidence(text, text, verified=None),)
    call = {**CALL, "input": {"path": text}}
    reply = replace(before.lines[1].reply, content=({"type": "text", "text": text}, call))
    result = {**RESULT, "content": text}
    cassette_with = cassette(
        setup=replace(before.setup, question=text, system=text, tools=[{**TOOL, "description": text}]),
        lines=(Message.user(text), replace(before.lines[1], reply=reply), Message("user", (result,), text)),
        calls=(RecordedCall("call_1", "read", {"path": text}, text, note=text),),
        outcome=replace(OUTCOME, answer=text, evidence=[{"source": text, "quote": text}], gaps=[text]),
        children=(replace(child, evidence=quoted, children=(replace(child, run_id="run-3"),)),),
    )
    written = cassette_text(fit_for_file(cassette_with, tmp_path))
    for secret in ("very-secret-value", token, str(tmp_path), "run-1", "run-2", "run-3", f'{tmp_path.home()}"'):
        assert secret not in written
    assert "[redacted] [redacted] $ROOT/notes RUN CHILD-1 CHILD-2" in written


def changed(*path, to):
    """Return a function that sets a value of the file; None removes its key."""

    def change(values):
        for part in path[:-1]:
            values = values[part]
        if to is None:
            del values[path[-1]]
        else:
            values[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed("run_specialist_cassette", to=3), "format 3 is not supported, only 1"),
        (changed("run_specialist_cassette", to=None), "not a cassette: the key run_specialist_cassette is missing"),
        (changed("setup", "question", to=None), "setup.question: field required"),
        (changed("colour", to=1), "colour: extra inputs are not permitted"),
        (changed("setup", "settings", "tool_calls_limit", to="x"), "setup.settings.tool_calls_limit: "),
        (changed("setup", "settings", "colour", to="x"), "setup.settings.colour: "),
        (changed("setup", "rungs", 0, to="x"), "setup.rungs.0: input should be 'force', "),
        (changed("setup", "tools", 0, "name", to=None), "setup.tools.0: is not the definition of a tool"),
        (changed("lines", 1, "reply", "stop", to="x"), "lines.1.reply.stop: input should be 'answered', "),
        (changed("lines", 1, "choice", to="x"), "lines.1.choice: input should be 'auto', "),
        (changed("lines", 1, to=3), "lines.1: input should be an object"),
        (changed("lines", 0, "blocks", 0, "type", to=None), "lines.0: is not a block of a message"),
        (changed("lines", 1, "reply", "content", 0, "id", to=1), "lines.1: is not a block of a message"),
        (changed("calls", 0, "output", to=None), "calls.0.output: field required"),
        (changed("outcome", "gaps", to=1), "outcome.gaps: "),
        (changed("outcome", "status", to="x"), "outcome.status: input should be 'answered', "),
        (changed("children", 0, "usage", to=None), "children.0.usage: field required"),
    ],
)
def test_c4_a_problem_of_a_file_has_its_place(saved, change, reason):
    """Unknown and missing keys, wrong values, and another format are named in one line."""
    values = json.loads(saved.read_text())
    change(values)
    saved.write_text(json.dumps(values))
    with pytest.raises(UsageError) as refused:
        read_cassette(saved)
    text = str(refused.value)
    assert text.startswith(f"{saved}: {reason}")
    assert text.endswith("save it again with `specialists replay RUN --save FILE`")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": not valid JSON: EOF while parsing a value"),
        (b"[]", ": not a cassette: "),
        (b"{}", ": not a cassette: the key"),
        (b'{"a": 1} x', ": not valid JSON: trailing characters"),
        (b'{\n"a": 1,\n"b": x}', ": not valid JSON: expected value"),
        (b'{\n"a": "\xff"}', ": not valid JSON: invalid unicode"),
        (b'{"a": ' + b"[" * 100_000, ": not valid JSON: recursion limit"),
        (b'{"a": 1', ": not valid JSON: EOF while parsing an object"),
    ],
)
def test_c4_a_file_that_is_no_cassette_is_refused_in_one_line(tmp_path, content, reason):
    """An empty file, other JSON, binary data and endless nesting."""
    path = tmp_path / "no.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_cassette(path)
    assert str(refused.value).startswith(f"{path}{reason}")


def test_c4_a_missing_file_or_a_folder_is_refused(tmp_path):
    """The reason of the operating system is given."""
    for path, reason in ((tmp_path / "none.json", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError, match=reason):
            read_cassette(path)
