"""Python functions of a project or a program as tools: trust, calls, counting and timeouts."""

import asyncio
import sys
import threading
from contextlib import asynccontextmanager

import pytest

from run_specialist import Context, Executed, NotTrusted, ProviderError, Runner, Specialist, UsageError, tool
from run_specialist.loop.evidence import NOTHING_READ
from tests.loop.replies import asks
from tests.loop_jobs import results
from tests.projects import project
from tests.scripted_provider import ScriptedProvider, calls
from tests.scripted_specialists import ScriptedSpecialists, write

LOOKS = calls(("lookup", {"word": "owl"}))
ANSWER = calls(("respond", {"answer": "mice"}), first_id=99)
LOOKUP = ("def lookup(word: str) -> dict:", '    """Look up a word."""', "    return {'found': word}")


@asynccontextmanager
async def playing(*script, **options):
    """Give a runner with a script, which must have been played to its end."""
    provider = ScriptedProvider(script)
    async with Runner(provider=provider, **options) as runner:
        runner.script = provider
        yield runner
    provider.assert_used_up()


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Create a project with a module and an empty home directory, and change into the project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    with project(tmp_path / "project") as made:
        monkeypatch.chdir(made.root)
        made.write("PKG/tools.py", *LOOKUP)
        yield made


async def test_a_function_of_the_project_is_called_and_counted(app):
    """A project function is called, its result is JSON, the call counts, and the countdown follows the result."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 2")
    async with playing(LOOKS, ANSWER, trust=True) as runner:
        outcome = await runner.run("finder", "What?")
    assert results(runner.script.requests[1].messages[-1]) == ['{"found": "owl"}\n1 tool call remaining']
    assert (outcome.answer, outcome.tool_calls.used) == ("mice", 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("lines", "there"),
    [
        (["tools: [read]"], ["get_tool_response", "lookup", "read", "respond"]),
        (["tools: [lookup]"], ["get_tool_response", "lookup", "respond"]),
        (["tools: [read]", "disallowed_tools: ['look*']"], ["read", "respond"]),
    ],
    ids=str,
)
async def test_declared_functions_are_removed_only_by_disallowed_tools(app, lines, there):
    """`tools` does not filter declared functions and may list them as well; `disallowed_tools` removes them."""
    app.specialist("python_tools: ['PKG.tools:lookup']", *lines)
    async with playing(ANSWER, trust=True) as runner:
        outcome = await runner.run("finder", "What?")
    assert list(runner.script.opening.tools.names) == there
    assert outcome.warnings == (NOTHING_READ,)


async def test_an_untrusted_module_is_not_imported(app):
    """Untrusted modules are refused before import and requests; once allowed, later runners need no trust option."""
    app.specialist("python_tools: ['PKG.tools:lookup']")
    async with playing() as runner:
        with pytest.raises(NotTrusted, match=rf"finder\.md:4:1: python_tools: would import {app.package}\.tools"):
            await runner.run("finder", "What?")
    assert f"{app.package}.tools" not in sys.modules
    for trust in (True, False):
        async with playing(ANSWER, trust=trust) as runner:
            assert (await runner.run("finder", "What?")).answer == "mice"


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("references", "said"),
    [
        ("[nowhere.tools:lookup]", "python_tools: nowhere.tools:lookup: no module nowhere"),
        ("['PKG.tools:lokup']", "PKG.tools has no lokup; did you mean lookup?"),
        (
            "['PKG.tools:lookup', 'PKG.twin:lookup']",
            "PKG.twin:lookup: tool name lookup is already used by another function",
        ),
        ("['PKG.ours:respond']", "PKG.ours:respond: tool name respond is reserved"),
    ],
)
async def test_an_unusable_function_is_refused_before_any_request(app, references, said):
    """An unusable function is refused with one line that has file and key, before any request."""
    app.write("PKG/twin.py", *LOOKUP)
    app.write("PKG/ours.py", "def respond(answer: str) -> str:", "    return answer")
    path = app.specialist(f"python_tools: {references}")
    async with playing(trust=True) as runner:
        with pytest.raises(UsageError) as caught:
            await runner.run("finder", "What?")
    assert str(caught.value).startswith(f"{path}:4:1: python_tools: ")
    assert said.replace("PKG", app.package) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_untrusted_child_is_an_error_result_for_its_parent(app):
    """An untrusted child is an error for each call, which names the module, and one warning; with trust it runs."""
    write(app.root, "lead", "agents: [finder]")
    write(app.root, "finder", f"python_tools: ['{app.package}.tools:lookup']")
    for trust, child in ((False, []), (True, [[LOOKS, ANSWER], [LOOKS, ANSWER]])):
        cast = ScriptedSpecialists(lead=[[asks("finder", "finder"), ANSWER]], finder=child)
        async with Runner(provider=cast, trust=trust) as runner:
            outcome = await runner.run("lead", "What?")
        cast.assert_used_up()
        for told in results(cast.played["lead"][0].requests[1].messages[-1]):
            assert ("could not be asked" in told, f"would import {app.package}.tools" in told) == (not trust, not trust)
        assert (outcome.answer, len(outcome.children)) == ("mice", 2 * trust)
        warned = [text for text in outcome.warnings if text.startswith("finder could not be asked: ")]
        assert ["`trust=True`" in text for text in warned] == [True] * (not trust)


async def test_a_tool_can_read_the_remaining_budget():
    """A tool can read how many calls and tokens remain, and the time limit of its own call."""
    asked = []

    @tool
    async def lookup(word: str, ctx: Context) -> list[str]:
        """Look up a word."""
        asked.append((ctx.left("tool_calls"), ctx.left("tokens"), ctx.seconds, ctx.call_id))
        return [word] * int(ctx.left())

    looks = [calls(("lookup", {"word": "owl"}), first_id=number) for number in range(1, 4)]
    value = Specialist(name="mine", description="", prompt="You find.", tools=(), tool_calls_limit=3, tool_timeout=9.0)
    async with playing(*looks, ANSWER, tools=[lookup]) as runner:
        await runner.run(value, "What?")
    assert [(left, tokens) for left, tokens, _, _ in asked] == [(2, None), (1, None), (0, None)]
    assert {seconds for _, _, seconds, _ in asked} == {9.0}
    assert len({call_id for _, _, _, call_id in asked}) == 3
    told = [results(asked.messages[-1])[0].splitlines()[0] for asked in runner.script.requests[1:]]
    assert told == ['["owl", "owl"]', '["owl"]', "[]"]


async def test_a_hanging_or_stubborn_tool_causes_an_error_result():
    """A tool that hangs or ignores cancellation ends at its own timeout with an error result; the run continues."""
    release, let_go = threading.Event(), asyncio.Event()
    begun = []

    @tool(timeout=0.01)
    def hangs() -> str:
        """Hang."""
        begun.append("hangs")
        release.wait(30)
        return "late"

    @tool(timeout=0.01)
    async def stubborn() -> str:
        """Take no notice."""
        begun.append("stubborn")
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                begun.append("cancelled")
        return "late"

    value = Specialist(name="mine", description="", prompt="You find.", tools=(), tool_timeout=3000.0)
    both = calls(("hangs", {}), ("stubborn", {}))
    async with playing(both, ANSWER, tools=[hangs, stubborn]) as runner:
        outcome = await runner.run(value, "What?")
    assert results(runner.script.requests[1].messages[-1]) == [
        "hangs failed: no result within 0.01 seconds",
        "stubborn failed: no result within 0.01 seconds",
    ]
    assert (outcome.answer, outcome.tool_calls.failed, sorted(begun)) == ("mice", 2, ["cancelled", "hangs", "stubborn"])
    release.set()
    let_go.set()


async def test_s3_3_a_custom_augmenter_sees_each_call_and_precedes_the_countdown():
    """A custom augmenter sees each call and its result, failures included, and its text precedes the countdown."""

    def size(executed: Executed) -> str | None:
        return f"[{executed.call.name}: {len(executed.text)} characters, error {executed.is_error}]"

    @tool
    def lookup(word: str) -> str:
        """Look up a word."""
        if word == "toad":
            raise LookupError(word)
        return word

    turn = calls(("lookup", {"word": "owl"}), ("lookup", {"word": "toad"}))
    value = Specialist(name="mine", description="", prompt="You find.", tools=(), tool_calls_limit=2)
    async with playing(turn, ANSWER, tools=[lookup], augmenters=[size]) as runner:
        await runner.run(value, "What?")
    first, second = results(runner.script.requests[1].messages[-1])
    assert first.splitlines() == ["owl", "[lookup: 3 characters, error False]", "1 tool call remaining"]
    assert second.splitlines()[1:] == ["[lookup: 32 characters, error True]", "0 tool calls remaining"]


async def test_a_specialist_built_in_python_needs_no_trust(app):
    """A specialist built in Python needs no trust, because the program itself vouches for it."""
    value = Specialist(name="mine", description="", prompt="You find.", python_tools=(f"{app.package}.tools:lookup",))
    async with playing(LOOKS, ANSWER) as runner:
        assert (await runner.run(value, "What?")).answer == "mice"


async def test_a_resumed_run_reuses_the_trust_of_its_functions(app, tmp_path):
    """A resumed run uses its functions under the trust already given, as long as file and modules are unchanged."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        assert (await runner.run("finder", "What?")).status == "landed"
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        outcome = await run.outcome()
    assert results(runner.script.requests[1].messages[-1])[0].startswith('{"found": "bat"}')
    assert outcome.warnings == ()


