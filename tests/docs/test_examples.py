"""Every command of the README and the documents, run as it is written there in an installation without extras."""

import ast
import asyncio
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import pytest
import typer
import yaml
from opentelemetry import trace
from opentelemetry.sdk.trace import export
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

import run_specialist
from run_specialist import errors
from run_specialist.api.runner import Runner
from run_specialist.batch.item import Counts
from run_specialist.batch.read_items import FORMATS
from run_specialist.cli import batch_options, manage, map_progress
from run_specialist.cli.install import CLIENTS
from run_specialist.cli.manage import app
from run_specialist.cli.map_progress import TELLING
from run_specialist.evals.comparison import Verdict, fewest_cases
from run_specialist.mcp_server import http as access_token
from run_specialist.mcp_server import runs, server, tools
from run_specialist.mcp_server.tools import Catalogue
from run_specialist.record import events
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.mcp_servers import LONGEST_START, START_TIMEOUT
from run_specialist.tools.mcp_session import LARGEST_MESSAGE, LONGEST_RESULT, MOST_PAGES, MOST_TOOLS
from tests.contracts.tables import BATCH_EVENTS, PRINTED, SHAPES
from tests.docs.markdown import DOCUMENTS, JSON, ROOT, blocks, execute, named, page, table
from tests.evals.git_project import NEEDS_GIT, commit
from tests.evals.test_own_sets import MARGIN, MEASURED
from tests.loop_jobs import results
from tests.map_batches import done
from tests.scripted_provider import ScriptedProvider, calls, says

PAGES = [path for path in DOCUMENTS if path == ROOT / "README.md" or path.parent.name == "docs"]
PROGRAMS = ("run-specialist", "specialists")
COMMAND = re.compile(rf"(?:.*\| )?(?:\w+=\S+ )*(?:uv run )?(?:{'|'.join(PROGRAMS)})(?: .*)?", re.DOTALL)
NAMED = re.compile(
    r"needs? (the extra|a package that is not installed).*; run: uv sync .*--extra \w+$|"
    r"no credentials for .*: set \w+_API_KEY|needs a model, .*; set ANTHROPIC_API_KEY|"
    r"--yes is required without a terminal|is already answered; to ask a follow-up question"
)
"""What a command may say instead of working: the extra, the variable with a key, or that it would ask first.

On the README, other examples come between the run that reaches its limit and the line that resumes it.
"""
REPORTS = ("specialists check",)
"""Commands whose exit code 2 is a result: the new file of the README still has lines to fill in."""
COPIED = (
    *("README.md", "CHANGELOG.md", "pyproject.toml", "specialists", "thoughts/shared/decisions/2026-11-21"),
    *("docs/limits.md", "docs/evals.md", "src/run_specialist/loop/loop.py"),
)
"""A part of this repository, so that each search is quick."""
FILES = {
    "summary.md": "A sub-agent lands softly at its limit.\n",
    "questions.txt": "Why a soft landing?\nWhich database do we use?\n",
    "tickets.csv": "customer,subject\nOwl Ltd,countdown\n",
    "specialists/finder.md": "---\nname: finder\ndescription: Finds notes.\n---\nYou find notes.\n",
    "specialists/ticket-reader.md": "---\nname: ticket-reader\ndescription: Reads.\n---\nYou read tickets.\n",
    "drafts/codebase-analyst.md": (ROOT / "specialists/codebase-analyst.md").read_text(encoding="utf-8"),
    "drafts/thoughts-analyzer.md": (ROOT / "specialists/thoughts-analyzer.md").read_text(encoding="utf-8"),
}
"""Files of the reader that the documents mention."""

# Run before the program: an import finds no package of an extra.
_BASE = """
import sys
from importlib.machinery import PathFinder
missing, find = {missing!r}, PathFinder.find_spec
def find_spec(name, path=None, target=None):
    parts = name.split(".")
    return None if missing & {{".".join(parts[:end]) for end in (1, 2)}} else find(name, path, target)
PathFinder.find_spec = find_spec
"""
_FORKS = """
import gc, importlib, json, os
from contextlib import suppress
sys.path.insert(0, {root!r})
from tests.program_forks import PROGRAMS, REQUESTS, end
del sys.path[0]
for name in [*REQUESTS, *PROGRAMS]:
    with suppress(ImportError):
        importlib.import_module(name)
from run_specialist.cli import entry
gc.freeze()
for text in sys.stdin:
    start = json.loads(text)
    if not (program := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), flush=True)
else:
    sys.exit()
for number, path in enumerate((start["stdin"], "out", "err")):
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
    os.dup2(os.open(os.path.join(start["outputs"], path), flags), number)
os.chdir(start["cwd"])
os.environ.clear()
os.environ.update(start["env"])
sys.argv = start["words"]
try:
    getattr(entry, sys.argv[0].replace("-", "_"))()
except SystemExit as left:
    end(left.code)
    raise
end(0)
"""
"""Forks a program for each line of standard input, and prints its exit code: the imports take most of its time."""
QUOTED = re.compile(r"""'[^']*'|"[^"$`]*"| #.*""")


