"""Who gets which tools, and which specialists cannot work; what a run stores of its project, limits and context."""

import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Phase
from run_specialist.providers.base import Capabilities
from run_specialist.spawning import server_tools
from run_specialist.spawning.availability import obstacles, sentences, with_trust_noted
from run_specialist.spawning.extra_tools import OFFERS, offered_tools
from run_specialist.spawning.server_tools import MOST_AT_ONCE, fetch_tool, reserved, search_tool, with_server_tools
from run_specialist.spawning.server_tools import server_tools as offered_by_api
from run_specialist.spawning.spawner import (
    CHARACTERS_PER_TOKEN,
    Parent,
    RunEnvironment,
    as_stored,
    fit_to_context,
    spawn,
)
from run_specialist.spawning.trust import RunContext, Trust, origins_of_stored
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import load, load_text
from run_specialist.specialist.project import project_path
from run_specialist.specialist.settings import resolve
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.shell import system_sandbox
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider

BOTH = "tools: search, WebSearch, WebFetch"


@pytest.fixture
def given(context_of):
    """Return a function that writes a specialist and returns the tools that it gets."""

    def write(*lines, on_server=None, **how):
        context = context_of(*lines, **how)
        if on_server is None:
            return offered_tools(context)
        return offered_tools(context, with_server_tools(OFFERS, context.settings, on_server=on_server))

    return write


@pytest.mark.parametrize("name", ["fetch", "WebFetch", "web/fetch", "WebFetch(domain:example.com)"])
def test_a_trusted_file_that_names_it_gets_it(given, name):
    """Under each of its names, with `--trust`, and from then on without."""
    assert [tool.name for tool in given(f"tools: [search, '{name}']", trust=True).offered] == ["fetch"]
    assert [tool.name for tool in given(f"tools: [search, '{name}']").offered] == ["fetch"]


@pytest.mark.parametrize(
    "lines",
    [
        *(("tools: search",), ("tools: '*'",), ("tools: '*fetch'",), ("tools: 'b*'",), ("tools: {bash: false}",), ()),
        ("tools: fetch", "disallowed_tools: WebFetch"),
        ("tools: bash", "disallowed_tools: Bash"),
        (BOTH, "disallowed_tools: WebSearch, fetch"),
    ],
)
def test_who_does_not_name_it_does_not_get_it(given, sandboxed, lines):
    """A list without it, a pattern, no list, a switch that is off, or a list that disallows it: no tool, no warning.

    That holds for the tools of this program and for those of the API.
    """
    for found in (given(*lines, trust=True), given(*lines, "server_tools: true", trust=True, on_server=True)):
        assert (found.offered, found.withheld, found.warnings) == ((), {}, ())


def test_without_its_packages_it_is_not_offered(given, monkeypatch):
    """The reason names the extra and how to add it."""
    monkeypatch.setattr(server_tools, "find_spec", lambda _name: None)
    found = given("tools: fetch", trust=True)
    assert found.offered == ()
    assert found.withheld["fetch"].startswith("it needs the extra `web`; ")


def test_stored_settings_of_others_are_not_trusted(given):
    """A specialist of the program needs no trust; stored settings that name it, although the file does not, do."""
    assert given("tools: fetch", by_program=True).offered
    assert not given("tools: search", resumed={"tools": ("fetch",)}).offered


@pytest.fixture
def sandboxed(monkeypatch):
    """Let there be a sandbox, whatever this machine has."""
    monkeypatch.setattr(system_sandbox, "why_no_sandbox", lambda: "")


@pytest.mark.parametrize(
    "name", ["bash", "Bash", "run_shell_command", "execute/runInTerminal", "terminal", "Bash(git log:*)"]
)
def test_a_trusted_file_that_names_it_gets_the_shell(given, sandboxed, name):
    """Under its names in other programs, and with rules for its commands; without trust there is none."""
    assert given(f"tools: [read, '{name}']").offered == ()
    assert [tool.name for tool in given(f"tools: [read, '{name}']", trust=True).offered] == ["bash"]


def test_the_description_says_what_commands_may_do(given, sandboxed, tmp_path):
    """Where they run, what they may change, and which ones."""
    (tmp_path / "project" / "out").mkdir(parents=True)
    (alone,) = given("tools: Bash(git log:*)", trust=True).offered
    root = f"the working folder is the root, {tmp_path / 'project'}. Nothing can be changed but /tmp"
    assert root in alone.description
    assert alone.description.endswith("Only these commands may be run: `git log:*`.")
    (beside,) = given("tools: bash, read", "writable: out", trust=True).offered
    assert "Only out can be changed, and /tmp" in beside.description


