"""The typed fields: kinds of values, error messages and the model itself."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from run_specialist.spawning.extra_tools import SHELL_OFFER
from run_specialist.spawning.prompt_texts import folder_name, memory_place
from run_specialist.specialist.fields import CANONICAL, Countdown, Specialist, json_schema
from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.project import packaged
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.tool_names import BUILT_IN, ResolvedTools, names_tool, resolve_tools
from run_specialist.tools.shell.tool import CommandRules


def loaded(*lines: str) -> SpecialistFile:
    """Load a file with additional lines of front matter, which begin on line 4."""
    text = "\n".join(["---", "name: agent", "description: d", *lines, "---", "Body", ""])
    return load_text(text, Path("agent.md"))


def value(line: str) -> Any:
    """Return the value of the only field set in a line."""
    specialist = loaded(line).specialist
    assert specialist is not None
    (key,) = specialist.model_fields_set - {"name", "description"}
    return getattr(specialist, key)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("time_limit: 90s", 90),
        ("timeout_mins: 5", 300),
        ("time_limit: none", None),
        ("max_cost_usd: '1'", 1),
        ("tool_timeout: 2m", 120),
        ("maxToken: 150000", 150_000),
        ("max_tool_calls: 8", 8),
        ("share_budget: no", False),
        ("landing: Force", "force"),
        ("paths: thoughts/, docs/*.md", ("thoughts/", "docs/*.md")),
        ("python_tools: [pkg.mod:fn]", ("pkg.mod:fn",)),
        ("mcp-servers: {web: {command: x}}", {"web": {"command": "x"}}),
        ("output_schema: {type: object}", {"type": "object"}),
        ("countdown: {from: 0.8, style: budget, warnAt: 2}", Countdown(from_=0.8, style="budget", warn_at=2)),
        ("disallowedTools: Bash, Read(a, b)", ("Bash", "Read(a, b)")),
    ],
)
def test_every_kind_of_value_is_read_under_each_name(line: str, expected: object) -> None:
    """Each kind of value is read under each of its key's names."""
    assert value(line) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "time_limit: .inf",
            "time_limit: must be a number of seconds, a duration like 90s, 10m or 1h, or none, got .inf",
        ),
        ("tool_timeout: 0", "tool_timeout: must be a number of seconds above 0, or a duration like 90s or 10m, got 0"),
        ("budget_notice: 1", "budget_notice: must be true or false, got 1"),
        ("paths: /etc", "paths: must be folders or globs under the root, got /etc"),
        ("python_tools: [a:b, c]", "python_tools: must be a list of module:function, got c"),
        (
            "countdown: {from: true}",
            "countdown.from: must be a share from 0.0 to 1.0, an integer number of calls left, or none, got true",
        ),
        ("disallowed_tools: [[a]]", "disallowed_tools: must be a name, got a list or a map; ignored"),
        ("output_schema: {? [a] : b}", "output_schema: a key is a list or a map"),
    ],
)
def test_an_invalid_value_names_the_expected_and_actual_value(line: str, said: str) -> None:
    """The error gives the expected and the actual value on one line, at the value's place."""
    file = loaded(line)
    assert [str(p).partition(":4:")[2].partition(": ")[2] for p in file.problems] == [said]
    assert (file.status, file.specialist) == ("error", None)


@pytest.mark.parametrize(
    ("line", "key", "left"),
    [
        ("effort: extreme", "effort", None),
        ("mcp_servers: 5", "mcp_servers", None),
        ("model: {a: b}", "model", None),
        ("tools: [[a], Read]", "tools", ("Read",)),
        ("landing_prompt: [a, b]", "landing_prompt", "a, b"),
    ],
)
def test_a_wrong_type_that_restricts_nothing_is_a_warning(line: str, key: str, left: object) -> None:
    """A value of the wrong type is only a warning if it does not restrict the specialist."""
    file = loaded(line)
    assert file.status == "warning"
    assert getattr(file.specialist, key) == left


def test_an_empty_key_in_a_map_counts_as_not_given() -> None:
    """An empty key inside a map counts as not given, so a forgotten value disables nothing."""
    file = loaded("countdown:\n  from:\n  warn_at: 2")
    assert file.specialist.countdown == Countdown(warn_at=2)
    assert [str(p) for p in file.problems] == ["agent.md:5:3: countdown: from is empty and ignored"]