def commands(page):
    """Return the commands of this package on a page, in order, with the lines that continue them."""
    found = []
    for block in blocks(page.read_text(encoding="utf-8"), "console"):
        lines = block.replace("\\\n", "").splitlines()
        # In a recorded session, the other lines are output.
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        found += [line for line in typed if COMMAND.fullmatch(line)]
    return [line.replace("uv run ", "") for line in found]


@cache
def missing():
    """Return the modules that an installation without extras lacks."""
    waiting, seen = [Requirement("run-specialist")], set()
    while waiting:
        one = waiting.pop()
        if (one.name, *one.extras) not in seen:
            seen.add((one.name, *one.extras))
            wanted = [Requirement(text) for text in requires(one.name) or ()]
            # With the extras that a requirement asks for, such as anthropic[aiohttp].
            extras = [{"extra": extra} for extra in ("", *one.extras)]
            waiting += [it for it in wanted if it.marker is None or any(map(it.marker.evaluate, extras))]
    base = {canonicalize_name(name) for name, *_ in seen}
    known = packages_distributions().items()
    lacking = {module for module, owners in known if not base & set(map(canonicalize_name, owners))}
    return lacking | {"opentelemetry.sdk"}


@pytest.fixture(scope="module")
def forks():
    """The process that forks the programs."""
    command = [sys.executable, "-c", _BASE.format(missing=missing()) + _FORKS.replace("{root!r}", repr(str(ROOT)))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A small copy of this repository with a commit and a change."""
    project = tmp_path_factory.mktemp("template") / "project"
    for name in COPIED:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            # Without the cases of evals, which a document creates.
            shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("*.evals.yaml"))
        else:
            shutil.copy(ROOT / name, project / name)
    commit(project, **FILES)
    (project / "summary.md").write_text(f"{FILES['summary.md']}The limit of tool calls is 30.\n")
    return project


@pytest.fixture
def run(forks, template, tmp_path):
    """Return a function that runs a line as a shell does in a copy of the template, with a new home folder."""
    project, home = tmp_path / "project", tmp_path / "home"
    home.mkdir()
    shutil.copytree(template, project)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "SHELL": "/bin/sh"}

    def run_line(line):
        assert not re.search(r"[;&*$~`]", QUOTED.sub("", line)), "only a shell can read this line"
        before, _, rest = line.rpartition(" | ")
        command, _, target = rest.partition(" > ")
        command, _, source = command.partition(" < ")
        words = shlex.split(command, comments=True)
        own = [word for word in words if re.match(r"[A-Z_]+=", word)]
        if before:
            source = "piped"
            (project / source).write_bytes(subprocess.check_output(shlex.split(before), cwd=project))
        start = {
            "words": words[len(own) :],
            "cwd": str(project),
            "env": env | dict(word.split("=", 1) for word in own),
            "outputs": str(tmp_path),
            "stdin": str(project / source) if source else os.devnull,
        }
        print(json.dumps(start), file=forks.stdin, flush=True)
        code = int(forks.stdout.readline())
        done = subprocess.CompletedProcess(line, code, *((tmp_path / name).read_text() for name in ("out", "err")))
        if target:
            (project / target).write_text(done.stdout)
        return done

    run_line.project = project
    return run_line


def write_examples(page, project):
    """Write the specialists and the files that a page shows, as its reader does."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text, "markdown"):
        found = re.search(r"^name: (.*)$", block, re.MULTILINE)
        if found and f"specialists new {found[1]}" not in text:
            (project / "specialists" / f"{found[1]}.md").write_text(block)
    for name, block in re.findall(r"```\w+ (\S+)\n(.*?)```", text, re.DOTALL):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(block)


@pytest.mark.exhaustive
@NEEDS_GIT
@pytest.mark.parametrize("page", [*filter(commands, PAGES)], ids=lambda page: page.name)
def test_t13_every_command_works_or_names_what_it_needs(run, page):
    """Without extras and keys, each exits with 0, or with 2 and one line that names the extra or the variable."""
    write_examples(page, run.project)
    first = ['run-specialist thoughts-analyzer "Why a soft landing?"'] * (" last" in "".join(commands(page)))
    failed = []
    for line in [*first, *commands(page)]:
        done = run(line)
        *before, last = done.stderr.splitlines() or [""]
        # `map` announces the batch first.
        named = len(before) <= 1 and NAMED.search(last) is not None
        if not (done.returncode == 0 or (done.returncode == 2 and (named or line.startswith(REPORTS)))):
            failed.append(f"{line}\nexit code {done.returncode}\n{done.stderr}")
    assert not failed, "\n\n".join(failed)


def test_t13_there_are_commands_and_missing_packages():
    """The test above finds the commands of the README, and the packages of each extra."""
    assert len(commands(PAGES[0])) > 10
    assert {"mcp", "openai", "pgqueuer", "psycopg", "pydantic_evals", "trafilatura"} <= missing()
    assert not {"aiohttp", "anthropic", "pydantic", "typer"} & missing()


# The compose file of the docs: its commands exist, and its services agree with one another.
SERVICES = yaml.safe_load((Path(__file__).parents[2] / "docs" / "compose.yaml").read_text())["services"]


def parsed(words):
    """Return the command that a command line names, and its values; an unknown option raises."""
    command, name = typer.main.get_command(manage.app), words[0]
    context, rest = command.make_context(name, [], resilient_parsing=True), words[1:]
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
    return name, command.make_context(name, rest).params


def test_the_services_of_the_compose_file_agree():
    """Its command lines are accepted, the root of the workers is their volume, the store is the database."""
    worker = SERVICES["worker"]
    for service in ("setup", "worker"):
        words = SERVICES[service]["command"]
        assert (words[0], parsed(words)[0]) == ("specialists", service)
    (root,) = parsed(worker["command"])[1]["root"]
    assert root.partition("=")[2] == worker["volumes"][0].split(":")[-2]
    assert (worker["stop_grace_period"], worker["deploy"]["replicas"]) == ("2m", 3)
    database, environment = SERVICES["database"]["environment"], worker["environment"]
    assert environment == SERVICES["setup"]["environment"]
    assert environment["SPECIALIST_STORE"] == (
        f"postgresql://{database['POSTGRES_USER']}:{database['POSTGRES_PASSWORD']}@${{DATABASE_HOST:-database}}:5432/fleet"
    )


PAGE = page("evals")
CASES = next(text for text in blocks(PAGE, "yaml") if "# looks-up.evals.yaml" in text)


@pytest.fixture
def looked_up(tmp_path, monkeypatch):
    """Create a project with a note, a specialist and the cases of the page."""
    for folder in (".git", "notes", "specialists"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes/herons.md").write_text("# Herons\n\nHerons eat fish and frogs.\n\nHerons nest in a tree.\n")
    (tmp_path / "specialists/looks-up.md").write_text("---\nname: looks-up\ndescription: Looks up.\n---\nYou look.\n")
    (tmp_path / "specialists/looks-up.evals.yaml").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(*words):
    """Call the command offline in this process."""
    return CliRunner().invoke(app, ["eval", "looks-up", "--model", "offline", *words], catch_exceptions=False)


def test_the_page_on_evals_matches_the_code():
    """Each flag is one of the command; the tables have the evaluators, verdicts and scores, the text the numbers."""
    from run_specialist.evals.evaluators import OWN

    rows = [re.match(r"`(\w+)", row[0])[1] for row in table(PAGE, "## Evaluators")]
    assert sorted(rows) == sorted(one.__name__ for one in OWN)
    assert all(f"\n| {verdict} | " in PAGE for verdict in get_args(Verdict))
    assert fewest_cases(0.05) == 6, "the page says: fewer than six"
    measured = (ROOT / "bench/answers.md").read_text(encoding="utf-8")
    scores = {row[0].strip("`"): row[1:3] for row in table(measured, "### The sets of this repository")}
    assert scores == {name: [f"{one.score:.2f}", f"{one.passed} of 8"] for name, one in MEASURED.items()}
    assert f"falls by more than {MARGIN}" in " ".join(measured.split())
    told = CliRunner().invoke(app, ["eval", "--help-all"]).stdout
    text = re.sub(r"```yaml\n# \.github.*?```", "", PAGE, flags=re.DOTALL)
    assert [flag for flag in sorted(set(re.findall(r"--[a-z][a-z-]+", text))) if f"{flag} " not in told] == []
    workflow = yaml.safe_load(next(one for one in blocks(PAGE, "yaml") if ".github" in one))
    (run,) = (step["run"] for step in workflow["jobs"]["evals"]["steps"] if "run" in step)
    flags = set(re.findall(r"--[a-z][a-z-]+", run.split("specialists eval")[1]))
    assert len(flags) > 5
    assert [flag for flag in sorted(flags) if f"{flag} " not in told] == []


@pytest.mark.exhaustive
def test_the_example_of_the_page_runs_and_passes(looked_up):
    """The cases of the page load, run offline, and pass with a note that contains the answers."""
    result = evaluate("--store", f"{looked_up}/runs.db", "--quiet", "--json")
    assert result.exit_code == 0
    names = [case["name"] for case in yaml.safe_load(CASES)["cases"]]
    assert [run["case"] for run in json.loads(result.stdout)["runs"] if run["passed"]] == names


def test_the_errors_of_the_page_are_those_of_the_command(looked_up):
    """A misspelt evaluator and a missing question give the lines of the page."""
    broken = CASES.replace("- CitesPath:", "- CitesPaths:").replace("    inputs: How do penguins keep warm?\n", "")
    (looked_up / "specialists/looks-up.evals.yaml").write_text(broken)
    result = evaluate()
    told = next(text for text in blocks(PAGE, "text") if "CitesPaths" in text)
    said = result.stderr.partition(": ")[2].replace(f"{looked_up}/", "")
    assert (result.exit_code, said) == (2, told)


MAP_PAGE = page("map")


def test_the_page_on_map_matches_the_code():
    """The keys of a row, each count, amounts and times, each key of summary and plan, each event with its fields."""
    said = {name for row in table(MAP_PAGE, "## Progress and counts") for name in row[0].split(", ")}
    names = {field.name.replace("_", " ").replace("aborted", "interrupted") for field in fields(Counts)}
    assert said == names - {"under way", "earlier", "total"}
    told = [name for row in table(MAP_PAGE, "## Answers") for name in named(row[0])]
    assert sorted(told) == sorted(done().as_row())
    text = " ".join(MAP_PAGE.split())
    assert f"({batch_options.CONFIRM_ABOVE:.2f} unless given)" in text
    assert f"more than {map_progress.EACH_UP_TO} items get a line every {map_progress.SECONDS:.0f} seconds" in text
    assert f"each of the first {map_progress.MOST_FAILURES} items without an answer" in text
    assert TELLING == 5
    assert "the forecast is made from the first five items" in text
    assert f"`--format {'|'.join(FORMATS)}`" in text
    section = JSON.split("## specialists map\n")[1].split("\n## ")[0]
    first, second = section.split("| event | when | fields |")
    keys = set(re.findall(r"`([a-z_0-9]+)`", first))
    for name in ("specialists map", "specialists map --dry-run"):
        assert set(PRINTED[name]) <= keys
    assert set(SHAPES["BATCH_COUNTS"]) | set(PRINTED["specialists map --dry-run"]["forecast"]) <= keys
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", second, re.MULTILINE))
    assert {name: text.split(", ") for name, text in rows.items()} == {
        name: [*shape] for name, shape in BATCH_EVENTS.items()
    }


TEXT = page("agents")


def test_the_page_on_agents_matches_the_code():
    """Its tools with arguments and results, its numbers, each client of `install`, the manual form."""
    rows = {row[0].strip("`"): row for row in table(TEXT, "## The tools of the server")}
    for tool in tools.run_tools(Catalogue({}, ())):
        _, arguments, result = rows[tool.name]
        assert named(arguments) == [*tool.input_schema["properties"]]
        assert result == "the same" or named(result) == [*tool.output_schema["properties"]]
    assert [*rows][1:] == [*tools.RESERVED]
    words = " ".join(TEXT.split())
    assert f"Without news for {runs.HEARTBEAT:.0f} seconds" in words
    assert f"waits up to {tools.LONGEST_WAIT} seconds" in words
    assert f"At most {runs.MOST_AT_WORK} runs" in words
    assert f"may have {access_token.LONGEST_BODY // 1024**2} MiB" in words
    times = access_token.CLIENT_TIMEOUT
    assert f"body of a request within {times:.0f} to {2 * times:.0f} seconds" in words
    assert f"At most {access_token.MOST_CONNECTIONS} connections" in words
    assert f"expires after {access_token.IDLE // 60} minutes" in words
    assert f"Beyond {access_token.MOST_SESSIONS:,} sessions" in words
    assert f"the file `{access_token.FILE}`" in words
    assert server.LONGEST_LINE == access_token.LONGEST_BODY
    assert f"cut after {tools.LONGEST_NAME} characters" in words
    (text,) = re.findall(r"^```json \.mcp\.json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    entry = json.loads(text)["mcpServers"]["specialists"]
    assert (set(entry), entry["command"], entry["args"]) == ({"type", "command", "args", "env"}, "specialists", ["mcp"])
    rows = {row[1].strip("`"): row[2].strip("`") for row in table(TEXT, "## Register the MCP server")}
    assert rows == {name: client.file for name, client in CLIENTS.items()}


SERVERS_TEXT = page("own-tools").split("\n## MCP servers\n")[1].split("\n## ")[0]


@pytest.mark.exhaustive
async def test_the_example_server_runs_unchanged(tmp_path, monkeypatch):
    """The example's program and file run unchanged in a project of their own."""
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for folder in (".git", "servers", "specialists"):
        (tmp_path / folder).mkdir()
    (tmp_path / "servers" / "owls.py").write_text(blocks(SERVERS_TEXT, "python servers/owls.py")[0])
    (tmp_path / "specialists" / "owl-counter.md").write_text(blocks(SERVERS_TEXT, "markdown")[0])
    monkeypatch.chdir(tmp_path)
    provider = ScriptedProvider([calls(("mcp__owls__count", {"place": "barn"})), says("3")])
    async with Runner(provider=provider, trust=True) as runner:
        outcome = await runner.run("owl-counter", "How many owls live in the barn?")
    assert results(provider.requests[1].messages[-1]) == ["3 owls were seen in the barn"]
    assert (outcome.status, outcome.warnings) == ("answered", ())


def test_the_documented_files_load_without_warnings(tmp_path):
    """So do the examples of single front matter lines; each bound in the document is that of the code."""
    seconds = f"at most {LONGEST_START:g}; default {START_TIMEOUT:g}"
    tools = f"{MOST_TOOLS:,}, on {MOST_PAGES} pages"
    for figure in (seconds, tools, f"{LARGEST_MESSAGE // 1024**2} MiB", f"{LONGEST_RESULT:,} characters"):
        assert figure in SERVERS_TEXT
    for text in blocks(SERVERS_TEXT, "markdown"):
        name = re.search(r"^name: (.*)$", text, re.MULTILINE)[1]
        assert load_text(text, tmp_path / f"{name}.md").status == "ok"
    for line in blocks(SERVERS_TEXT, "yaml")[0].splitlines():
        assert load_text(f"---\nname: a\ndescription: b\n{line}\n---\nFind.", tmp_path / "a.md").status == "ok"


PYTHON_PAGE, SPANS = page("python").split("\n## Telemetry\n")
EXAMPLES = re.findall(r"^```python( no-loop)?\n(.*?)^```", PYTHON_PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_every_example_runs(own_notes, capsys, place):
    """Every example runs offline, with or without an event loop as stated, and prints something."""
    no_loop, example = EXAMPLES[place]
    if no_loop:
        exec(example, {"__name__": "example"})  # noqa: S102 - an example from this repository
    else:
        asyncio.run(execute(example))
    assert capsys.readouterr().out.strip()


def test_every_public_name_event_and_error_is_documented():
    """Each name is imported in an example, which fails when it is removed; the tables have the events and errors."""
    imported = set()
    for _, example in EXAMPLES:
        code = compile(example, "example", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(code):
            if isinstance(node, ast.ImportFrom) and node.module == "run_specialist":
                imported |= {alias.name for alias in node.names}
    assert imported == set(run_specialist.__all__)
    told = [name for row in table(PYTHON_PAGE, "## Events") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(told) == sorted({one.__name__ for one in events.Event.__subclasses__()})
    rows = [row[0].strip("`") for row in table(PYTHON_PAGE, "## Exceptions")]
    public = {name for name in run_specialist.__all__ if isinstance(getattr(errors, name, None), type)}
    assert set(rows) == public - {"RunSpecialistError"}
    below = [name for name in rows if issubclass(getattr(errors, name), errors.UsageError)]
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert f"the base of the next {words[len(below) - 1]}" in PYTHON_PAGE


def test_the_examples_of_a_stream_and_of_spans_print_what_happened(own_notes, capsys, monkeypatch):
    """The stream lands with its three calls; the spans are those of the run and its children, with all attributes."""
    (example,) = [text for _, text in EXAMPLES if "runner.stream" in text]
    names = asyncio.run(execute(example))
    told = capsys.readouterr().out
    assert "at the limit of" in told
    assert names["stream"].outcome.status == "landed"
    said = (ROOT / "src/run_specialist/loop/observing.py").read_text(encoding="utf-8")
    attribute = r"((?:gen_ai|run_specialist|error)\.[a-z_.]+)"
    assert set(re.findall(f"`{attribute}`", SPANS)) == set(re.findall(f'"{attribute}"', said))
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
