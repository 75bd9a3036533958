"""What a worker checks on its own host before it takes the items of a batch."""

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.fleet.batches import BatchHere, Root, freeze, put
from run_specialist.specialist.loader import load

pytestmark = pytest.mark.anyio
HEAD = "name: finder\ndescription: Finds.\nmodel: claude-haiku-4-5\n"
SKILL = "---\nname: owls\ndescription: About owls.\n---\nOwls eat mice.\n"
NEEDS = {
    "output_schema: shape.json": ("specialists/shape.json", '{"type": "object"}', "shape.json: cannot be read"),
    "skills: [owls]": (".agents/skills/owls/SKILL.md", SKILL, "no skill named owls"),
    "paths: ['vault/**']": ("vault/owls.md", "Owls.\n", "no file under"),
    "python_tools: ['birds:owls']": ("birds.py", "def owls() -> str: ...\n", "no module birds"),
}
"""What a file may name, what that needs on the host, and the reason without it."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that makes the project of a host, which has the specialist and other files."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")

    def make(host, key, *others):
        root = tmp_path / host / "notes"
        for name, text in (("specialists/finder.md", f"---\n{HEAD}{key}\n---\nFind.\n"), *others):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return make


async def checked(frozen, root, *, trust=False):
    """Check a batch on the host with this root."""
    here = BatchHere("b1", frozen.model_dump(), {"notes": Root(root)}, "postgresql://nobody@127.0.0.1:1/x", trust=trust)
    try:
        await here.check()
    finally:
        await here.aclose()


@pytest.mark.parametrize("key", NEEDS)
async def test_a_host_that_lacks_what_the_specialist_names_is_found_out(project, key):
    """The host with the file passes; one that lacks it, or the permission, is refused with the reason."""
    name, text, reason = NEEDS[key]
    root = project("one", key, (name, text))
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    await checked(frozen, root, trust=True)
    with pytest.raises(UsageError, match=reason):
        await checked(frozen, project("two", key))


async def test_a_host_that_does_not_trust_the_batch_is_found_out(project):
    """A function needs a permission on each host, which `--trust` gives."""
    key = "python_tools: ['birds:owls']"
    root = project("one", key, NEEDS[key][:2])
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    with pytest.raises(UsageError, match="must be allowed once with --trust"):
        await checked(frozen, root)
    await checked(frozen, root, trust=True)


@pytest.mark.parametrize("place", ["specialists/finder.md", "elsewhere.md"])
@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"mcp_servers": {"evil": {"command": "sh", "args": ["-c", "harm"]}}}, "mcp_servers: data, such as"),
        ({"python_tools": ["subprocess:getoutput"]}, "python_tools: data, such as"),
        ({"tools": ["bash"], "writable": ["."]}, "tools: data, such as"),
        ({"paths": [".env"]}, "paths: data, such as"),
        ({"tool_calls_limit": 99}, "tool_calls_limit: can only lower the limit, which is 30"),
    ],
)
async def test_p1_settings_of_the_queue_have_no_powers(project, settings, reason, place, trust):
    """Whoever writes to the queue cannot make a worker do more than its specialist's file, also with `--trust`."""
    root = project("one", "tools: [grep]")
    frozen = freeze(load(root / "specialists" / "finder.md"), root, settings)
    frozen = frozen.model_copy(update={"place": place})
    with pytest.raises(UsageError, match=f"its settings: {reason}"):
        await checked(frozen, root, trust=trust)


async def test_p1_a_file_that_only_the_queue_has_gets_no_powers(project):
    """`--trust` is for files that are on this host."""
    key = "python_tools: ['birds:owls']"
    root = project("one", key, NEEDS[key][:2])
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    other = project("two", "tools: [grep]", NEEDS[key][:2])
    with pytest.raises(UsageError, match=r"would import birds .*; data, such as a stored run"):
        await checked(frozen, other, trust=True)
    (other / "specialists" / "finder.md").write_bytes((root / "specialists" / "finder.md").read_bytes())
    await checked(frozen, other, trust=True)


async def test_p1_a_batch_names_no_model_of_another_server(project, tmp_path):
    """Weights of any path, and servers that this host does not use, are the decision of its user."""
    root = project("one", "tools: [grep]")
    file = load(root / "specialists" / "finder.md")
    for model in (f"local:{tmp_path}/evil.gguf", "ollama:qwen3", "sonnet,openai:gpt"):
        with pytest.raises(UsageError, match="is not allowed here"):
            await checked(freeze(file, root, {}, model), root, trust=True)
    await checked(freeze(file, root, {}, "sonnet"), root)


async def test_p1_a_batch_loads_no_weights_that_its_file_names_without_trust(project, tmp_path):
    """The model of the batch is that of the file, which is of a project, and needs trust as it does without a queue."""
    root = project("one", "tools: [grep]")
    path = root / "specialists" / "finder.md"
    path.write_text(path.read_text().replace("claude-haiku-4-5", f"local:{tmp_path}/evil.gguf"))
    for model in (None, f"local:{tmp_path}/evil.gguf"):
        with pytest.raises(UsageError, match="must be allowed once with --trust"):
            await checked(freeze(load(path), root, {}, model), root)


async def test_a_host_without_credentials_is_found_out(project, monkeypatch):
    """It is refused before an item fails."""
    root = project("one", "tools: [grep]")
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    await checked(frozen, root)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no credentials for claude-haiku-4-5"):
        await checked(frozen, root)


async def test_p1_a_batch_that_workers_would_refuse_is_not_put_into_the_queue(project, monkeypatch):
    """The submitter learns it at once, before the queue is opened."""
    root = project("one", "tools: [grep]")
    monkeypatch.chdir(root)
    async with Runner(root=root, store="none") as runner:
        with pytest.raises(UsageError, match="--queue: tool_calls_limit: can only lower the limit, which is 30"):
            await put(
                runner,
                "postgresql://nobody@127.0.0.1:1/x",
                "finder",
                ["a"],
                batch_id="b1",
                settings={"tool_calls_limit": 60},
            )
