"""The names exported by the package are frozen, cheap to import, documented and typed."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import run_specialist

ROOT = Path(__file__).parents[2]
HEAVY = ["anthropic", "openai", "mcp", "opentelemetry", "sqlalchemy", "alembic", "pydantic", "jinja2", "platformdirs",
         "rich", "typer", "yaml", "genai_prices", "jsonschema"]  # fmt: skip
NAMES = [
    "AtWork",
    "Augmenter",
    "Batch",
    "BudgetSpent",
    "Called",
    "Child",
    "ChildTold",
    "Context",
    "Delegate",
    "Delegated",
    "Delta",
    "Done",
    "EndedRun",
    "Event",
    "Evidence",
    "Executed",
    "FileChanged",
    "Finished",
    "Forked",
    "Landed",
    "ModelChanged",
    "NotResumable",
    "NotTrusted",
    "Outcome",
    "Output",
    "ProviderError",
    "Replied",
    "Requested",
    "Resumed",
    "Retrying",
    "Run",
    "RunNotFound",
    "RunSpecialistError",
    "Runner",
    "Specialist",
    "SpecialistNotFound",
    "SpecialistUnusable",
    "Started",
    "StoreUnusable",
    "Stream",
    "Summarized",
    "Tool",
    "ToolError",
    "UsageError",
    "Waiting",
    "Warned",
    "delegate_tool",
    "run",
    "run_sync",
    "tool",
]
USER = '''
"""A program as somebody may write it."""

import asyncio

from run_specialist import (
    Augmenter, Called, Child, Context, Delta, Event, Executed, Finished, Outcome, Output, Run, Runner, Specialist,
    Stream, Tool, UsageError, delegate_tool, run, run_sync, tool,
)


@tool
async def ticket(number: str, context: Context) -> Output:
    """Return the text of a ticket."""
    left: float | None = context.left("tool_calls")
    return Output(f"{number}, {left}")


@tool(name="other", timeout=3)
def another(number: int) -> str:
    """Return another."""
    return str(number)


def tag(executed: Executed) -> str | None:
    return executed.call.name if executed.truncated else None


def listen(event: Event) -> None:
    match event:
        case Called(name=name, phase="failed"):
            print(name.upper())
        case Finished(outcome=outcome):
            print(outcome.status.upper())


def watch(piece: Delta) -> None:
    print(piece.text.upper())


def tokens(child: Child) -> int:
    return child.usage.total_tokens + sum(tokens(one) for one in child.children)


async def main() -> Outcome:
    tools: list[Tool] = [ticket, another]
    augmenters: list[Augmenter] = [tag]
    finder = Specialist(name="finder", description="", prompt="You find.", tool_calls_limit=3)
    async with Runner(tools=tools, augmenters=augmenters) as runner:
        prepared: Run = await runner.prepare(finder, "What?", listener=listen, watch=watch, tool_calls_limit=None)
        ended: Outcome | None = prepared.ended
        stream: Stream = runner.stream("finder", "What?", time_limit=3)
        async with stream, asyncio.timeout(5):
            async for event in stream:
                print(event.event.upper(), ended)
    async with delegate_tool("finder") as delegate:
        print((await delegate({"specialist": "finder", "query": "What?"})).text.upper())
    outcome = await run(finder, "What?")
    return stream.outcome if outcome.status == "failed" else outcome


try:
    print(run_sync("finder", "What?").answer.upper(), asyncio.run(main()).as_json()["status"])
except UsageError as error:
    print(str(error))
'''


WRONG = """
from run_specialist import Outcome, nonsense


def say(outcome: Outcome) -> int:
    return outcome.answer
"""


def test_the_public_names_are_frozen():
    """The public names are exactly these: adding one is a decision, removing one a breaking change."""
    assert run_specialist.__all__ == NAMES == sorted(NAMES, key=lambda name: (name.islower(), name))
    assert set(NAMES) <= set(dir(run_specialist))
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = run_specialist.nonsense


def test_the_version_is_that_of_the_installed_package():
    """`__version__` is the version in the metadata, and is found by `dir`."""
    assert run_specialist.__version__ == version("run-specialist")
    assert "__version__" in dir(run_specialist)


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_imported_and_has_a_docstring(name):
    """Each name can be imported, has its own docstring, and is the same object at each import."""
    value = getattr(run_specialist, name)
    assert getattr(run_specialist, name) is value
    if name == "Augmenter":
        source = ast.parse((ROOT / "src/run_specialist/loop/job.py").read_text(encoding="utf-8"))
        place = next(
            i for i, node in enumerate(source.body) if isinstance(node, ast.Assign) and node.targets[0].id == name
        )
        assert source.body[place + 1].value.value
    else:
        assert value.__doc__.strip()
        assert not value.__doc__.startswith(f"{name}("), "that of a dataclass is made, not written"


def test_importing_the_package_loads_nothing_heavy():
    """Importing the package and its entry points, in a separate process, loads nothing that only a request needs."""
    program = f"""
import sys
import run_specialist
print([name for name in {HEAVY!r} if name in sys.modules])
run_specialist.Runner, run_specialist.delegate_tool, run_specialist.run_sync
late = {["anthropic", "openai", "mcp", "opentelemetry", "sqlalchemy", "jinja2", "platformdirs"]!r}
print([name for name in late if name in sys.modules])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n[]\n"


def problems(folder, **programs):
    """Check programs that use the package with mypy, strictly as this package is, and return its lines.

    Everything but the programs themselves comes from the cache if mypy has checked this package before.
    """
    pytest.importorskip("mypy", reason="mypy belongs to the linters and is not installed")
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(program, encoding="utf-8")
    shared = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *shared, *(f"{name}.py" for name in programs)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    told = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return told.stdout.splitlines() + told.stderr.splitlines()


@pytest.mark.exhaustive
def test_a_program_using_the_package_passes_type_checks(tmp_path):
    """A program that uses the lazily imported names passes strict type checks.

    An unknown name and a wrong use are reported.
    """
    missing, misused = problems(tmp_path, user=USER, wrong=WRONG)
    assert missing.startswith("wrong.py:2: ")
    assert '"nonsense"' in missing
    assert misused.startswith("wrong.py:6: ")
    assert 'got "str", expected "int"' in misused


def test_the_package_contains_its_type_marker():
    """The package contains the `py.typed` marker, and the wheel includes the entire package."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert built["wheel"]["packages"] == ["src/run_specialist"]
    assert "exclude" not in built["wheel"]
    assert (ROOT / "src/run_specialist/py.typed").is_file()
