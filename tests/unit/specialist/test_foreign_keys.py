"""What keys of other programs mean here."""

from pathlib import Path

import pytest

from run_specialist.specialist.loader import SpecialistFile, load_text
from run_specialist.specialist.registry import Registry


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
        ("tools: [Read, Task(worker)]", ("worker",)),
        ("tools: [Read, Agent(a, b), Task(b, c)]", ("a", "b", "c")),
        ("tools: Read, Agent", ()),
        ("tools: Read, Agent()", ()),
        ("tools: Read, Bash(git log, a)", ()),
        ("tools: Agent(a)\nagents: [b]", ("b",)),
        ("agents: '*'", ("*",)),
    ],
)
def test_agents_may_be_named_under_tools(front: str, agents: tuple[str, ...]) -> None:
    """`Agent(a, b)` and `Task(a)` name the specialists that may be asked, unless `agents` does."""
    file = loaded(front)
    assert file.specialist is not None
    assert file.specialist.agents == agents


def test_agents_under_tools_count_as_set_by_the_file() -> None:
    """The derived value has the line of `tools`, and no default replaces it."""
    file = loaded("color: red\ntools: Read, Agent(a)")
    assert file.specialist is not None
    assert (file.lines["agents"], "agents" in file.specialist.model_fields_set) == (5, True)
    assert warned(file) == []


@pytest.mark.parametrize(
    "key", ["effort", "reasoning_effort", "reasoningEffort", "thinking_level", "model_reasoning_effort"]
)
@pytest.mark.parametrize(("value", "effort"), [("HIGH", "high"), ("minimal", "low"), ("none", None)])
def test_effort_has_the_names_of_other_programs(key: str, value: str, effort: str | None) -> None:
    """Each name of the key is the same key; an invalid effort is ignored with a warning."""
    file = loaded(f"{key}: {value}")
    assert file.specialist is not None
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
