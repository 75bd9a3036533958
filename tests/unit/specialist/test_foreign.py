"""Agent files of other programs: where they are found, what their keys and models mean, and whom they may ask."""

from pathlib import Path

import pytest

from run_specialist.errors import NotTrusted, UsageError
from run_specialist.providers.choose import make_provider
from run_specialist.spawning.trust import RunContext, Trust, check_model
from run_specialist.specialist import registry as agent_graph
from run_specialist.specialist.dialects import dialect_of, served_name, unserved
from run_specialist.specialist.loader import SpecialistFile, load, load_text
from run_specialist.specialist.project import packaged, places
from run_specialist.specialist.registry import Registry

TEXT = "---\ndescription: d\n---\nBody\n"
TOML = 'description = "d"\ndeveloper_instructions = "Body"\n'

FOUND = {
    ".claude/agents/team/a.md": "claude",
    ".github/agents/b.agent.md": "copilot",
    ".github/agents/c.md": "copilot",
    ".gemini/agents/d.md": "gemini",
    ".opencode/agents/deep/er/e.md": "opencode",
    ".opencode/agent/f.md": "opencode",
    ".codex/agents/team/g.toml": "codex",
    ".cursor/agents/h.md": "cursor",
    "specialists/deep/i.md": "run-specialist",
}
NOT_FOUND = (
    *(".github/agents/README.md", ".github/agents/deep/no.agent.md", ".github/no.agent.md", ".gemini/agents/_draft.md"),
    *(".gemini/agents/deep/no.md", ".codex/agents/no.md", ".codex/config.toml", ".cursor/agents/no.toml"),
    *(".claude/agents/.hidden/no.md", "specialists/no.toml"),
)


