"""Public contracts do not change: exit codes, the outcome, events, and the JSON output of each command."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from run_specialist import Specialist
from run_specialist.api.runner import Runner
from run_specialist.budget import Kind, Phase, Rung
from run_specialist.cli import ask, manage
from run_specialist.errors import ContextExceeded, ProviderError, Unavailable
from run_specialist.providers.base import Choice
from run_specialist.providers.choose import ModelChain
from run_specialist.record import events
from run_specialist.record.messages import Stop
from run_specialist.record.outcome import ErrorKind, Exit, Outcome, Status
from run_specialist.views.tune import Verdict
from tests.contracts.tables import EVENTS, PRINTED, SHAPES, faults, words
from tests.docs.markdown import JSON, named, table
from tests.loop_jobs import LOOK
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists, write

CONTRACT = "this is a contract with the programs that read it: change docs/json.md and CHANGELOG.md, then the tables"
ANSWER = calls(("respond", {"answer": "mice", "evidence": [{"source": "a:1", "quote": "no"}]}), first_id=90)
FINDER = Specialist(name="finder", description="", prompt="You look.", tools=())


def holds(value: object, shape: Any) -> None:
    """Assert that a value, encoded as JSON, matches its table."""
    found = list(faults(json.loads(json.dumps(value)), shape))
    assert not found, f"{CONTRACT}: {'; '.join(found)}"


def the_same(told: object, known: object) -> None:
    """Assert that values of the code equal those of a table."""
    assert told == known, CONTRACT


@pytest.mark.parametrize(
    ("value", "shape", "found"),
    [
        ([3, "none", None], ["limit|null"], []),
        ({"a": True}, {"a": "number"}, ["$.a: wanted number, found True"]),
        ({"a": 1}, {"a": "count", "b": "any"}, ["$.b: is gone"]),
        ({"a": 1, "b": 2}, {"a": "count"}, ["$.b: is new"]),
        ([None], ["text"], ["$[0]: wanted text, found None"]),
        (None, [{"a": "count"}, None], []),
        ({"x": [1], "y": 2}, {"...": ["count"]}, ["$.y: wanted a list, found 2"]),
        ([], {"a": "count"}, ["$: wanted an object, found []"]),
    ],
)
def test_a_changed_key_or_type_is_reported(value, shape, found):
    """A removed, new or retyped key is reported with its path."""
    assert list(faults(value, shape)) == found


def test_exit_codes_and_statuses_equal_the_tables():
    """Exit codes, statuses, kinds, phases, rungs, stops, choices and verdicts equal those of the tables."""
    codes = {"OK": 0, "USAGE": 2, "PROVIDER": 3, "NO_ANSWER": 4, "INTERRUPTED": 130}
    the_same({code.name: int(code) for code in Exit}, codes)
    for name, known in (("STATUSES", Status), ("ERROR_KINDS", ErrorKind), ("CALL_PHASES", events.CallPhase)):
        the_same(set(get_args(known)), words(name))
    for name, values in (("KINDS", Kind), ("BUDGET_PHASES", Phase), ("STOPS", Stop), ("CHOICES", Choice)):
        the_same({one.value for one in values}, words(name))
    the_same({rung.value for rung in Rung} - {"wait"}, words("HOW"))
    the_same("|".join(sorted(get_args(Verdict))), PRINTED["specialists tune"]["suggestion"]["verdict"])


def test_every_event_and_field_is_in_the_tables():
    """Every event and every field is listed in the tables, even those that no test run emits."""
    known = {one.event: {field.name for field in fields(one)} for one in events.Event.__subclasses__()}
    the_same(known, {name: set(shape) for name, shape in EVENTS.items()})
    the_same({field.name for field in fields(Outcome)} - {"error", "exit_code"}, set(SHAPES["OUTCOME"]))


def test_the_fields_of_a_listed_file_are_documented():
    """The fields of `list` and `check` are documented in one table, and those that `show` adds are in its text."""
    told = [name for row in table(JSON, "## specialists list, check and show") for name in named(row[0])]
    the_same(told, list(SHAPES["FILE"]))
    row = table(JSON, "## specialists list, check and show")[-1][1]
    assert [key for key in SHAPES["PROBLEM"] if f"`{key}`" not in row] == []
    text = JSON.split("\n`list --json`")[1].split("\n## ")[0]
    added = (set(PRINTED["specialists show"]) - set(SHAPES["FILE"])) | set(SHAPES["SETTING"])
    assert [key for key in sorted(added) if f"`{key}`" not in text] == []


# Outcomes and events of the Python API
def aborted(runner: Runner) -> Any:
    """Start a run and abort it at the first reply."""

    async def go() -> Outcome:
        going = await runner.prepare(FINDER, "What?", listener=lambda event: event.event == "reply" and going.abort())
        return await going.outcome()

    return go()


GONE = ProviderError("gone", kind="quota", retry_after=3.5)
ENDINGS = {
    "answered": ([ANSWER], {}, "answered", 0, None),
    "landed": ([calls(("look", {})), ANSWER], {"tool_calls_limit": 1}, "landed", 0, None),
    "partial": ([calls(("look", {}))], {"tool_calls_limit": 1, "landing": "stop"}, "partial", 0, None),
    "provider": ([calls(("look", {})), GONE], {}, "failed", 3, "quota"),
    "context": ([calls(("look", {})), *[ContextExceeded("too long")] * 3], {}, "partial", 0, "context_exceeded"),
    "defect": ([calls(("look", {})), RuntimeError("a bug")], {}, "failed", 4, "internal"),
    "empty": ([says(""), says("")], {}, "failed", 4, None),
    "refused": ([says("", Stop.REFUSED)], {}, "failed", 4, None),
    "aborted": ([calls(("look", {}))], None, "aborted", 130, None),
}


@pytest.mark.parametrize(("script", "settings", "status", "code", "kind"), ENDINGS.values(), ids=ENDINGS)
async def test_the_outcome_has_the_same_shape_for_every_ending(tmp_path, script, settings, status, code, kind):
    """The outcome has the same keys and types for every ending; its exit code and kind of failure match the status."""
    async with Runner(root=tmp_path, provider=ScriptedProvider(script), tools=[LOOK]) as runner:
        outcome = await (aborted(runner) if settings is None else runner.run(FINDER, "What?", **settings))
    the_same((outcome.status, int(outcome.exit_code), outcome.error_kind), (status, code, kind))
    the_same(outcome.retry_after, 3.5 if kind == "quota" else None)
    holds(outcome.as_json(), SHAPES["OUTCOME"])


async def test_every_event_keeps_its_keys_and_types(tmp_path):
    """Nested, summarized, skipped, failed, landed and resumed runs emit every event of the table, with its shape."""
    told: list[events.Event] = []
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 3")
    write(tmp_path, "finder")
    down, busy = Unavailable("cannot reach it"), Unavailable("the API answered 429: busy", status=429, wait=3)
    asks = calls(("delegate", {"specialist": "finder", "query": "What?"}), ("look", {"none": 1}))
    many = calls(("look", {"query": "a"}), ("look", {"query": "b"}), first_id=3)
    lead = [asks, down, busy, many, ANSWER]
    store = f"sqlite:///{tmp_path}/runs.db"
    where = {"root": tmp_path, "dir": tmp_path / "specialists", "tools": [LOOK], "store": store}
    async with Runner(
        **where, provider=ScriptedSpecialists(lead=[lead], finder=[[calls(("look", {}), first_id=7), ANSWER]])
    ) as runner:
        run = await runner.prepare("lead", "What?", listener=told.append)
        assert run.steer("Only 2025.")
        await run.outcome()
    long = FINDER.model_copy(update={"summarize_at": 18})
    script = [calls(("look", {"query": "a" * 900})), calls(("look", {}), first_id=2), says("notes"), says("mice")]
    async with Runner(**where, provider=ScriptedProvider(script)) as runner:
        await runner.run(long, "What?", listener=told.append)
    async with Runner(**where, provider=ScriptedProvider([says("notes"), ANSWER])) as runner:
        await (await runner.resume("last", "And?", force=True, listener=told.append)).outcome()
        resumed = told[-1].outcome.run_id
    async with Runner(**where, provider=ScriptedProvider([ANSWER])) as runner:
        await (await runner.fork(resumed, at=1, force=True, listener=told.append)).outcome()
    edits = calls(("write", {"path": "new.md", "content": "new\n"}))
    editor = FINDER.model_copy(update={"tools": ("write",), "writable": (".",)})
    async with Runner(**where, provider=ScriptedProvider([edits, ANSWER])) as runner:
        await runner.run(editor, "Write.", listener=told.append)
    gone = ProviderError("the API answered 404: no such model", kind="model_missing")
    chain = ModelChain(ScriptedProvider([gone]), [ScriptedProvider([ANSWER])])
    async with Runner(**where, provider=chain) as runner:
        await runner.run(FINDER, "What?", listener=told.append)
    # Scripted models have no endpoint at which requests wait; see tests/wire/test_rate_limits.py.
    told += [events.Waiting("started", None, "busy"), events.Waiting("finished", 2.5, "busy")]
    for event in told:
        shape = {"event": event.event, **EVENTS[event.event]}
        holds(event.as_json(), shape)
        if isinstance(event, events.ChildTold):
            holds(event.told.as_json(), {"event": event.told.event, **EVENTS[event.told.event]})
    the_same({event.event for event in told}, set(EVENTS))
    the_same({event.phase for event in told if isinstance(event, events.Called)}, words("CALL_PHASES"))
    messages = json.loads(call(f"specialists transcript {resumed} --json --store {store}"))["messages"]
    for message in messages:
        holds(message, {"kind": message["kind"], **SHAPES["MESSAGES"][message["kind"]]})
    the_same({message["kind"] for message in messages}, set(SHAPES["MESSAGES"]))


# JSON output of the commands
@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project with notes, a valid and an invalid specialist, and a store, and change into it."""
    for folder in (".git", "specialists"):
        (tmp_path / folder).mkdir()
    (tmp_path / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    head = "---\nname: {}\ndescription: Finds\ntool_calls_limit: {}\n---\nYou find notes.\n"
    (tmp_path / "specialists" / "finder.md").write_text(head.format("finder", 2))
    (tmp_path / "specialists" / "bad.md").write_text(head.format("bad", "many"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPECIALIST_STORE", f"sqlite:///{tmp_path}/runs.db")
    return tmp_path


def call(command: str, *more: str, code: int = 0) -> str:
    """Run one of the two commands, check its exit code, and return its standard output."""
    name, *words = command.split()
    app = ask.app if name == "run-specialist" else manage.app
    result = CliRunner().invoke(app, [*words, *more], catch_exceptions=False)
    the_same((command, result.exit_code), (command, code))
    return result.stdout


def test_json_output_of_each_command_matches_its_table(project):
    """Each command prints one object with its table's keys and types; exit code 0, or 2 if a file has an error."""
    asked = ("run-specialist finder", "What do owls eat?", "--model", "offline", "--json")
    holds(json.loads(call(*asked)), SHAPES["PRINTED_OUTCOME"])
    holds(json.loads(call("specialists resume last --tool-calls-limit 5 --json")), SHAPES["PRINTED_OUTCOME"])
    for line in call(*asked[:-1], "--events").splitlines():
        event = json.loads(line)
        holds(event, {"event": event["event"], **EVENTS[event["event"]]})
    for command, arguments, code in (
        ("specialists list", "", 0),
        ("specialists check", "", 2),
        ("specialists show", "finder", 0),
        ("specialists show", "bad", 0),
        ("specialists runs", "", 0),
        ("specialists transcript", "last", 0),
        ("specialists report", "last", 0),
        ("specialists tune", "finder", 0),
        ("specialists config", "", 0),
    ):
        holds(json.loads(call(f"{command} {arguments} --json", code=code)), PRINTED[command])
    gone = json.loads(call("specialists runs last --delete --yes --json"))
    holds(gone, PRINTED["specialists runs --delete"])
