"""docs/configuration.md matches the code: variables, examples, errors."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from run_specialist.api import config_files
from run_specialist.api.config_files import KEYS, TABLE
from run_specialist.loop.observing import CONTENT, PROVIDER_VARIABLE
from run_specialist.providers import admission
from run_specialist.providers.choose import CREDENTIALS
from run_specialist.providers.errors import CHAT, MESSAGES
from run_specialist.providers.local import CONTEXT_VARIABLE
from run_specialist.providers.local_servers import SERVERS
from run_specialist.spawning import availability
from run_specialist.specialist import project as ownership
from run_specialist.store import location
from tests.docs.markdown import ROOT, blocks, named, page, table

PAGE = page("configuration")
SOURCE = ROOT / "src/run_specialist"

ENDPOINTS = [MESSAGES, CHAT, *(server.endpoint for server in SERVERS.values())]
MEANINGS = {
    "project.py: VARIABLE": [ownership.VARIABLE],
    "location.py: VARIABLE": [location.VARIABLE],
    "config_files.py: VARIABLE": [config_files.VARIABLE],
    "config_files.py: variable": [key.variable for key in KEYS.values() if key.variable],
    "config_files.py: key.variable": [key.variable for key in KEYS.values() if key.variable],
    "availability.py: VARIABLE": [availability.VARIABLE],
    "errors.py: variable": [admission.VARIABLE, CONTEXT_VARIABLE],
    "manage.py: name": ["VISUAL", "EDITOR"],
    # Git gets these unchanged; they are no settings.
    "git.py: name": [],
    "choose.py: name": [*CREDENTIALS, MESSAGES.url, CHAT.key, CHAT.url],
    "models.py: CHAT.url": [CHAT.url],
    "local_servers.py: self.endpoint.url": [one.url for one in ENDPOINTS],
    "local_servers.py: self.endpoint.key": [one.key for one in ENDPOINTS],
    "trust.py: server.endpoint.url": [one.url for one in ENDPOINTS],
    "observing.py: CONTENT": [CONTENT],
    "observing.py: PROVIDER_VARIABLE": [PROVIDER_VARIABLE],
}
"""The names behind each expression with which the code reads a variable that it does not write out."""


def reads(path):
    """Yield each name, or expression for a name, with which a module reads an environment variable."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "envvar":
            yield node.value
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield node.slice
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in {"os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.getenv"}:
            yield node.args[0]


@cache
def variables():
    """Return the names of all environment variables that the code reads."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for one in reads(path):
            names |= {one.value} if isinstance(one, ast.Constant) else set(MEANINGS[f"{path.name}: {ast.unparse(one)}"])
    return names


def test_every_environment_variable_is_documented():
    """The first table has exactly the variables that the code reads, each with its meaning."""
    rows = table(PAGE, "### Read by this program")
    documented = [name for row in rows for name in named(row[0])]
    assert sorted(documented) == sorted(variables())
    assert all(row[1] for row in rows)


def test_no_module_reads_variables_in_another_way():
    """`from os import environ`, and names such as `SPECIALIST_X` that no known access reads, would escape the test."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"from os import .*\b(environ|getenv)\b", text), path
        assert set(re.findall(r"\bSPECIALIST_[A-Z_]+\b", text)) <= variables(), path


def test_the_examples_are_valid(tmp_path, monkeypatch):
    """Both example files are read without a problem, each in its place."""
    monkeypatch.setenv("HOME", str(tmp_path))
    project, user = blocks(PAGE, "toml")
    assert set(tomllib.loads(project)) == {TABLE[0]}
    (tmp_path / "agents").mkdir()
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    (tmp_path / "config.toml").write_text(user, encoding="utf-8")
    read = [
        config_files._read(tmp_path / "pyproject.toml", "project", tmp_path),
        config_files._read(tmp_path / "config.toml", "user"),
    ]
    assert [(one.state, one.problems) for one in read] == [("read", ())] * 2
    assert all(one.values for one in read)


@pytest.mark.parametrize("line", blocks(PAGE, "text")[0].splitlines())
def test_the_example_errors_are_those_of_the_code(line, tmp_path, monkeypatch):
    """A file with the mistake on that line has that error."""
    monkeypatch.chdir(tmp_path)
    number, key = int(line.split(":")[1]), line.split(": ")[1]
    value = line.rpartition("got ")[2] if "got " in line else "1"
    head = "[tool.run-specialist]\n" + "\n" * (number - 2)
    Path("pyproject.toml").write_text(f"{head}{key} = {value}\n", encoding="utf-8")
    read = config_files._read(tmp_path / "pyproject.toml", "project", tmp_path)
    assert read.problems == (line,)