def write(path: Path, text: str | None = None) -> None:
    """Write an agent file of the kind that its ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or (TOML if path.suffix == ".toml" else TEXT))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project, beside a home folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def listed(project: Path) -> Registry:
    """Return the specialists of a project and its user."""
    return Registry(places(project))


def test_every_dialect_is_found_in_a_project(project: Path) -> None:
    """Files are found in the folders and subfolders that each program reads, in the order of the folders."""
    for name in (*FOUND, *NOT_FOUND):
        write(project / name)
    own = [file for file in listed(project).files() if not file.path.is_relative_to(packaged())]
    found = {str(file.path.relative_to(project)): file.dialect for file in own}
    assert found == FOUND
    assert [file.name for file in own] == ["i", *"abcdefgh"]
    assert {file.specialist and file.specialist.prompt for file in own} == {"Body"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/repo/opencode/agents/x.md", "run-specialist"),
        ("/repo/.claude/agents/.codex/agents/x.md", "codex"),
        ("/repo/.claude/worktrees/a/specialists/x.md", "run-specialist"),
        ("/elsewhere/x.toml", "codex"),
    ],
)
def test_the_dialect_follows_from_the_path(path: str, name: str) -> None:
    """The innermost folder of a program decides; a folder that only has the name of a program does not."""
    assert dialect_of(Path(path)).name == name


def loaded(front: str) -> SpecialistFile:
    """Load a file with this front matter."""
    return load_text(f"---\nname: agent\ndescription: d\n{front}\n---\nBody\n", Path("agent.md"))


def warned(file: SpecialistFile) -> list[str]:
    """Return the keys of a file that have a warning."""
    return [problem.key or "" for problem in file.problems if problem.level == "warning"]


@pytest.mark.parametrize(
    ("front", "agents"),
    [
        ("tools: Read, Agent(worker, web-researcher)", ("worker", "web-researcher")),
        ("tools: [Read, Agent(a, b), Task(b, c)]", ("a", "b", "c")),
        ("tools: Read, Agent", ()),
        ("tools: Read, Bash(git log, a)", ()),
        ("tools: Agent(a)\nagents: [b]", ("b",)),
        ("agents: '*'", ("*",)),
    ],
)
def test_agents_may_be_named_under_tools(front: str, agents: tuple[str, ...]) -> None:
    """`Agent(a, b)` and `Task(a)` name the specialists that may be asked, unless `agents` does."""
    file = loaded(front)
    assert file.specialist.agents == agents


@pytest.mark.parametrize(
    "key", ["effort", "reasoning_effort", "reasoningEffort", "thinking_level", "model_reasoning_effort"]
)
@pytest.mark.parametrize(("value", "effort"), [("HIGH", "high"), ("minimal", "low"), ("none", None)])
def test_effort_has_the_names_of_other_programs(key: str, value: str, effort: str | None) -> None:
    """Each name of the key is the same key; an invalid effort is ignored with a warning."""
    file = loaded(f"{key}: {value}")
    assert file.specialist.effort == effort
    assert warned(file) == ([] if effort else ["effort"])


@pytest.mark.parametrize(
    ("front", "key"),
    [
        ("kind: remote\nagent_card_url: https://a.example/card", "kind"),
        ("agent-card-url: https://a.example", "agent-card-url"),
    ],
)
def test_a_remote_agent_is_refused_by_name(front: str, key: str) -> None:
    """An agent on another server is an error that says so, once; a local one is not."""
    (error,) = [problem for problem in loaded(front).problems if problem.level == "error"]
    assert (error.key, "remote agent" in error.text) == (key, True)
    assert loaded("kind: local").status == "ok"


@pytest.mark.parametrize(
    ("front", "is_hidden"),
    [
        ("disable-model-invocation: true", True),
        ("infer: false", True),
        ("infer: true", False),
        ("infer: false\ndisableModelInvocation: false", False),
    ],
)
def test_a_specialist_may_be_hidden_from_models(front: str, is_hidden: bool) -> None:
    """`disable-model-invocation` and its older opposite `infer` mean the same; the newer one wins."""
    specialist = loaded(front).specialist
    assert specialist is not None
    assert specialist.disable_model_invocation is is_hidden


@pytest.mark.parametrize(
    ("key", "value"),
    [("isolation", "worktree"), ("permissionMode", "plan"), ("sandbox_mode", "read-only"), ("readonly", "true")],
)
def test_a_restriction_that_holds_anyway_is_no_warning(key: str, value: str) -> None:
    """Restrictions that keep from writing are a notice while all tools only read, else a warning."""
    assert warned(loaded(f"{key}: {value}\ntools: Read")) == []
    for more in ("python_tools: [a:b]", "mcp_servers: {a: {url: 'https://a.example'}}", "agents: [b]", "memory: local"):
        assert key in warned(loaded(f"{key}: {value}\n{more}"))
    assert "permissionMode" in warned(loaded("permissionMode: dontAsk"))


def test_specialists_that_may_ask_all_do_not_form_cycles(tmp_path: Path) -> None:
    """Names under `agents` that form a cycle are an error, but not those of `Agent(...)` and `*`."""
    for name, front in (
        ("lead", "tools: Agent(worker)"),
        ("worker", "tools: Task(lead, nobody)"),
        ("all", "agents: ['*']"),
        ("one", "agents: [two]"),
        ("two", "agents: [one]"),
        ("hidden", "disable-model-invocation: true"),
    ):
        (tmp_path / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\n{front}\n---\nBody\n")
    registry = Registry([tmp_path])
    status = {file.name: file.status for file in registry.files()}
    assert status == {"lead": "ok", "worker": "warning", "all": "ok", "one": "error", "two": "error", "hidden": "ok"}
    assert "no specialist named nobody" in str(registry.find("worker").problems)
    assert registry.callable_names(["hidden", "*"]) == ("hidden", "all", "lead", "worker")
    assert registry.callable_names(["x"]) == ("x",)


SERVED = {
    "Claude Sonnet 4.5 (copilot)": "claude-sonnet-4-5",
    "Claude Sonnet 4": "claude-sonnet-4-0",
    "Claude Opus 5.5": "claude-opus-5-5",
    "claude-4.5-sonnet-thinking": "claude-sonnet-4-5",
    "anthropic/claude-sonnet-4-5-20250929": "claude-sonnet-4-5-20250929",
    "openrouter/anthropic/claude-sonnet-4.5": "claude-sonnet-4-5",
    "GPT-5 mini (copilot)": "openai:gpt-5-mini",
    "gpt-5.3-codex-spark": "openai:gpt-5.3-codex-spark",
    "openai/gpt-5": "openai:gpt-5",
    "github-copilot/gpt-5": "openai:gpt-5",
    "o4-mini": "openai:o4-mini",
    "ollama/llama3:8b": "ollama:llama3:8b",
}
KEPT = (
    *("sonnet", "inherit", "offline", "claude-sonnet-5-5", "claude-sonnet-4-20250514", "claude-3-5-sonnet-latest"),
    *("us.anthropic.claude-sonnet-4-20250514-v1:0", "openai:gpt-5", "ollama:library/llama3"),
    *("local:/models/gemini.gguf", "my-model", ""),
)
REFUSED = ("gemini-3-flash", "Gemini 3 Pro (Preview)", "google/gemini-3-pro", "openrouter/x", "deepseek-chat", "llama3")


def test_names_of_other_programs_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Display names and prefixes of vendors become ids of this program's endpoints; replacing twice changes nothing."""
    for written, served in SERVED.items():
        assert served_name(written) == served
        assert served_name(served) == served
        assert not unserved(served)
    for name in KEPT:
        assert (served_name(name), unserved(name)) == (name, "")
    # A server of one's own may serve anything, by any name without blanks.
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    for name in (*KEPT, *REFUSED, "openai/gpt-5", "gpt-5", "anthropic/claude-sonnet-4.5", "GPT-5 mini"):
        assert (served_name(name), unserved(name)) == (name, "")
    assert served_name("Claude Sonnet 4.5 (copilot)") == "claude-sonnet-4-5"


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_no_endpoint_serves_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with it has one warning at its line, and a run is refused although there is a key."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    file = load_text(f"---\nname: agent\ndescription: d\nmodel: {name}\n---\nBody\n", Path("agent.md"))
    assert [(p.line, p.key) for p in file.problems if p.level == "warning"] == [(4, "model")]
    assert file.model == name
    with pytest.raises(UsageError, match="Messages API does not serve it"):
        make_provider(name)