def test_the_demand_says_what_commands_may_do(given, sandboxed, tmp_path):
    """Which ones, and what they may change; another folder must be allowed again."""
    (tmp_path / "project" / "out").mkdir(parents=True)
    lines = "tools: [read, 'Bash(git log:*)', fetch]", "disallowed_tools: Bash(git push:*)"
    assert given(*lines, "writable: out").withheld["bash"] == (
        "it would run commands in a sandbox, which may change out (Only these commands may be run: `git log:*`. These "
        "must not be run: `git push:*`; this is advisory); allow it once, with --trust"
    )
    assert given(*lines, trust=True).offered
    assert given(*lines).offered
    assert not given(*lines, "writable: out").offered
    assert given(*lines, by_program=True).offered
    assert not given("tools: read", resumed={"tools": ("bash",)}).offered


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["tools: Bash()"], "its rule allows no command"),
        (
            ["tools: bash", "writable: [out, missing]"],
            "writable: out: it cannot be opened: No such file or directory; missing",
        ),
    ],
)
def test_a_shell_that_could_do_nothing_is_not_offered(given, sandboxed, lines, reason):
    """A rule without a command, and folders that cannot be opened for writing."""
    found = given(*lines, trust=True)
    assert found.withheld["bash"].startswith(reason)
    assert "`bash` is not offered" in found.warnings[0]


def test_commands_never_see_the_home_folder(given, sandboxed, monkeypatch, tmp_path):
    """With the home folder in the root, the tool is not offered."""
    monkeypatch.setenv("HOME", str(tmp_path / "project" / "home"))
    assert "commands would see your home folder" in given("tools: bash", trust=True).withheld["bash"]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (None, "bwrap must be installed (package bubblewrap)"),
        ("/bin/false", "bwrap cannot make one here: exit code 1; the system must allow user namespaces"),
        ("/missing/bwrap", "bwrap cannot make one here: [Errno 2]"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other sandboxes")
def test_without_a_sandbox_there_is_no_shell(given, monkeypatch, program, reason):
    """The warning says why, and what to install or allow; it is tried once."""
    monkeypatch.setattr(system_sandbox, "program", lambda: program)
    system_sandbox._bwrap.cache_clear()
    try:
        found = given("tools: [read, bash]", trust=True)
    finally:
        system_sandbox._bwrap.cache_clear()
    assert found.offered == ()
    assert reason in found.withheld["bash"]


def test_other_systems_have_no_shell(given, monkeypatch):
    """Where there is no sandbox, no command is run."""
    monkeypatch.setattr(sys, "platform", "win32")
    found = given("tools: bash", trust=True)
    assert (found.offered, "there is none for this system" in found.withheld["bash"]) == ((), True)


def named(name: str, *lines: str, description: str = "Finds."):
    """Return a file with a name and lines of front matter."""
    head = ["---", f"name: {name}", f"description: {description}", *lines, "---"]
    return load_text("\n".join([*head, "You find.", ""]), Path(f"specialists/{name}.md"))


def no_obstacle(_: object) -> str:
    """Return that no model prevents a run."""
    return ""


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        ("notes/", "matches notes/"),
        ("[]", "matches an empty list"),
        ("notes/, plans/", "matches notes/, plans/"),
        ("notes/, else, plans/", "matches notes/, else plans/"),
        ("notes/, else, plans/, '*.md'", ""),
        ("top.md", ""),
        ("'*.md'", ""),
        (".", ""),
    ],
)
def test_paths_without_a_file_are_an_obstacle(tmp_path, paths, why):
    """Without any file that matches, the reason names folder and paths; one file suffices."""
    (tmp_path / "top.md").write_text("Here.\n")
    file = named("reader", f"paths: {paths}")
    reasons = obstacles([file], tmp_path, no_obstacle)
    assert reasons == ({file.path: f"no file under {tmp_path} {why}"} if why else {})


def test_a_folder_that_cannot_be_read_is_an_obstacle(tmp_path):
    """A root that does not exist is reported; specialists without `paths` do not look at it."""
    reader, any_ = named("reader", "paths: ['*.md']"), named("finder")
    reasons = obstacles([reader, any_], tmp_path / "gone", no_obstacle)
    assert [*reasons] == [reader.path]


