"""Every command of the README and the documents, run as it is written there in an installation without extras."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.markdown import ROOT, blocks
from tests.evals.git_project import NEEDS_GIT, git

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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
    *(
        "README.md",
        "CHANGELOG.md",
        "pyproject.toml",
        "specialists",
        "thoughts/shared/decisions",
    ),
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
TIMEOUT = 60
"""Timeout of one command, which starts an interpreter and may search the whole repository [s]."""

# Run before the program: an import finds no package of an extra.
_BASE = """
import sys
from importlib.machinery import PathFinder
missing, find = {missing!r}, PathFinder.find_spec
def find_spec(name, path=None, target=None):
    parts = name.split(".")
    return None if missing & {{".".join(parts[:end]) for end in (1, 2)}} else find(name, path, target)
PathFinder.find_spec = find_spec
sys.argv[0] = {program!r}
from run_specialist.cli.entry import {function}
{function}()
"""


def commands(page):
    """Return the commands of this package on a page, in order, with the lines that continue them."""
    found = []
    for block in blocks(page.read_text(encoding="utf-8"), "console"):
        lines = block.replace("\\\n", "").splitlines()
        # In a recorded session, the other lines are output.
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        found += [line for line in typed if COMMAND.fullmatch(line)]
    return [line.replace("uv run ", "") for line in found]


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
def programs(tmp_path_factory):
    """A folder with the two programs, as an installation without extras has them."""
    folder = tmp_path_factory.mktemp("programs")
    for program in PROGRAMS:
        code = _BASE.format(missing=missing(), program=program, function=program.replace("-", "_"))
        (folder / f"{program}.py").write_text(code)
        (folder / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder / program}.py" "$@"\n')
        (folder / program).chmod(0o755)
    return folder


@pytest.fixture
def run(programs, tmp_path):
    """Return a function that runs a line with a shell in a small copy of this repository, with a new home folder."""
    project, home = tmp_path / "project", tmp_path / "home"
    home.mkdir()
    for name in COPIED:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            # Without the cases of evals, which a document creates.
            shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("*.evals.yaml"))
        else:
            shutil.copy(ROOT / name, project / name)
    for name, text in FILES.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a commit")
    (project / "summary.md").write_text(f"{FILES['summary.md']}The limit of tool calls is 30.\n")
    path = os.pathsep.join([str(programs), os.environ["PATH"]])

    def run_line(line):
        return subprocess.run(
            ["sh", "-c", line],  # noqa: S607 - any shell
            cwd=project,
            env={"PATH": path, "HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "SHELL": "/bin/sh"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

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


PAGES_WITH_COMMANDS = sorted([page for page in PAGES if commands(page)], key=lambda page: len(commands(page)))
"""The shortest first: it is the one of the ordinary run, since each command is a new process of more than a second."""


@NEEDS_GIT
@pytest.mark.exhaustive(one_in=len(PAGES_WITH_COMMANDS))
@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_t13_every_command_works_or_names_what_it_needs(run, page):
    """Without extras and keys, each exits with 0, or with 2 and one line that names the extra or the variable."""
    write_examples(page, run.project)
    assert run('run-specialist thoughts-analyzer "Why a soft landing?"').returncode == 0
    failed = []
    for line in commands(page):
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