def test_the_file_keeps_its_name_and_the_settings_get_the_id() -> None:
    """Listings show what the file says; a run asks for the id."""
    text = "---\nname: agent\ndescription: d\nmodel: Claude Sonnet 4.5 (copilot)\n---\nBody\n"
    file = load_text(text, Path("agent.md"))
    assert (file.model, file.specialist.model) == ("Claude Sonnet 4.5 (copilot)", "claude-sonnet-4-5")
    assert file.status == "ok"


async def test_a_local_model_needs_trust_by_each_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's file asks no server of this machine without trust, however it writes the prefix."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    path = tmp_path / "project" / ".opencode" / "agents" / "agent.md"
    path.parent.mkdir(parents=True)
    for model in ("ollama:qwen3", "ollama/qwen3", "openrouter/ollama/qwen3"):
        path.write_text(f"---\nname: agent\ndescription: d\nmodel: {model}\n---\nBody\n")
        file = load(path, tmp_path / "project")
        trust = Trust(folder=tmp_path / "trusted")
        context = RunContext(file, file.specialist, tmp_path / "project", trust)
        with pytest.raises(NotTrusted, match="to Ollama at"):
            await check_model(context, file.specialist.model, "model")


def file(name, *agents, lines=(), folder="/s"):
    """Return a specialist's file that lists others as agents."""
    listed = [f"agents: [{', '.join(agents)}]"] if agents else []
    head = "\n".join(("---", f"name: {name}", f"description: Is {name}.", *lines, *listed, "---"))
    return load_text(f"{head}\nYou answer.\n", Path(folder, f"{name}.md"))


def problems_of(*files, further=()):
    """Return the problems of each file by its name, each as level and text."""
    found = agent_graph.check(files, lambda: further)
    return {one.name: [(problem.level, problem.text) for problem in one.problems] for one in found}