def test_descriptions_of_other_types_become_text() -> None:
    """A list is joined and a map is kept as written, both with a warning."""
    for written, text in (("[a, b c]", "a, b c"), ("{a: b}", "{a: b}"), ("\n  Use when: x", "Use when: x")):
        file = load_text(f"---\nname: agent\ndescription: {written}\n---\nBody", Path("agent.md"))
        assert (file.description, file.status) == (text, "warning")


def test_an_unusable_name_is_replaced_by_the_file_name() -> None:
    """A name that is not text, is empty or has only control characters is replaced by the file's name."""
    for written in ("[a]", "{a: b}", "''", "", "null", '"\\x01\\x02"'):
        file = load_text(f"---\nname: {written}\ndescription: d\n---\nBody", Path("agent.md"))
        assert (file.name, file.status) == ("agent", "warning")
    file = load_text('---\nname: "SE: a/b\\n\\x1b[31m"\ndescription: d\n---\nBody', Path("agent.md"))
    assert file.name == "SE: a/b [31m"


def test_keys_without_effect_give_notices_or_warnings() -> None:
    """Keys without effect give a notice, restrictive ones a warning, unknown ones a warning with a suggestion."""
    file = loaded("color: red\nhooks: {a: b}\npermissionMode: dontAsk\ntool_cals_limit: 3\nquux: 1")
    assert [(p.key, p.level) for p in file.problems] == [
        ("color", "notice"),
        ("hooks", "warning"),
        ("permissionMode", "warning"),
        ("tool_cals_limit", "warning"),
        ("quux", "warning"),
    ]
    assert file.problems[3].text == "unknown key; did you mean tool_calls_limit?"
    assert file.problems[4].text == "unknown key"
    assert loaded("color: red").status == "ok"


def test_model_is_usable_without_a_file() -> None:
    """The model has the documented defaults, refuses wrong values and is immutable."""
    specialist = Specialist(name="a", description="b", prompt="c")
    assert (specialist.tool_calls_limit, specialist.landing, specialist.tools) == (30, "auto", None)
    assert (specialist.parallel_tools_limit, specialist.tool_timeout, specialist.tool_result_limit) == (4, 60, 20_000)
    for wrong in ({"tool_calls_limit": True}, {"cost_limit": True}, {"time_limit": float("inf")}, {"name": 3}):
        with pytest.raises(ValidationError):
            Specialist.model_validate({"name": "a", "description": "b", "prompt": "c"} | wrong)
    with pytest.raises(ValidationError):
        specialist.name = "d"  # type: ignore[misc]


def test_every_key_is_described() -> None:
    """The schema is valid, describes each canonical key and allows other keys."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert tuple(schema["properties"]) == CANONICAL
    assert all(entry["description"] for entry in schema["properties"].values())
    assert schema["additionalProperties"] is True


PROJECT = Path("/project")


@pytest.mark.parametrize(
    ("lines", "scope"),
    [
        (["memory: user"], "user"),
        (["memory: Project"], "project"),
        (["memory: none"], None),
        (["tools: [read, vscode/memory]"], "local"),
        (["tools: [read, memory]", "memory: user"], "user"),
        (["tools: ['mem*', read]"], None),
    ],
)
def test_the_key_and_the_tool_name_what_is_kept(lines, scope):
    """A file that names the tool of that name without the key keeps local notes; a pattern names nothing."""
    file = loaded(*lines)
    assert file.specialist.memory == scope
    assert [one.text for one in file.problems if one.level == "warning" and one.key == "memory"] == []


@pytest.mark.parametrize("value", ["true", "everywhere", "[user]", "{a: b}"])
def test_another_value_is_a_warning(value):
    """Without notes a specialist runs as well, so a bad value makes no file unusable."""
    file = loaded(f"memory: {value}")
    assert file.specialist.memory is None
    (problem,) = [one for one in file.problems if one.key == "memory"]
    assert (problem.line, problem.level) == (4, "warning")
    assert problem.text.startswith("must be user, project or local, got ")


@pytest.mark.parametrize(
    ("scope", "dialect", "shown"),
    [
        ("project", "claude", ".claude/agent-memory/finder"),
        ("local", "claude", ".claude/agent-memory-local/finder"),
        ("user", "claude", "/home/me/.claude/agent-memory/finder"),
        ("project", "run-specialist", ".run-specialist/memory/finder"),
        ("local", "copilot", ".run-specialist/memory-local/finder"),
        ("user", "gemini", "/home/me/data/run-specialist/memory/finder"),
    ],
)
def test_agents_of_claude_code_have_its_folders_and_all_others_ours(scope, dialect, shown, monkeypatch):
    """What an agent has learnt in Claude Code is known here, and the other way round."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/me/data")
    place = memory_place(scope, "finder", dialect, PROJECT)
    assert place.shown == shown
    assert place.is_in_project == (scope != "user")
    assert place.ignored == (shown.rpartition("/")[0] if scope == "local" else "")


