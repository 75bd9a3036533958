"""The names exported by the package are frozen, cheap to import and documented; `test_call_types` shows their types."""

import ast
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


@pytest.mark.exhaustive
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


def test_the_package_contains_its_type_marker():
    """The package contains the `py.typed` marker, and the wheel includes the entire package."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert built["wheel"]["packages"] == ["src/run_specialist"]
    assert "exclude" not in built["wheel"]
    assert (ROOT / "src/run_specialist/py.typed").is_file()