def test_existing_agents_cause_no_problem(tmp_path):
    """Agents are found by name, file stem, path or in any case, also in more distant folders."""
    (tmp_path / "b.md").write_text("---\nname: b\ndescription: Is b.\n---\nYou answer.\n")
    assert problems_of(file("a", str(tmp_path / "b.md")))["a"] == []
    assert problems_of(file("a", str(tmp_path / "c.md")))["a"][0][1].startswith("no specialist named ")
    other = load_text("---\nname: Toad\ndescription: Is.\n---\nYou answer.\n", Path("/s/toads.md"))
    assert problems_of(file("a", "b", "TOAD", "toads"), file("b"), further=[other])["a"] == []


def test_an_unknown_agent_is_a_warning_with_a_suggestion():
    """An unknown agent gives one warning per name, with a suggestion if a similar name exists."""
    (checked, _) = agent_graph.check([file("a", "fact-chekcer", "zebra", "zebra"), file("fact-checker")])
    assert [str(problem) for problem in checked.problems] == [
        "/s/a.md:4:1: agents: no specialist named fact-chekcer; did you mean fact-checker?",
        "/s/a.md:4:1: agents: no specialist named zebra",
    ]
    assert checked.status == "warning"


def test_an_unusable_agent_is_a_warning_with_the_reason():
    """The warning for an unusable agent contains that agent's own error and its place."""
    said = problems_of(file("a", "b"), file("b", lines=["tool_calls_limit: many"]))
    assert said["a"] == [
        (
            "warning",
            "b cannot be run: /s/b.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got many",
        )
    ]


CIRCLE = "calls form a cycle: {}; remove one of these names"


def test_a_cycle_is_an_error_in_each_of_its_files():
    """Each checked file in a cycle gets an error with the path from itself; files that lead into it get a warning."""
    said = problems_of(file("a", "b"), file("b", "c", "d"), file("c", "a"), file("d"), file("e", "a"))
    assert said["a"] == [("error", CIRCLE.format("a -> b -> c -> a"))]
    assert said["b"] == [("error", CIRCLE.format("b -> c -> a -> b"))]
    assert said["c"] == [("error", CIRCLE.format("c -> a -> b -> c"))]
    assert said["d"] == []
    assert said["e"] == [("warning", "a cannot be run: it is part of a cycle")]
    assert problems_of(file("a", "a"))["a"] == [("error", CIRCLE.format("a -> a"))]
    said = problems_of(file("a", "b"), further=[file("b", "a", folder="/far")])
    assert said == {"a": [("error", CIRCLE.format("a -> b -> a"))]}


def test_the_number_of_warnings_is_limited():
    """The number of warnings is limited, so a damaged file does not fill the screen."""
    said = problems_of(file("a", *(f"nobody{number}" for number in range(300))))["a"]
    assert len(said) == agent_graph.MAX_REPORTED + 1
    assert said[-1] == ("warning", "290 more names that cannot be called")


@pytest.mark.exhaustive
def test_long_chains_are_checked_without_recursion():
    """A ring of 1,000 files and a fully connected team are checked without recursion."""
    ring = (file(f"n{number}", f"n{(number + 1) % 1_000}") for number in range(1_000))
    assert {text[:21] for said in problems_of(*ring).values() for _, text in said} == {"calls form a cycle: n"}
    team = problems_of(*(file(f"n{number}", *(f"n{other}" for other in range(40))) for number in range(40)))
    assert all(said[0][0] == "error" for said in team.values())


def test_the_example_of_the_docs_is_without_a_problem():
    """The example in docs/own-tools.md lists packaged specialists and has no problems."""
    root = Path(__file__).parents[3]
    examples = (root / "docs/own-tools.md").read_text(encoding="utf-8").split("```markdown\n")[1:]
    (example,) = (text.split("```")[0] for text in examples if "name: release-editor" in text)
    loaded = load_text(example, Path("release-editor.md"))
    (checked,) = agent_graph.check([loaded], Registry([root / "specialists"]).files)
    assert (checked.specialist.agents, checked.problems) == (("thoughts-analyzer", "fact-checker"), ())
