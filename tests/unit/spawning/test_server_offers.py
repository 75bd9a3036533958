"""Who gets the tools of the API: files that name them and allow it, and those in a project that the user trusts."""

import pytest

from run_specialist.spawning import server_tools
from run_specialist.spawning.extra_tools import OFFERS, offered_tools
from run_specialist.spawning.server_tools import with_server_tools
from run_specialist.spawning.trust import RunContext, Trust, origins_of_stored
from run_specialist.specialist.loader import load
from run_specialist.specialist.origins import ValueOrigins
from tests.projects import project

BOTH = "tools: search, WebSearch, WebFetch"


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Return a function that writes a specialist and returns what it is offered."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(server_tools, "find_spec", lambda _name: True)
    with project(tmp_path / "project") as made:

        def write(*lines, trust=True, on_server=True, by_program=False, resumed=None):
            file = load(made.specialist(*lines))
            settings = file.specialist if resumed is None else file.specialist.model_copy(update=resumed)
            trusting = Trust(given=trust, folder=tmp_path / "trusted")
            offers = with_server_tools(OFFERS, settings, on_server=on_server)
            origins = origins_of_stored(settings, file) if resumed is not None else None
            origins = ValueOrigins() if by_program else origins
            return offered_tools(RunContext(file, settings, made.root, trusting, origins), offers)

        yield write


def names(found):
    """Return the names of the tools."""
    return [tool.name for tool in found.offered]


def test_a_file_that_allows_it_gets_both(given):
    """The API's way to read pages has the tool of this program behind it, and the domains are passed on."""
    found = given(BOTH, "server_tools: true", "allowed_domains: example.com")
    assert names(found) == ["web_fetch", "web_search"]
    assert [tool.on_server["allowed_domains"] for tool in found.offered] == [["example.com"], ["example.com"]]
    assert [tool.instead and tool.instead.name for tool in found.offered] == ["fetch", None]
    assert (found.withheld, found.warnings) == ({}, ())


@pytest.mark.parametrize(
    ("lines", "on_server", "reason"),
    [
        ((), True, "allow that with `server_tools: true`"),
        (("server_tools: true",), False, "only the Messages API runs it"),
        (("server_tools: true", "tool_calls: json"), False, "only with `tool_calls: native`"),
        (("server_tools: true", "cost_limit: 0.05"), True, "an eighth of cost_limit"),
        (("server_tools: true", "tool_calls_limit: 0"), True, "leaves no call for it"),
    ],
)
def test_why_there_is_no_search(given, lines, on_server, reason):
    """Each reason is one warning; the file's own tool for pages stays, that of this program or that of the API."""
    found = given(BOTH, *lines, on_server=on_server)
    assert "web_search" not in names(found)
    assert len(names(found)) == 1
    assert reason in found.withheld["web_search"]
    assert len(found.warnings) == (1 if lines else 0)


def test_a_projects_file_needs_trust(given):
    """Without it there is neither tool; each warning says what the tool would do."""
    found = given(BOTH, "server_tools: true", trust=False)
    assert names(found) == []
    assert "search any web site through the API, which bills each search" in found.withheld["web_search"]
    assert names(given(BOTH, "server_tools: true", trust=False, by_program=True)) == ["web_fetch", "web_search"]


def test_stored_consent_of_others_is_not_trusted(tmp_path, monkeypatch):
    """The user's own file needs no trust for what it says itself, but for what only the stored settings say."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "home/.claude/agents/finder.md"
    path.parent.mkdir(parents=True)

    def got(consent):
        path.write_text(f"---\nname: finder\ndescription: Finds.\n{BOTH}\nserver_tools: {consent}\n---\nYou find.\n")
        file, trust = load(path), Trust(folder=tmp_path / "trusted")
        settings = file.specialist.model_copy(update={"server_tools": True})
        offers = with_server_tools(OFFERS, settings, on_server=True)
        context = RunContext(file, settings, tmp_path, trust, origins_of_stored(settings, file))
        return names(offered_tools(context, offers))

    assert got("true") == ["web_fetch", "web_search"]
    assert got("false") == []


@pytest.mark.parametrize(
    "lines", [("tools: '*'",), (), ("tools: search",), (BOTH, "disallowed_tools: WebSearch, fetch")]
)
def test_who_does_not_name_it_does_not_get_it(given, lines):
    """A pattern, no list, another list, and a list that disallows it: no tool and no warning."""
    found = given(*lines, "server_tools: true")
    assert (names(found), found.withheld, found.warnings) == ([], {}, ())
