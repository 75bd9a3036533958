"""MCP tools in a run: filtered, counted, landed and stored like other tools."""

import shutil

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.store.reader import Store
from tests.loop_jobs import results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.wire.mcp_servers.running_servers import running, script


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a specialist with servers; `{good}` and `{raw HOW}` become their commands."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / ".git").mkdir()
    (tmp_path / "specialists").mkdir()
    (tmp_path / "owls.md").write_text("Owls eat mice.\n")
    monkeypatch.chdir(tmp_path)

    def write_file(*lines, servers):
        entries = [f"  {name}: {{command: {list(script(*words))}, timeout: 60}}" for name, words in servers.items()]
        text = "\n".join(
            ["---", "name: finder", "description: Finds", *lines, "mcp_servers:", *entries, "---", "Find."]
        )
        (tmp_path / "specialists" / "finder.md").write_text(text.replace("'", '"'))

    return write_file


async def run(tmp_path, *script, **settings):
    """Ask, and return the outcome and the provider."""
    provider = ScriptedProvider(script)
    async with Runner(root=tmp_path, provider=provider, trust=True) as runner:
        outcome = await runner.run("finder", "What is known?", **settings)
    provider.assert_used_up()
    return outcome, provider


def add(a, b):
    """Script one call."""
    return ("mcp__good__add", {"a": a, "b": b})


async def test_mcp_calls_are_counted_and_landed_like_other_calls(tmp_path, write):
    """MCP calls carry the countdown, count when they fail, and are skipped over the limit; the run answers."""
    write(servers={"good": ("good", str(tmp_path))})
    outcome, provider = await run(
        tmp_path,
        calls(add(1, 2), ("mcp__good__fail", {})),
        calls(add(3, 4), add(5, 6), first_id=3),
        calls(("respond", {"answer": "It is 7."}), first_id=9),
        tool_calls_limit=3,
    )
    first, second = (results(asked.messages[-1]) for asked in provider.requests[1:])
    assert first[0] == "3"
    assert first[1].splitlines()[0].startswith("mcp__good__fail failed: Error executing tool fail")
    assert first[1].endswith("\n1 tool call remaining")
    assert second[0] == "7\n0 tool calls remaining"
    assert second[1].startswith("Not run: limit reached")
    assert (outcome.status, outcome.answer) == ("landed", "It is 7.")
    used = outcome.tool_calls
    assert (used.used, used.failed, used.skipped) == (3, 1, 1)
    assert running(tmp_path) == []


async def test_secrets_in_results_and_errors_are_masked(tmp_path, write):
    """Secrets in results and errors are masked before a model sees them."""
    write(servers={"good": ("good", str(tmp_path))})
    secret = "sk-ant-" + "a" * 30
    _, provider = await run(tmp_path, calls(("mcp__good__echo", {"text": secret})), says("done"))
    assert results(provider.requests[1].messages[-1])[0].startswith("[redacted]")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("tools: good/add, mcp__good__slow, Read", {"mcp__good__add", "mcp__good__slow", "read"}),
        ("tools: [mcp__good__a*, mcp__other]\ndisallowed_tools: mcp__other, mcp__good__add", {"mcp__good__ask_back"}),
    ],
)
async def test_the_tools_key_filters_mcp_tools(tmp_path, write, line, names):
    """`tools` selects by full name, pattern, server or `server/tool`; `disallowed_tools` removes."""
    write(line, servers={"good": ("good", str(tmp_path)), "other": ("raw", "fine", str(tmp_path))})
    _, provider = await run(tmp_path, says("done"))
    assert set(provider.opening.tools.names) - {"respond", "get_tool_response"} == names


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["exits", "untyped"])
async def test_an_unavailable_server_causes_a_warning(tmp_path, write, how):
    """An unavailable server causes a warning with file and line, and the run answers without its tools."""
    write("tools: mcp__raw__*", servers={"raw": ("raw", how, str(tmp_path))})
    outcome, _ = await run(tmp_path, says("done"))
    (warning,) = outcome.warnings
    assert warning.startswith(f"{tmp_path}/specialists/finder.md:5:1: mcp_servers: raw: i")
    assert outcome.status == "answered"


