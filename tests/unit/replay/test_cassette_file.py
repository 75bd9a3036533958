"""Cassette files: stable and complete, without credentials and paths, and each problem with its place."""

import json
from functools import reduce

import pytest

from run_specialist.budget import Rung
from run_specialist.errors import UsageError
from run_specialist.providers.base import Choice
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.record.outcome import Child, Evidence
from run_specialist.replay.cassette import (
    Cassette,
    RecordedCall,
    RecordedModel,
    RecordedOutcome,
    RecordedRequest,
    read_cassette,
)
from run_specialist.specialist.fields import Specialist


def cassette(text="first\u2028line"):
    """Return a cassette with a value of each kind, and with a text in all places for texts."""
    call = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": text}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": text}
    called = Reply(Stop.WANTS_TOOLS, ({"type": "text", "text": text}, call), Usage(1, 2, 3, 4), "tool_use")
    requests = [
        RecordedRequest(Choice.AUTO, [Message.user(text)], None, called, 0.5, is_entered=True),
        RecordedRequest(Choice.RESPOND, [Message("user", (result,), text)]),
        RecordedRequest(Choice.SCHEMA, [], text, Reply(Stop.ANSWERED, (), Usage(), "end", more_room_helps=False)),
    ]
    quoted = (Evidence(text, text, verified=None),)
    below = Child("run-3", "owls", "answered", 1, Usage(1), 0.1)
    return Cassette(
        run_specialist_cassette=1,
        specialist="finder",
        digest="0" * 64,
        question=text,
        settings=Specialist(name="finder", description="Finds.", prompt="You find.", tool_calls_limit=3),
        overridden=("tool_calls_limit",),
        system=text,
        tools=({"name": "read", "description": text, "input_schema": {"type": "object"}},),
        models=(RecordedModel("haiku", requests, [Rung.FORCE]),),
        calls=(
            RecordedCall("call_1", "read", {"path": text}, text, note=text),
            RecordedCall("x", "no", None, "n", is_error=True),
        ),
        outcome=RecordedOutcome("answered", text, None, [{"source": text}], [text], {"used": 1}, None),
        children=(Child("run-2", "owls", "answered", 1, Usage(1), 0.1, quoted, children=(below,)),),
        source="run-1",
    )


@pytest.fixture
def saved(tmp_path):
    """Return the path of a cassette file."""
    path = tmp_path / "one.json"
    path.write_text(cassette().text(tmp_path))
    return path


def test_c4_a_cassette_is_read_as_it_was_written(tmp_path, saved):
    """Everything is in the file but settings with their default, as JSON without invisible characters."""
    found, text = read_cassette(saved), saved.read_text()
    assert (found.models, found.calls, found.children[0].usage) == (cassette().models, cassette().calls, Usage(1))
    assert found.text(tmp_path) == text
    assert json.loads(text)["settings"] == {"tool_calls_limit": 3}
    assert "first\\u2028line" in text
    assert text.replace("\n", "").isprintable()


def test_c4_credentials_paths_and_ids_are_not_in_the_file(tmp_path, monkeypatch):
    """A key in the environment, a token, the folders of the machine and the ids of runs are replaced everywhere."""
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    token = "ghp_" + "a1B2" * 9
    text = f"very-secret-value {token} {tmp_path}/notes run-1 run-2 run-3 {tmp_path.home()}"
    written = cassette(text).text(tmp_path)
    for secret in ("very-secret-value", token, str(tmp_path), "run-1", "run-2", "run-3", f'{tmp_path.home()}"'):
        assert secret not in written
    assert "[redacted] [redacted] $ROOT/notes RUN CHILD-1 CHILD-2" in written


REQUEST = ("models", 0, "requests", 0)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["run_specialist_cassette"], 3, "not a cassette of format 1"),
        (["run_specialist_cassette"], None, "not a cassette of format 1"),
        (["question"], None, "question: field required"),
        (["settings", "tool_calls_limit"], "x", "settings.tool_calls_limit: "),
        (["settings", "colour"], "x", "settings.colour: "),
        (["tools", 0, "name"], None, "tools.0: is not the definition of a tool"),
        ([*REQUEST, "choice"], "x", "models.0.requests.0.choice: input should be 'auto', "),
        ([*REQUEST, "messages", 0, "blocks", 0, "type"], None, "models.0.requests.0.messages.0: is not a block of a "),
        ([*REQUEST, "reply", "content", 1, "id"], 1, "models.0.requests.0.reply: is not a block of a message"),
    ],
)
def test_c4_a_problem_of_a_file_has_its_place(saved, path, value, reason):
    """Unknown and missing keys, wrong values, and another format are named in one line."""
    values = json.loads(saved.read_text())
    inner = reduce(lambda outer, key: outer[key], path[:-1], values)
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
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
        (b"", "not valid JSON: EOF while parsing a value"),
        (b"[]", "not a cassette of format 1"),
        (b'{\n"a": "\xff"}', "not valid JSON: invalid unicode"),
        (b'{"a": ' + b"[" * 100_000, "not valid JSON: recursion limit"),
    ],
)
def test_c4_a_file_that_is_no_cassette_is_refused_in_one_line(tmp_path, content, reason):
    """An empty file, other JSON, binary data and endless nesting; so is a folder."""
    path = tmp_path / "no.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_cassette(path)
    assert str(refused.value).startswith(f"{path}: {reason}")
    with pytest.raises(UsageError, match="Is a directory"):
        read_cassette(tmp_path)