def test_the_same_reason_is_said_once():
    """Specialists with the same reason share a line; control characters of names are escaped."""
    files = [named(name) for name in ("a", "b", "c")]
    reasons = {files[0].path: "no file", files[1].path: "no\x1b[2J model", files[2].path: "no file"}
    assert sentences(files, reasons) == ["a, c cannot work here: no file", r"b cannot work here: no\x1b[2J model"]


FILE = load_text(
    "---\nname: finder\ndescription: Finds\ntool_calls_limit: 5\n---\nYou find.\n", Path("specialists/finder.md")
)


def origin(root, parent=None, **settings):
    """Return the origin of a run."""
    around = RunEnvironment(root, ScriptedProvider([]), parent=parent)
    return spawn(FILE, resolve(FILE, settings).settings, "Why?", around).origin()


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({}, []),
        ({"tool_calls_limit": 5}, []),
        ({"tool_calls_limit": 6}, ["tool_calls_limit"]),
        ({"tool_calls_limit": None, "time_limit": 60}, ["tool_calls_limit", "time_limit"]),
        ({"preset": "soft-warning"}, ["tool_chars_limit"]),
        ({"landing": "order"}, []),
    ],
)
def test_limits_that_are_not_those_of_the_file_are_named(tmp_path, settings, changed):
    """The limits that a flag or a preset of the call sets to another value than the file are named."""
    assert sorted(origin(tmp_path, **settings)["changed_limits"]) == sorted(changed)


def test_c1_all_settings_that_are_not_those_of_the_file_are_named(tmp_path):
    """Not only limits, so that a replay sets them again, with what `auto` meant; the values of the file are none."""
    named = origin(tmp_path, landing="order", tool_calls_limit=5, patience=3)["overridden"]
    assert named == ["patience", "tool_calls", "first_search", "landing"]
    assert {"preset", "landing"} <= {*origin(tmp_path, preset="finalize")["overridden"]}


def test_the_time_of_a_child_is_not_a_changed_limit(tmp_path):
    """A parent's time always bounds that of its child, so it does not count; its other limits do."""
    parent = Parent("run-1", tmp_path, ())
    assert origin(tmp_path, parent, time_limit=60, tool_calls_limit=2)["changed_limits"] == ["tool_calls_limit"]


def test_the_project_is_the_nearest_folder_with_git(tmp_path):
    """The project is the real path of the folder with `.git` at or above the root, else the root itself."""
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / "docs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    real = str((tmp_path / "a").resolve())
    for root in ("a", "a/docs", "link", "link/docs"):
        assert project_path(tmp_path / root) == origin(tmp_path / root)["project"] == real
    assert project_path(tmp_path) == str(tmp_path.resolve())
    assert project_path(tmp_path / "a" / "gone") == f"{real}/gone"


FRONT = 6_000


