"""The command that adds an extra fits the installation."""

import json
import re
import shlex
import sys
import tomllib
from importlib import metadata

import pytest

from run_specialist.installation import adding
from tests.docs.markdown import ROOT, table

METADATA = """\
Metadata-Version: 2.4
Name: run-specialist
Version: 0.1.0
Requires-Dist: rich<16,>=14
Provides-Extra: mcp
Requires-Dist: mcp<3,>=2.3; extra == 'mcp'
Requires-Dist: uvicorn<1,>=0.54; extra == "mcp"
Requires-Dist: openai[aiohttp]<4,>=3.54; extra == 'openai'
"""
OPENAI = "'openai[aiohttp]<4,>=3.54'"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that makes an environment with the package and returns its folder."""

    def install(folder="env", direct_url=None, files=(), pip=False):
        environment = tmp_path / folder
        packages = environment / "lib/python3.11/site-packages"
        info = packages / "run_specialist-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA)
        (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
        if direct_url is not None:
            (info / "direct_url.json").write_text(direct_url)
        for name, text in files:
            (environment / name).write_text(text)
        if pip:
            (packages / "pip").mkdir()
        monkeypatch.setattr(metadata, "distribution", lambda _: metadata.Distribution.at(info))
        return environment

    return install


def editable(folder):
    """Return the content of `direct_url.json` for an editable installation."""
    return json.dumps({"url": folder.as_uri(), "dir_info": {"editable": True}})


def test_in_a_clone_the_extra_is_synced_and_the_others_stay(installed, tmp_path):
    """The environment of a clone is synced with the extra, without removing other packages."""
    clone = tmp_path / "a clone"
    installed("a clone/.venv", editable(clone))
    (clone / "uv.lock").touch()
    assert adding("openai") == f"run: uv sync --project '{clone}' --inexact --extra openai"


def test_an_environment_gets_the_packages_of_the_extra_by_its_own_pip(installed, monkeypatch):
    """With pip the interpreter of the environment installs all packages of the extra, else uv does."""
    environment = installed(pip=True)
    packages = "'mcp<3,>=2.3' 'uvicorn<1,>=0.54'"
    assert adding("mcp") == f"run: {environment}/bin/python -m pip install {packages}"
    monkeypatch.setattr(sys, "prefix", str(environment))
    assert adding("mcp") == f"run: {sys.executable} -m pip install {packages}"


def test_pipx_injects_the_packages(installed):
    """Pipx adds the packages to the environment, which is named like its folder."""
    installed("run-specialist_dev", files=[("pipx_metadata.json", "{}")])
    assert adding("openai") == f"run: pipx inject run-specialist_dev {OPENAI}"


def test_an_environment_in_the_cache_of_uv_is_not_changed(installed, tmp_path):
    """`uv run --with` and `uvx` get an option instead of a command."""
    installed("cache/archive-v0/Ab3")
    assert adding("openai").startswith("run: uv pip install"), "not the cache of uv without its mark"
    (tmp_path / "cache/CACHEDIR.TAG").touch()
    assert adding("openai") == f"add to the command, after `uv run` or `uvx`: --with {OPENAI}"


def test_every_extra_is_documented_and_has_packages_to_install():
    """docs/configuration.md lists the extras of pyproject.toml, whose requirements have no marker of their own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = table((ROOT / "docs/configuration.md").read_text(encoding="utf-8"), "## Extras")
    assert {row[0].strip("`") for row in rows} == set(project["optional-dependencies"])
    assert not any(";" in package for packages in project["optional-dependencies"].values() for package in packages)
    assert all(shlex.split(adding(extra)) for extra in project["optional-dependencies"])


def test_no_text_names_an_index_that_need_not_have_the_package():
    """Neither messages nor documents tell to install the package by its name alone."""
    by_name = re.compile(r"(pip install|uvx|--from|--with|pipx install)[^\n]*['\" ]run-specialist\b(?! *@)")
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert [path.name for path in texts if by_name.search(path.read_text(encoding="utf-8"))] == []
