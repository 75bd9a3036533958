"""The names exported by the package are frozen, cheap to import and documented; `test_call_types` shows their types."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest

import run_specialist

ROOT = Path(__file__).parents[2]
HEAVY = ["anthropic", "openai", "mcp", "opentelemetry", "sqlalchemy", "alembic", "pydantic", "jinja2", "platformdirs",
         "rich", "typer", "yaml", "genai_prices", "jsonschema"]  # fmt: skip
NAMES = """
    AtWork Augmenter Batch BudgetSpent Called Child ChildTold Context Delegate Delegated Delta Done EndedRun
    Event Evidence Executed FileChanged Finished Forked Landed ModelChanged NotResumable NotTrusted Outcome
    Output ProviderError Replied Requested Resumed Retrying Run RunNotFound RunSpecialistError Runner Specialist
    SpecialistNotFound SpecialistUnusable Started Steered StoreUnusable Stream Summarized Tool ToolError UsageError
    Waiting Warned delegate_tool run run_sync tool
""".split()  # noqa: SIM905 - one name a line would be fifty lines


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


def test_each_can_be_imported_and_has_a_docstring():
    """Each name can be imported, has its own docstring, and is the same object at each import."""
    source = ast.parse((ROOT / "src/run_specialist/loop/job.py").read_text(encoding="utf-8"))
    documented = {
        node.targets[0].id: after.value.value
        for node, after in pairwise(source.body)
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr)
    }
    assert documented.pop("Augmenter")
    for name in NAMES:
        value = getattr(run_specialist, name)
        assert getattr(run_specialist, name) is value
        assert name == "Augmenter" or value.__doc__.strip()
        assert not str(value.__doc__).startswith(f"{name}("), "that of a dataclass is made, not written"


@pytest.mark.exhaustive
def test_imports_and_an_offline_run_load_nothing_heavy(tmp_path):
    """The package and its entry points load nothing that only a request needs, an offline run no SDK and no tracing."""
    program = f"""
import sys
import run_specialist
print([name for name in {HEAVY!r} if name in sys.modules])
run_specialist.Runner, run_specialist.delegate_tool, run_specialist.run_sync
late = {["anthropic", "openai", "mcp", "opentelemetry", "sqlalchemy", "jinja2", "platformdirs"]!r}
print([name for name in late if name in sys.modules])
finder = run_specialist.Specialist(name="finder", description="", prompt="You find.")
outcome = run_specialist.run_sync(finder, "What do owls eat?", model="offline")
print(outcome.status, [name for name in ("anthropic", "openai", "opentelemetry") if name in sys.modules])
"""
    (tmp_path / "owls.md").write_text("Owls eat mice.")
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n[]\nanswered []\n", told.stderr


def test_the_package_contains_its_type_marker():
    """The package contains the `py.typed` marker, and the wheel includes the entire package."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert built["wheel"]["packages"] == ["src/run_specialist"]
    assert "exclude" not in built["wheel"]
    assert (ROOT / "src/run_specialist/py.typed").is_file()