def fit(context, reply=None, front=FRONT, note="", **settings):
    """Fit the settings of a specialist, and return the result."""
    reply = reply or max((context or 4) // 4, 1)
    specialist = Specialist(name="s", description="d", prompt="p", **settings)
    return fit_to_context(
        specialist, Capabilities(True, reply, context_tokens=context, context_note=note), lambda: front
    )


def test_without_a_known_length_nothing_changes():
    """The settings are the same object, and the length of the prompt is not even calculated."""
    specialist = Specialist(name="s", description="d", prompt="p")
    fitted = fit_to_context(specialist, Capabilities(True, 9), lambda: pytest.fail("calculated"))
    assert (fitted.settings is specialist, fitted.turn_chars, fitted.warnings) == (True, None, ())


def test_the_shares_of_8192_tokens():
    """The worked example of docs/models.md."""
    fitted = fit(8192)
    settings = fitted.settings
    assert (settings.tool_result_limit, fitted.turn_chars) == (4144, 6216)
    assert (settings.summarize_at, settings.context_target, settings.summary_limit) == (5108, 4072, 518)
    assert fitted.warnings == ()


@hypothesis.given(context=st.integers(256, 2**25), front=st.integers(0, 50_000), calls=st.integers(1, 200))
def test_prompt_results_and_reply_fit_into_any_context(context, front, calls):
    """Right before a summary would be made, the next request and its reply still fit, at three characters a token."""
    reply = min(32_000, max(context // 4, 1))
    front_tokens = -(-front // CHARACTERS_PER_TOKEN)
    room = context - reply - front_tokens
    fitted = fit(context, reply, front)
    summarize_at = fitted.settings.summarize_at
    limit = fitted.settings.tool_result_limit
    one = job(ScriptedProvider([]), tool_result_limit=limit, turn_chars=fitted.turn_chars)
    turn = one.result_chars(calls) * calls
    assert one.result_chars(calls) <= 20_000
    if room < 800 or one.result_chars(calls) == 200:
        return
    assert one.result_chars(1) / CHARACTERS_PER_TOKEN <= room / 3
    assert turn / CHARACTERS_PER_TOKEN <= room / 2
    # The transcript counts four characters as a token; only the last turn is an estimate, the rest is as reported.
    underestimated = turn / CHARACTERS_PER_TOKEN - turn / 4
    assert summarize_at + underestimated + reply <= context + 1
    # After a summary, the newest turn is all that is left beside it.
    assert front_tokens + fitted.settings.summary_limit + turn / CHARACTERS_PER_TOKEN + reply <= context + 1


@pytest.mark.parametrize("limit", [500, 12_000, 20_000])
def test_an_explicit_result_limit_wins_and_warns_if_it_cannot_fit(limit):
    """A result of the chosen length passes whole; above what the context holds, a warning says how much that is."""
    fitted = fit(8192, tool_result_limit=limit)
    assert fitted.settings.tool_result_limit == limit
    assert fitted.turn_chars == max(6216, limit)
    assert len(fitted.warnings) == (limit > 12_432)
    if fitted.warnings:
        assert "tool_result_limit: a result of 20,000 characters does not fit" in fitted.warnings[0]
        assert "holds about 12,432 characters" in fitted.warnings[0]


@pytest.mark.parametrize("at", [None, 3000, 6145])
def test_an_explicit_summarize_at_wins(at):
    """`none` turns summaries off even in a small context."""
    fitted = fit(8192, summarize_at=at)
    assert (fitted.settings.summarize_at, fitted.settings.context_target) == (at, None)


@pytest.fixture
def given_offers(given, monkeypatch):
    """Return a function that writes a specialist, trusted, and returns what it is offered by an API with tools."""
    monkeypatch.setattr(server_tools, "find_spec", lambda _name: True)
    return lambda *lines, trust=True, on_server=True, **how: given(*lines, trust=trust, on_server=on_server, **how)


def names(found):
    """Return the names of the tools."""
    return [tool.name for tool in found.offered]


def test_a_file_that_allows_it_gets_both(given_offers):
    """The API's way to read pages has the tool of this program behind it, and the domains are passed on."""
    found = given_offers(BOTH, "server_tools: true", "allowed_domains: example.com")
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
def test_why_there_is_no_search(given_offers, lines, on_server, reason):
    """Each reason is one warning; the file's own tool for pages stays, that of this program or that of the API."""
    found = given_offers(BOTH, *lines, on_server=on_server)
    assert "web_search" not in names(found)
    assert len(names(found)) == 1
    assert reason in found.withheld["web_search"]
    assert len(found.warnings) == (1 if lines else 0)


def test_stored_consent_of_others_is_not_trusted(own, tmp_path):
    """The user's own file needs no trust for what it says itself, but for what only the stored settings say."""

    def got(consent):
        file, trust = load(own(BOTH, f"server_tools: {consent}")), Trust(folder=tmp_path / "trusted")
        settings = file.specialist.model_copy(update={"server_tools": True})
        offers = with_server_tools(OFFERS, settings, on_server=True)
        context = RunContext(file, settings, tmp_path, trust, origins_of_stored(settings, file))
        return names(offered_tools(context, offers))

    assert got("true") == ["web_fetch", "web_search"]
    assert got("false") == []


@pytest.fixture
def noted(app, tmp_path):
    """Return a function that writes a specialist and returns its notices."""

    def notices(*lines, trust=None):
        trusting = trust or Trust(folder=tmp_path / "trusted")
        (file,) = with_trust_noted([load(app.specialist(*lines))], app.root, trusting)
        assert file.status == "ok"
        return [(one.line, one.key, one.text) for one in file.problems if "--trust" in one.text]

    return notices


def test_each_tool_that_needs_trust_is_named_with_what_it_would_do(noted):
    """One notice for each, at its key; tools that only read need none."""
    offered = "is offered once it is allowed with --trust: it would"
    assert noted("tools: read, WebFetch", "allowed_domains: example.com", "memory: project") == [
        (4, "tools", f"`fetch` {offered} fetch pages of example.com"),
        (6, "memory", f"`memory` {offered} write notes in .run-specialist/memory/finder"),
    ]
    assert noted("tools: read, Edit", "writable: docs") == [(4, "tools", f"`edit` {offered} change files: docs")]
    assert noted("tools: read, todo, think") == []
    assert noted("memory: project", "disallowed_tools: memory") == []


def test_a_tool_that_a_key_is_missing_for_is_not_offered_with_trust(app, tmp_path):
    """The warning names the key; a second line that `--trust` gives the tool would contradict it."""
    path = app.specialist("tools: read, edit")
    (file,) = with_trust_noted([load(path)], app.root, Trust(folder=tmp_path / "trusted"))
    assert [one.level for one in file.problems] == ["warning"]
    assert "`edit` requires the key `writable`" in file.problems[0].text


def test_what_is_allowed_already_is_not_said(noted, tmp_path):
    """A permission that is stored holds for the check too."""
    lines = ("tools: read", "memory: local")
    assert len(noted(*lines)) == 1

    class Known(Trust):
        def is_known(self, claim):
            return bool(claim.demands)

    assert noted(*lines, trust=Known(folder=tmp_path / "other")) == []


LOCAL = Tool("fetch", "Reads a page.", lambda url: url)


def with_tools(**fields):
    """Return the settings of a specialist with the tools of the API."""
    keys = {"tools": ("search", "web_search", "fetch"), "server_tools": True} | fields
    return Specialist(name="x", description="", prompt="", **keys)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"web_search": 3, "web_fetch": 3}),
        ({"tool_calls_limit": 25}, {"web_search": 3, "web_fetch": 2}),
        ({"tool_calls_limit": 2}, {"web_search": 1, "web_fetch": 1}),
        ({"tool_calls_limit": 0}, {}),
        ({"tool_calls_limit": None}, {"web_search": 5, "web_fetch": 5}),
        ({"tools": ("web_search", "fetch"), "tool_calls_limit": 7}, {"web_search": 4, "web_fetch": 3}),
        ({"cost_limit": 0.16}, {"web_search": 2, "web_fetch": 3}),
    ],
)
def test_the_share_of_one_request(fields, expected):
    """A fifth of the limit beside other tools, all of it without, at most ten, and an eighth of the cost limit."""
    found = offered_by_api(with_tools(**fields))
    assert {tool.name: tool.on_server["max_uses"] for tool in found} == expected


