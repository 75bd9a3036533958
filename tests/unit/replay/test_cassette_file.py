"""Cassette files: stable and complete, without credentials and paths, and each problem with its line."""

import json
from dataclasses import replace

import pytest

from run_specialist.errors import UsageError
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.record.outcome import Child, Evidence
from run_specialist.replay.cassette import AnsweredRequest, Body, Cassette, RecordedCall, Setup, UnansweredRequest
from run_specialist.replay.cassette_file import read_cassette
from run_specialist.replay.cassette_lines import cassette_text, fit_for_file
from run_specialist.specialist.fields import Specialist

SETTINGS = Specialist(name="finder", description="Finds.", prompt="You find.", tool_calls_limit=3)
TOOL = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "first\u2028line\n2 tool calls remaining"}
OUTCOME = {"status": "answered", "answer": "A.", "output": None, "evidence": [], "gaps": []}
SAVED = "restore the file, or save it again with `specialists replay RUN --save FILE`"


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
        rungs=["force"],
    )
    whole = Cassette(
        "run-1",
        setup,
        [
            Message.user("Where?"),
            AnsweredRequest("auto", None, Reply(Stop.WANTS_TOOLS, (CALL,), Usage(1, 2, 3, 4), "tool_use"), 0.5, True),
            Message("user", (RESULT,), "Answer now."),
            UnansweredRequest("respond", "refused"),
            AnsweredRequest(
                "schema", "Answer now.", Reply(Stop.ANSWERED, (), Usage(), "end", more_room_helps=False), None, False
            ),
        ],
        [
            RecordedCall("call_1", "read", {"path": "a"}, "first\u2028line"),
            RecordedCall("x", "no", None, "n", is_error=True),
        ],
        {**OUTCOME, "tool_calls": {"used": 1}, "landing": None, "error_kind": None, "error": None},
        [Child("run-2", "owls", "answered", 1, Usage(1), 0.1, (Evidence("a:1", "q", verified=True),))],
    )
    return replace(whole, **changes)


@pytest.fixture
def saved(tmp_path):
    """Return the path of a cassette file."""
    path = tmp_path / "one.json"
    path.write_text(cassette_text(fit_for_file(cassette(), tmp_path), [Body("ab", {"max_tokens": 9})]))
    return path


def test_c4_a_cassette_is_read_as_it_was_written(tmp_path, saved):
    """Everything that a replay needs is in the file, and writing it again gives the same bytes."""
    found, before = read_cassette(saved), fit_for_file(cassette(), tmp_path)
    assert found.setup.settings["tool_calls_limit"] == 3
    assert found.lines[1].body == Body("ab", {"max_tokens": 9})
    lines = [found.lines[0], replace(found.lines[1], body=None), *found.lines[2:]]
    assert ([*lines], [*found.calls], [*found.children]) == ([*before.lines], [*before.calls], [*before.children])
    assert (found.setup.system, [*found.setup.tools]) == (before.setup.system, [TOOL])
    bodies = [line.body for line in found.requests if isinstance(line, AnsweredRequest) and line.body]
    assert cassette_text(found, bodies) == saved.read_text()


def test_c4_each_message_tool_and_call_has_its_line(saved):
    """The file is JSON, one line per item; invisible characters are escaped; each output occurs once."""
    text = saved.read_text()
    lines = text.splitlines()
    for name in ("tools", "messages", "calls", "system"):
        begin = lines.index(f'"{name}": [')
        items = [json.loads(line.rstrip(",")) for line in lines[begin + 1 : lines.index("],", begin)]]
        assert items == json.loads(text)[name]
    assert text.count("first\\u2028line") == 1
    assert '"characters": 10' in text


