"""Who gets `fetch`: files that name it, and of those in a project the ones that the user trusts."""

import pytest

from run_specialist.spawning import web_tools as subject
from run_specialist.spawning.trust import Trust
from run_specialist.spawning.web_tools import web_tools
from run_specialist.specialist.loader import load
from tests.projects import project


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Return a function that writes a specialist and returns the tools that it gets."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with project(tmp_path / "project") as made:

        def write(*lines, trust=False, by_program=False, resumed=None):
            file = load(made.specialist(*lines))
            settings = file.specialist if resumed is None else file.specialist.model_copy(update=resumed)
            trusting = Trust(given=trust, folder=tmp_path / "trusted")
            how = {"resumed": resumed is not None, "by_program": by_program}
            return web_tools(file, settings, made.root, trusting, **how)

        yield write


@pytest.mark.parametrize("name", ["fetch", "WebFetch", "web/fetch", "WebFetch(domain:example.com)"])
def test_a_trusted_file_that_names_it_gets_it(given, name):
    """Under each of its names, with `--trust`, and from then on without."""
    assert [tool.name for tool in given(f"tools: [search, '{name}']", trust=True).tools] == ["fetch"]
    assert [tool.name for tool in given(f"tools: [search, '{name}']").tools] == ["fetch"]


def test_without_trust_the_run_has_one_tool_less(given):
    """A project's file that is not trusted is told what it would do, and how to allow it."""
    found = given("tools: search, fetch", "allowed_domains: example.com, example.org")
    assert found.tools == ()
    assert found.withheld["fetch"] == "it would fetch pages of example.com, example.org; allow it once, with --trust"
    (warning,) = found.warnings
    assert ":4:1: tools: `fetch` is not offered: it would fetch pages of" in warning


def test_other_domains_must_be_trusted_again(given):
    """Trust holds for the file as it was."""
    assert given("tools: fetch", "allowed_domains: example.com", trust=True).tools
    assert not given("tools: fetch", "allowed_domains: example.org").tools


@pytest.mark.parametrize(
    "lines",
    [("tools: search",), ("tools: '*'",), ("tools: '*fetch'",), (), ("tools: fetch", "disallowed_tools: WebFetch")],
)
def test_who_does_not_name_it_does_not_get_it(given, lines):
    """A list without it, a pattern, no list at all, and a list that disallows it: no tool, and no warning."""
    found = given(*lines, trust=True)
    assert (found.tools, found.withheld, found.warnings) == ((), {}, ())


def test_without_its_packages_it_is_not_offered(given, monkeypatch):
    """The reason names the extra and how to add it."""
    monkeypatch.setattr(subject, "is_installed", lambda: False)
    found = given("tools: fetch", trust=True)
    assert found.tools == ()
    assert found.withheld["fetch"].startswith("it needs the extra `web`; ")


def test_stored_settings_of_others_are_not_trusted(given):
    """A specialist of the program needs no trust; stored settings that name it, although the file does not, do."""
    assert given("tools: fetch", by_program=True).tools
    assert not given("tools: search", resumed={"tools": ("fetch",)}).tools