@hypothesis.given(st.integers(0, 60), st.integers(1, 4), st.booleans(), st.integers(0, 60))
def test_a_request_before_the_landing_cannot_exceed_the_limit(limit, count, alone, used):
    """Whatever was used, what one request may use is left, or the landing begins."""
    tools = ("fetch", "web_search") if alone else ("fetch", "web_search", *["search"] * count)
    offered = Toolset(offered_by_api(with_tools(tool_calls_limit=limit, tools=tools)))
    budget = reserved(Budget.of({Kind.TOOL_CALLS: limit}), offered).spend(min(used, limit))
    at_once = sum(tool.on_server["max_uses"] for tool in offered.on_server)
    assert at_once <= min(limit, MOST_AT_ONCE)
    if budget.phase is not Phase.SPENT:
        assert budget[Kind.TOOL_CALLS].used + at_once <= limit
    if used == 0 and limit:
        assert budget.phase is not Phase.SPENT


def test_a_resumed_run_keeps_its_bounds():
    """A tool that the run would get today has the definition of then, byte for byte."""
    then = [search_tool(3, ("example.com",)).definition, fetch_tool(3, (), 5_000, None).definition]
    now = Toolset([search_tool(6, ("example.com",)), fetch_tool(6, (), 900, LOCAL)])
    assert sorted((tool.definition for tool in as_stored(then, now)), key=str) == sorted(then, key=str)


def test_what_others_wrote_to_the_store_is_not_run():
    """A stored definition gives nothing that the run would not get: no tool, and no other domains."""
    stored = [search_tool(3, ()).definition, fetch_tool(3, (), 5_000, None).definition]
    kept = as_stored(stored, Toolset([search_tool(2, ("example.com",))]))
    assert (kept.get("web_search").on_server or {})["allowed_domains"] == ["example.com"]
    assert kept.get("web_fetch").on_server is None
    assert kept.get("web_fetch").definition["input_schema"] == {"type": "object"}
