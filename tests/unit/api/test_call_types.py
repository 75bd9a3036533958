"""Types of calls: an editor completes the settings, and a type checker refuses a misspelt one."""

import json
import os
import re
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path
from typing import get_type_hints

import pytest

import run_specialist
from run_specialist import Runner
from run_specialist.api.runner import MapOptions, ResumeOptions, RunOptions
from run_specialist.specialist.fields import Limits, Settings, Specialist

SOURCES = Path(run_specialist.__file__).parents[1]
IDENTITY = {"name", "description", "prompt", "path"}
"""Fields of a specialist that no call overrides."""
RIGHT = """
import asyncio

from run_specialist import Event, Outcome, Runner, delegate_tool, run, run_sync


def listen(event: Event) -> None:
    print(event.event)


async def main() -> Outcome:
    async with Runner(model="offline") as runner:
        await runner.run("finder", "What?", tool_calls_limit=3, time_limit="90s", tools=["read"], listener=listen)
        run_ = await runner.prepare("finder", query="What?", landing="order", countdown={"from": 0.5}, model="haiku")
        await run_.outcome()
        runner.stream("finder", question="What?", preset="finalize", evidence="require", cost_limit=None)
        async for done in runner.map("finder", ["a"], "What of {item}?", at_once=3, cost_limit=1.5, retry=["failed"]):
            print(done.number, done.outcome and done.outcome.answer)
        await runner.resume("last", "And?", tool_calls_limit=9, force=True, listener=listen)
    delegate_tool("finder", tool_calls_limit=3, model="haiku")
    return await run("finder", "What?", output_schema={"type": "object"}, share_budget=False)


run_sync("finder", "What?", store="none", turns_limit=3)
asyncio.run(main())
"""
WRONG = [
    ('run_sync("finder", "What?", tool_call_limit=3)', "tool_call_limit"),
    ('run_sync("finder", "What?", tool_calls_limit="3")', "tool_calls_limit"),
    ('run_sync("finder", "What?", landing="softly")', "landing"),
    ('Runner().stream("finder", "What?", evidence=True)', "evidence"),
    ('Runner().prepare("finder", "What?", listener=3)', "listener"),
    ('Runner().resume("last", landing="order")', "landing"),
    ('delegate_tool("finder", call_limit=3)', "call_limit"),
    ("run_sync(3)", "specialist"),
    ('Runner().map("finder", ["a"], at_one=3)', "at_one"),
    ('Runner().map("finder", [3])', "items"),
]


def test_every_setting_has_a_type():
    """Each key that a call can override is typed, and no other; `model` is an option of a call."""
    assert set(get_type_hints(Settings)) == set(Specialist.model_fields) - IDENTITY - {"model"}
    assert set(get_type_hints(Limits)) == {name for name in Specialist.model_fields if name.endswith("_limit")} - {
        "parallel_tools_limit",
        "tool_result_limit",
        "summary_limit",
    }
    extra = {"question", "listener", "watch"}
    assert set(RunOptions.__annotations__) == set(get_type_hints(Settings)) | extra | {"model"}
    assert set(ResumeOptions.__annotations__) == set(get_type_hints(Limits)) | extra
    # The cost limit of a batch is that of all its items together.
    of_a_batch = {"model", "at_once", "typical_cost", "retry", "batch", "source", "breaker", "pause_limit"}
    assert set(MapOptions.__annotations__) == set(get_type_hints(Settings)) | of_a_batch


RUNNER = Runner.run, Runner.prepare, Runner.stream, Runner.resume, Runner.take_up, Runner.map


@pytest.mark.parametrize("call", [run_specialist.run, run_specialist.run_sync, *RUNNER], ids=lambda call: call.__name__)
def test_each_call_documents_its_arguments(call):
    """The docstring that `help` prints explains every argument in place, without reference to another function."""
    documented = cleandoc(call.__doc__)
    for argument in call.__annotations__:
        if argument not in {"return", "self"}:
            assert f"\n{argument}: " in documented


@pytest.mark.parametrize("call", [run_specialist.run, run_specialist.run_sync, Runner.run])
def test_help_lists_the_options_by_name(call):
    """A signature shows only `**options`."""
    assert {"tool_calls_limit", "landing", "writable", "model"} <= set(re.findall(r"\w+", cleandoc(call.__doc__)))


@pytest.mark.exhaustive
def test_pyright_accepts_right_calls_and_refuses_wrong_ones(tmp_path):
    """In strict mode calls of each kind have no error, and a misspelt setting or a wrong type is one that names it."""
    pytest.importorskip("pyright", reason="pyright belongs to the linters and is not installed")
    (tmp_path / "right.py").write_text(RIGHT, encoding="utf-8")
    imports = "from run_specialist import Runner, delegate_tool, run_sync\n"
    wrong = imports + "\n".join(f"_{n} = {call}" for n, (call, _) in enumerate(WRONG)) + "\n"
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    settings = {"extraPaths": [str(SOURCES)], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "right.py", "wrong.py"]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    checked = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    told = json.loads(checked.stdout)
    assert told["summary"]["filesAnalyzed"] == 2, checked.stderr
    found = {"right.py": [], "wrong.py": []}
    for problem in told["generalDiagnostics"]:
        if problem["severity"] == "error":
            found[Path(problem["file"]).name].append((problem["range"]["start"]["line"], problem["message"]))
    assert found["right.py"] == []
    for number, (call, name) in enumerate(WRONG, start=1):
        messages = [message for line, message in found["wrong.py"] if line == number]
        assert any(name in message for message in messages), call