@pytest.mark.exhaustive
async def test_a_function_missing_on_resume_causes_errors_and_a_warning(app, tmp_path):
    """A function missing on resume keeps its definition for the cache; calls return errors, and a warning explains."""
    app.write("PKGgone.py", *LOOKUP)
    path = app.specialist("python_tools: ['PKGgone:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        await runner.run("finder", "What?")
    (app.root / f"{app.package}gone.py").unlink()
    del sys.modules[f"{app.package}gone"]
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        outcome = await run.outcome()
    assert "lookup" in runner.script.opening.tools.names
    assert results(runner.script.requests[1].messages[-1])[0].startswith("lookup failed: this tool is no longer there")
    (warning,) = outcome.warnings
    assert warning.startswith(f"{path}:4:1: python_tools: {app.package}gone:lookup: no module")


async def test_a_module_changed_before_a_resume_needs_trust_again(app, tmp_path):
    """A module changed before a resume must be allowed again: the run is refused before any import until it is."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "tool_calls_limit: 1")
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ANSWER, trust=True, store=store) as runner:
        await runner.run("finder", "What?")
    app.write("PKG/tools.py", "# changed", *LOOKUP)
    async with playing(store=store) as runner:
        with pytest.raises(NotTrusted, match="would import"):
            await runner.resume("last", tool_calls_limit=3)
    async with playing(ANSWER, store=store, trust=True) as runner:
        run = await runner.resume("last", tool_calls_limit=3)
        assert (await run.outcome()).status == "answered"


async def test_the_functions_of_a_program_need_no_trust_when_its_run_is_taken_up(app, tmp_path):
    """A run of a specialist that a program has created is taken up with its functions, without trust."""
    app.write("PKG/tools.py", *LOOKUP)
    functions = (f"{app.package}.tools:lookup",)
    finder = Specialist(name="finder", description="", prompt="You find.", tools=(), python_tools=functions)
    store = str(tmp_path / "runs.db")
    async with playing(LOOKS, ProviderError("gone"), store=store) as runner:
        await (await runner.take_up("an-id", finder, "What?")).outcome()
    again = calls(("lookup", {"word": "bat"}), first_id=5)
    async with playing(again, ANSWER, store=store) as runner:
        outcome = await (await runner.take_up("an-id", finder, "What?", retry="failed")).outcome()
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.failed) == ("answered", 2, 0)


async def test_a_cancellation_that_the_caller_has_ignored_does_not_end_a_call():
    """An error of the only call of a turn, which has no task of its own, is its result; the run goes on."""

    @tool
    async def breaks(how: str) -> str:
        """Break."""
        raise asyncio.CancelledError if how == "cancelled" else ValueError("broken")

    value = Specialist(name="mine", description="", prompt="You find.", tools=())
    asyncio.current_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    both = [calls(("breaks", {"how": how}), first_id=number) for number, how in enumerate(("cancelled", "error"), 1)]
    async with playing(*both, ANSWER, tools=[breaks]) as runner:
        outcome = await runner.run(value, "What?")
    assert (outcome.status, outcome.answer, outcome.tool_calls.failed) == ("answered", "mice", 2)


async def test_a_listener_that_cancels_the_run_ends_its_only_call():
    """A cancellation by a listener, in the task of the run, ends the run at its next wait, and keeps what there is."""

    @tool
    async def waits() -> str:
        """Wait."""
        await asyncio.sleep(0)
        return "done"

    def cancels(event):
        if getattr(event, "phase", "") == "started":
            asyncio.current_task().cancel()

    value = Specialist(name="mine", description="", prompt="You find.", tools=())
    async with playing(calls(("waits", {})), tools=[waits]) as runner:
        run = await runner.prepare(value, "What?")
        run.listen(cancels)
        with pytest.raises(asyncio.CancelledError):
            await run.outcome()
        assert run.ended.status == "aborted"