def test_unusual_names_cannot_lead_elsewhere():
    """Names with separators, dots and control characters get a folder of their own, and no two the same."""
    names = ["..", "../x", "/etc", ".git", "a/b", "a\\b", "", " ", "x" * 65, "\0", "a\nb", "x.", "-x", "\ud800"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all(folder.replace("-", "").isalnum() and len(folder) < 60 for folder in folders)
    assert folder_name("plugin:agent") == "plugin-agent"


def test_it_answers_unless_the_file_says_otherwise():
    """The default is `answer`; `refuse` is read in any case and spelling, without a problem."""
    assert loaded().specialist.offline == "answer"
    for line in ("offline: refuse", "offline: Refuse", "Offline: 'refuse'", "offline: !!str refuse"):
        assert loaded(line).specialist.offline == "refuse"
        assert loaded(line).problems == ()
    assert loaded("offline: answer").specialist.offline == "answer"


@pytest.mark.parametrize("value", ["never", "false", "true", "0", "[refuse, answer]", "{mode: answer}", "1.5"])
def test_an_unclear_value_counts_as_refuse(value):
    """Any other value is a warning with its place and refuses, because ignoring it could lift a restriction."""
    file = loaded(f"offline: {value}")
    assert (file.status, file.specialist.offline) == ("warning", "refuse")
    (problem,) = file.problems
    assert str(problem).startswith("agent.md:4:10: offline: must be answer or refuse, got ")
    assert str(problem).endswith("; read as refuse")


def test_of_the_package_those_that_judge_refuse():
    """Verdicts and what a change would break are judgements; the other specialists of the package find and explain."""
    files = Registry([packaged()]).nearest()
    assert [file.name for file in files if file.specialist.offline == "refuse"] == ["change-impact", "fact-checker"]


# The key `permission` of opencode: uses that it does not explicitly allow are not allowed here.
@pytest.mark.parametrize(
    ("permission", "allowed", "refused"),
    [
        ("permission: {bash: allow}", "ls", None),
        ("permission: {bash: {'*': ask, 'git log *': allow}}", "git log -3", "ls"),
        ("permission: {bash: {'git *': allow, 'git push *': deny}}", "git log", "git push"),
        ("permission: {bash: {'git *': allow, '*': allow, 'rm *': ask}}", "ls", "rm x"),
        ("permission: {bash: {'rm *': deny, '*': allow}}", "rm x", None),
        ("permission: {edit: deny, webfetch: ask}", "ls", None),
        ("permission: {'*': deny, bash: allow}", "ls", None),
    ],
)
def test_allowed_commands_stay_and_others_do_not(permission, allowed, refused):
    """The last rule that matches holds; one for everything replaces those before it."""
    file = loaded("tools: {bash: true, read: true}", permission)
    settings = file.specialist
    rules = CommandRules(settings.tools, settings.disallowed_tools)
    assert SHELL_OFFER.is_wanted(settings)
    assert rules.refusal(allowed) == ""
    assert refused is None or rules.refusal(refused)
    assert "permission" not in {problem.key for problem in file.problems}


@pytest.mark.parametrize(
    "permission",
    [
        "permission: {bash: deny}",
        "permission: {bash: ask}",
        "permission: ask",
        "permission: {'*': ask}",
        "permission: {bash: {'*': ask}}",
        "permission: {bash: [x]}",
        "permission: {bash: {'git *': allow, '*': deny}}",
    ],
)
def test_what_would_be_asked_or_denied_is_not_offered(permission):
    """Nobody can be asked here."""
    assert not SHELL_OFFER.is_wanted(loaded("tools: [bash, read]", permission).specialist)


def test_rules_of_both_kinds_allow_nothing():
    """Both would have to hold, which is not decided."""
    file = loaded("tools: ['Bash(git:*)']", "permission: {bash: {'*': deny, 'git log': allow}}")
    assert not SHELL_OFFER.is_wanted(file.specialist)


def test_other_permissions_are_still_reported():
    """A warning says that they have no effect."""
    problems = loaded("tools: [bash]", "permission: {external_directory: deny, bash: allow}").problems
    assert any(problem.key == "permission" and "no effect" in problem.text for problem in problems)


AVAILABLE = (*BUILT_IN, "mcp__web__fetch", "mcp__web__search", "mcp__db__query")


NAMES = {
    "read": ("Read", "Read(src/**)", "read_file", "read_many_files", "read/readFile"),
    "grep": ("Grep", "search_file_content", "SearchText"),
    "glob": ("Glob", "FindFiles", "findTestFiles"),
    "ls": ("LS", "list_directory", "list"),
    "search": ("codebase", "search/codebase"),
    "mcp__db__query": ("mcp__db__query",),
    "delegate": ("Task",),
    "todo": ("TodoWrite", "manage_todo_list", "update_plan"),
    "memory": ("vscode/memory",),
    "think": ("think",),
    "fetch": ("web_get",),
}


@pytest.mark.parametrize(("written", "ours"), [(name, ours) for ours, names in NAMES.items() for name in names])
def test_names_of_other_programs_map_to_the_built_in_tools(written: str, ours: str) -> None:
    """Tool names of Claude Code, Gemini CLI, opencode and Copilot map to the built-in ones."""
    assert resolve_tools([written], (), AVAILABLE) == ResolvedTools((ours,))


def test_globs_select_the_tools_of_a_server() -> None:
    """A glob, the server's name alone and `server/*` each select all tools of a server."""
    both = ("mcp__web__fetch", "mcp__web__search")
    for written in ("mcp__web__*", "mcp__web", "web/*"):
        assert resolve_tools([written], (), AVAILABLE).names == both
    assert resolve_tools(["web/fetch"], (), AVAILABLE).names == both[:1]


def test_a_server_prefix_matches_only_complete_names() -> None:
    """`mcp__a` matches names that continue with `__`, and no other names with that prefix."""
    available = ("mcp__a__x", "mcp__a__b__y", "mcp__ab__z", "mcp__a_", "mcp__a___w")
    assert resolve_tools(["mcp__a"], (), available).names == ("mcp__a__x", "mcp__a__b__y", "mcp__a___w")
    assert resolve_tools(["mcp__a__b"], (), available).names == ("mcp__a__b__y",)
    assert resolve_tools(["mcp__a_"], (), available).names == ("mcp__a_",)
    assert resolve_tools(["mcp", "mcp_", "mcp__c"], (), available).nothing_known


def test_a_star_or_no_list_selects_all_tools() -> None:
    """`*` or no list selects all tools; an empty list selects none and is valid."""
    assert resolve_tools(["*"], (), AVAILABLE).names == AVAILABLE
    assert resolve_tools(None, (), AVAILABLE).names == AVAILABLE
    assert resolve_tools([], (), AVAILABLE) == ResolvedTools(())


def test_a_disallowed_tool_is_removed_under_any_name() -> None:
    """A disallowed tool is removed, whichever of its names is used."""
    assert resolve_tools(["Read", "Grep"], ["read_file"], AVAILABLE).names == ("grep",)
    assert resolve_tools(None, ["mcp__web__*", "Task", "nothing"], AVAILABLE).names == (
        *(name for name in BUILT_IN if name != "delegate"),
        "mcp__db__query",
    )


# The tools that change files: their names in other programs, and the key `writable` that they require.
def problems(*lines):
    """Return the warnings and errors of a file with these keys."""
    return [problem.text for problem in loaded(*lines).problems if problem.level != "notice"]


def test_without_writable_a_warning_says_what_to_add():
    """With it the file has no problem."""
    lacking = "not available here: Edit, Write; `Edit` requires the key `writable`"
    assert problems("tools: Read, Edit, Write") == [lacking]
    assert problems("tools: Edit") == [
        "not available here: Edit; `Edit` requires the key `writable`; no tool is left, so the specialist cannot be run"
    ]
    assert problems("tools: Read, Edit, Write", "writable: docs/") == []


@pytest.mark.parametrize("value", ["../x", "/etc", "~/x", "a/../../b"])
def test_writable_paths_stay_below_the_root(value):
    """As with `paths`, a path that leads out is an error."""
    assert problems("tools: Read", f"writable: [{value}]")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *[(one, "edit") for one in ("Edit", "MultiEdit", "replace", "edit/editFiles", "editFiles", "str_replace")],
        *[(one, "write") for one in ("Write", "write_file", "create_file", "edit/createFile", "Write(docs/**)")],
    ],
)
def test_names_of_other_programs_ask_for_a_tool_that_changes_files(written, name):
    """Claude Code, Gemini CLI, opencode and Copilot; a pattern does not ask."""
    assert names_tool([written], name)
    assert not names_tool(["*", "e*", "w*", "edit*"], name)
