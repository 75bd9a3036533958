"""The page on Python: every example runs unchanged and all public names occur; tables of events, errors, spans."""

import ast
import asyncio
import io
import re
import shutil
from functools import partial
from unittest.mock import patch

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import export

import run_specialist
from run_specialist import errors
from run_specialist.record import events
from tests.docs.examples import execute
from tests.docs.markdown import ROOT, blocks, page, table

PAGE, SPANS = page("python").split("\n## Telemetry\n")
EXAMPLES = re.findall(r"^```python( no-loop)?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Change into a copy of this project's notes and specialists."""
    (tmp_path / ".git").mkdir()
    for folder in ("thoughts", "specialists"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_every_example_runs(project, capsys, place):
    """Every example runs offline, with or without an event loop as stated, and prints something."""
    no_loop, example = EXAMPLES[place]
    if no_loop:
        exec(example, {"__name__": "example"})  # noqa: S102 - an example from this repository
    else:
        asyncio.run(execute(example))
    assert capsys.readouterr().out.strip()


def test_every_public_name_is_imported_in_an_example():
    """Every public name is imported in an example, which shows where it comes from and fails when it is removed."""
    imported = set()
    for _, example in EXAMPLES:
        code = compile(example, "example", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(code):
            if isinstance(node, ast.ImportFrom) and node.module == "run_specialist":
                imported |= {alias.name for alias in node.names}
    assert imported == set(run_specialist.__all__)


def test_the_tables_of_events_and_errors_match_the_code():
    """The tables of events and of errors that a program may meet match the code."""
    told = [name for row in table(PAGE, "## Events") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(told) == sorted({one.__name__ for one in events.Event.__subclasses__()})
    rows = [row[0].strip("`") for row in table(PAGE, "## Exceptions")]
    public = {name for name in run_specialist.__all__ if isinstance(getattr(errors, name, None), type)}
    assert set(rows) == public - {"RunSpecialistError"}
    below = [name for name in rows if issubclass(getattr(errors, name), errors.UsageError)]
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert f"the base of the next {words[len(below) - 1]}" in PAGE


def test_the_stream_example_lands_with_three_calls(project, capsys):
    """The example of a stream lands with its three calls, and prints so from the events."""
    (example,) = [text for _, text in EXAMPLES if "runner.stream" in text]
    names = asyncio.run(execute(example))
    told = capsys.readouterr().out
    assert "at the limit of" in told
    assert names["stream"].outcome.status == "landed"


def test_the_tool_of_the_page_works():
    """The tool on the page works: its docstring is read, its context is passed, its error has a message."""
    (example,) = [text for _, text in EXAMPLES if "@tool" in text]
    names = {}
    exec(example.split("assert isinstance")[0], names)  # noqa: S102 - an example from this repository
    assert names["ticket"].input_schema["properties"]["number"]["description"] == "without the hash."
    assert set(names["ticket"].input_schema["properties"]) == {"number"}


def test_every_attribute_of_a_span_is_documented():
    """The documented span attributes are exactly those that the code can set."""
    source = (ROOT / "src/run_specialist").rglob("*.py")
    said = [path.read_text(encoding="utf-8") for path in source if path.stem == "observing"]
    attribute = r"((?:gen_ai|run_specialist|error)\.[a-z_.]+)"
    assert set(re.findall(f"`{attribute}`", SPANS)) == set(re.findall(f'"{attribute}"', "".join(said)))


def test_the_span_example_prints_the_run_and_its_children(project, monkeypatch):
    """The example prints the run and its child spans to the console."""
    (example,) = blocks(SPANS, "python")
    # The exporter's default stream is sys.stdout at the first import, which may be that of another test.
    console = io.StringIO()
    monkeypatch.setattr(export, "ConsoleSpanExporter", partial(export.ConsoleSpanExporter, out=console))
    with patch("opentelemetry.trace.set_tracer_provider") as chosen:
        chosen.side_effect = lambda provider: setattr(trace, "_TRACER_PROVIDER", provider)
        with patch("opentelemetry.trace._TRACER_PROVIDER", None):
            names = asyncio.run(execute(example))
            names["provider"].shutdown()
    told = console.getvalue()
    assert [f'"name": "{name}' in told for name in ("invoke_agent", "chat offline", "execute_tool")] == [True] * 3
    assert "Why a soft landing?" not in told