async def test_nothing_is_started_without_trust(tmp_path, write):
    """Without trust no server is started and no request is sent; the error names the command."""
    write(servers={"good": ("good", str(tmp_path))})
    async with Runner(root=tmp_path, provider=ScriptedProvider([])) as runner:
        with pytest.raises(NotTrusted, match=r"good\.py"):
            await runner.run("finder", "What is known?")
    assert issubclass(NotTrusted, UsageError)
    assert running(tmp_path) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("there", [True, False])
async def test_a_resumed_run_restarts_its_servers(tmp_path, write, there):
    """A resumed run restarts its servers; for a missing one it warns, keeps the tools, and calls return errors."""
    write(servers={"raw": ("raw", "fine", str(tmp_path))})
    program = shutil.copy(script("raw")[1], tmp_path / "own.py")
    file = tmp_path / "specialists" / "finder.md"
    file.write_text(file.read_text().replace(script("raw")[1], str(program)))
    store = f"sqlite:///{tmp_path}/runs.db"
    look = ("mcp__raw__look", {})
    ask = calls(look), calls(("respond", {"answer": "So far."}), first_id=8)
    async with Runner(root=tmp_path, provider=ScriptedProvider(ask), trust=True, store=store) as runner:
        first = await runner.run("finder", "What is known?", tool_calls_limit=1)
    assert first.status == "landed"
    if not there:
        program.unlink()
    provider = ScriptedProvider([calls(look, first_id=20), says("done")])
    async with Runner(root=tmp_path, provider=provider, trust=True, store=store) as runner:
        outcome = await (await runner.resume("last", tool_calls_limit=3)).outcome()
    assert "mcp__raw__look" in provider.opening.tools.names
    assert results(provider.requests[-1].messages[-1])[0].startswith("seen" if there else "mcp__raw__look failed: ")
    assert ["own.py" in warning for warning in outcome.warnings] == ([] if there else [True])
    assert (outcome.status, running(tmp_path)) == ("answered", [])


@pytest.mark.exhaustive
async def test_server_values_are_masked_in_the_store_and_sent_again(tmp_path, write):
    """Plain-text server values reach the server, also after a resume, but the stored settings hold only a mask."""
    write(servers={"good": ("good", str(tmp_path))})
    file = tmp_path / "specialists" / "finder.md"
    file.write_text(file.read_text().replace("}\n---", ", env: {OWL: plain-hoot}}\n---"))
    store = f"sqlite:///{tmp_path}/runs.db"
    ask = [calls(("mcp__good__environment", {})), calls(("respond", {"answer": "So far."}), first_id=8)]
    first, again = (
        ScriptedProvider(ask),
        ScriptedProvider([calls(("mcp__good__environment", {}), first_id=20), *ask[1:]]),
    )
    async with Runner(root=tmp_path, provider=first, trust=True, store=store) as runner:
        run_id = (await runner.run("finder", "What is known?")).run_id
    async with Runner(root=tmp_path, provider=again, store=store) as runner:
        await (await runner.resume(run_id, "And now?")).outcome()
    assert all("OWL=plain-hoot" in results(one.requests[-1].messages[-1])[0] for one in (first, again))
    with Store(store) as kept:
        frozen = kept.load(run_id).frozen
    assert frozen["settings"]["mcp_servers"]["good"]["env"] == {"OWL": "[redacted]"}
    assert "plain-hoot" not in str(frozen)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("read, mcp__god__add", "no tool of an MCP server matches mcp__god__add; available: mcp__good__add, mcp__good"),
        ("read", "lists no tool of the MCP servers, so none can be called; available: mcp__good__add"),
        ("read, mcp__good__*", None),
    ],
    ids=str,
)
async def test_a_filter_that_removes_all_tools_of_a_server_causes_a_warning(tmp_path, write, tools, said):
    """A filter that removes all tools of a server causes a warning with the line of `tools` and the available names."""
    write(f"tools: {tools}", servers={"good": ("good", str(tmp_path))})
    outcome, _ = await run(tmp_path, says("done"))
    told = [text for text in outcome.warnings if ": tools: " in text and "finder.md:4" in text]
    assert (len(told), said is None or said in told[0]) == (0 if said is None else 1, True)
