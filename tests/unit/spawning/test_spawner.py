"""From a file and a question to a job: precedence of settings, available tools, format of the countdown."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.loop.job import Executed
from run_specialist.record.messages import ToolCall
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.settings import resolve
from run_specialist.tools.base import Tool
from tests.scripted_provider import ScriptedProvider

PATH = Path("specialists/finder.md")


def file_of(*lines, body="You find notes."):
    """Load a file with these lines of front matter."""
    return load_text("\n".join(["---", "name: finder", "description: Finds", *lines, "---", body, ""]), PATH)


def job_of(root, *lines, tools=(), augmenters=(), **overrides):
    """Return the job of a run."""
    file = file_of(*lines)
    around = RunEnvironment(root, ScriptedProvider([]), tools, augmenters)
    return spawn(file, resolve(file, overrides).settings, "What is known?", around)


def tool(name):
    """Return a tool that returns its name."""

    def tell() -> str:
        return f"mine: {name}"

    return Tool(name, "Mine.", tell)


def countdown(job, count):
    """Return the last augmenter's line after each of `count` calls."""
    lines, budget = [], job.budget
    for number in range(count):
        budget = budget.spend()
        call = ToolCall(f"call_{number}", "read", {})
        lines.append(job.augmenters[-1](Executed(call, "x", is_error=False, repeated=False, budget=budget)))
    return lines


@pytest.mark.parametrize(
    ("lines", "overrides", "limit"),
    [
        (["tool_calls_limit: 10"], {"tool_calls_limit": 2}, 2),
        (["tool_calls_limit: 2"], {"tool_calls_limit": 10}, 10),
        (["tool_calls_limit: 10"], {"tool_calls_limit": 0}, 0),
        (["tool_calls_limit: 10"], {"tool_calls_limit": None}, None),
        (["tool_calls_limit: none"], {"tool_calls_limit": 4}, 4),
        (["tool_calls_limit: 10"], {}, 10),
        (["tool_calls_limit: 0"], {}, 0),
        (["tool_calls_limit: none"], {}, None),
        ([], {"tool_calls_limit": 4}, 4),
        ([], {"tool_calls_limit": None}, None),
        ([], {}, 30),
    ],
)
def test_s3_4_explicit_limit_overrides_file_and_default(root, lines, overrides, limit):
    """An explicit limit overrides the file, which overrides the default; 0 is a limit, explicit None means no limit."""
    job = job_of(root, *lines, **overrides)
    assert job.budget[Kind.TOOL_CALLS].limit == limit
    assert ("Tool budget: " in job.opening.system) is (limit is not None)


def test_s0_5_tools_and_prompt_are_frozen_at_the_start(root):
    """The caller's later changes do not reach a run, and a job's fields cannot be reassigned."""
    mine = [tool("mine")]
    job = job_of(root, "tools: []", tools=mine)
    mine.append(tool("another"))
    assert job.opening.tools.names == ("get_tool_response", "mine", "respond")
    with pytest.raises(FrozenInstanceError):
        job.opening.tools = ()
    with pytest.raises(FrozenInstanceError):
        job.opening = replace(job.opening, system="")
    assert not hasattr(job.opening.tools, "__setitem__")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([], ["notes/deep/bats.md", "notes/owls.md", "plans/next.md", "top.md"]),
        (["paths: notes/"], ["notes/deep/bats.md", "notes/owls.md"]),
        (["paths: [plans, top.md]"], ["plans/next.md", "top.md"]),
        (["paths: notes/*.md"], ["notes/owls.md"]),
        (["paths: missing, plans"], ["plans/next.md"]),
    ],
    ids=" ".join,
)
async def test_paths_limit_the_files_that_tools_see(root, lines, seen):
    """`paths` takes folders, files and globs; a missing one is ignored while another one exists."""
    tools = job_of(root, *lines).opening.tools
    assert (await tools.get("glob").call({"pattern": "**"})).text.splitlines() == seen


@pytest.mark.anyio
async def test_a_custom_tool_may_replace_a_file_tool_but_not_respond(root):
    """A caller's `read` replaces the built-in one; `respond`, which returns the answer, cannot be replaced."""
    tools = job_of(root, tools=[tool("read"), tool("respond")]).opening.tools
    assert (await tools.get("read").call({})).text == "mine: read"
    assert "answer" in tools.get("respond").input_schema["properties"]


def test_s3_3_custom_augmenters_run_before_the_countdown(root):
    """The caller's augmenters run in the given order, and the countdown runs last."""

    def first(executed):
        return "first"

    def second(executed):
        return "second"

    job = job_of(root, "tool_calls_limit: 2", augmenters=[first, second])
    assert job.augmenters[:-1] == (first, second)
    assert countdown(job, 2) == ["1 tool call remaining", "0 tool calls remaining"]


LEFT = "[budget: {} of 5 tool calls left — wrap up soon]".format
NOW = "[budget: 0 left — finalize NOW]"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], [None, None, "2 tool calls remaining", "1 tool call remaining", "0 tool calls remaining"]),
        (
            ["countdown: {style: remaining}"],
            [None, None, *("2 tool calls remaining", "1 tool call remaining"), "0 tool calls remaining"],
        ),
        (["countdown: {from: 3, style: budget}"], [None, LEFT(3), LEFT(2), LEFT(1), NOW]),
        (["countdown:", "  style: Budget", "  from: 1"], [None, None, None, LEFT(1), NOW]),
        (["countdown: {from: 0.8, style: budget}"], [None, None, None, LEFT(1), NOW]),
        (["countdown: {from: 1.0}"], [None, None, None, None, "0 tool calls remaining"]),
        (["countdown: {from: 0}"], [None, None, None, None, "0 tool calls remaining"]),
        (["countdown: {from: 5, style: budget}"], [LEFT(4), LEFT(3), LEFT(2), LEFT(1), NOW]),
    ],
    ids=lambda value: " ".join(value) if all(isinstance(one, str) for one in value) else None,
)
def test_s3_2_start_and_style_of_the_countdown_come_from_the_file(root, lines, words):
    """Of 5 calls, an integer is calls left and a fraction the share spent; style `budget` uses the plural at 1 too."""
    assert countdown(job_of(root, "tool_calls_limit: 5", *lines), 5) == words


def test_s0_8_without_a_limit_there_is_no_countdown_in_any_style(root):
    """Without a tool call limit there is no countdown in any style."""
    job = job_of(root, "tool_calls_limit: none", "countdown: {from: 3, style: budget}")
    assert countdown(job, 50) == [None] * 50


@pytest.mark.parametrize(
    "body", ["You find notes.", "Ends with blanks. \n\n", "", "Tool budget: you have 99 tool calls."]
)
def test_s3_1_the_prompt_is_the_body_then_the_rules_then_the_budget(root, body):
    """The unchanged body comes first, the rule that results are data appears once, the resolved budget is last."""
    file = file_of("tool_calls_limit: 1", body=body)
    job = spawn(file, resolve(file, {}).settings, "What?", RunEnvironment(root, ScriptedProvider([])))
    system = job.opening.system
    assert system.startswith(body.strip())
    assert system.count(prompts.DATA_NOT_INSTRUCTIONS) == 1
    assert system.split("\n\n")[-1] == prompts.notice(Budget.of({Kind.TOOL_CALLS: 1}))
    assert prompts.notice(Budget.of({Kind.TOOL_CALLS: 1})).startswith("Tool budget: you have 1 tool call for")