def test_c4_credentials_paths_and_ids_are_not_in_the_file(tmp_path, monkeypatch):
    """A key in the environment, a token, the folders of the machine and the ids of runs are replaced everywhere."""
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    token = "ghp_" + "a1B2" * 9
    text = f"very-secret-value {token} {tmp_path}/notes run-1 run-2 {tmp_path.home()}"
    before = cassette()
    call = {**CALL, "input": {"path": text}}
    reply = replace(before.lines[1].reply, content=({"type": "text", "text": text}, call))
    result = {**RESULT, "content": text}
    cassette_with = cassette(
        setup=replace(before.setup, question=text, system=text, tools=[{**TOOL, "description": text}]),
        lines=[Message.user(text), replace(before.lines[1], reply=reply), Message("user", (result,), text)],
        calls=[RecordedCall("call_1", "read", {"path": text}, text, note=text)],
        outcome={**before.outcome, "answer": text, "evidence": [{"source": text, "quote": text}], "gaps": [text]},
        children=[replace(before.children[0], evidence=(Evidence(text, text, verified=None),))],
    )
    written = cassette_text(fit_for_file(cassette_with, tmp_path))
    for secret in ("very-secret-value", token, str(tmp_path), "run-1", "run-2", f'{tmp_path.home()}"'):
        assert secret not in written
    assert "[redacted] [redacted] $ROOT/notes RUN CHILD-1" in written


def changed(line, old, new):
    """Return a function that replaces a text in a line, whose numbers begin with 1."""

    def change(lines):
        assert old in lines[line - 1]
        lines[line - 1] = lines[line - 1].replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        (lambda lines: lines.pop(22), 22, "messages: its number of lines is 4, but line 13 says 5"),
        (lambda lines: lines.pop(29), 29, "calls: its number of lines is 1, but line 13 says 2"),
        (changed(23, "]}", "]"), 24, "not valid JSON: Expecting property name"),
        (changed(23, '"role"', '"size": 1, "role"'), 23, "messages.size: extra inputs are not permitted"),
        (changed(24, '"stop": "wants_tools"', '"stop": "x"'), 24, "messages.stop: input should be 'answered', "),
        (changed(24, "[1, 2, 3, 4]", "[1, 2]"), 24, "messages.usage: list should have at least 4 items"),
        (changed(5, '"model"', '"colour": 1,\n"model"'), 5, "colour: extra inputs are not permitted"),
        (lambda lines: lines.pop(5), 1, "question: field required"),
        (changed(2, "1", "3"), 2, "format 3 is newer than 2; update run-specialist"),
        (lambda lines: lines.pop(1), 1, "not a cassette: the key run_specialist_cassette is missing"),
        (changed(7, "3", '"x"'), 7, "settings.tool_calls_limit: "),
        (changed(24, '"choice": "auto"', '"choice": "x"'), 24, "messages.choice: must be one of auto, "),
        (changed(23, '"type": "text", ', ""), 23, "messages.content.0: is not a block of a message"),
        (changed(11, "force", "x"), 11, "rungs.0: must be one of force, order, "),
        (changed(12, '"gaps": []', '"gaps": 1'), 12, "outcome.gaps: input should be a valid list"),
        (changed(20, '"name"', '"names"'), 20, "tools.name: field required"),
        (changed(25, "call_1", "call_2"), 30, "calls: the result of call_1 is not in the messages"),
        (changed(34, '"usage"', '"usages"'), 34, "children: no record of a child run"),
    ],
)
def test_c4_a_problem_of_a_file_has_its_line(saved, change, line, reason):
    """Missing and broken lines, unknown and missing keys, wrong values, and a newer format."""
    lines = saved.read_text().splitlines()
    change(lines)
    saved.write_text("\n".join(lines))
    with pytest.raises(UsageError) as refused:
        read_cassette(saved)
    text = str(refused.value)
    assert text.startswith(f"{saved}:{line}: {reason}")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ":1: not valid JSON: expected '{'"),
        (b"[]", ":1: not valid JSON: expected '{'"),
        (b"{}", ":1: not a cassette: the key"),
        (b'{"a": 1} x', ":1: not valid JSON: expected the end of the file"),
        (b'{"a": 1,\n"a": 2}', ":2: not valid JSON: expected another key than 'a'"),
        (b"{\n\xff", ":2: not UTF-8 text"),
        (b'{"a": ' + b"[" * 100_000, ": too deeply nested JSON"),
        (b'{"a": 1', ":1: not valid JSON: expected ','"),
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
