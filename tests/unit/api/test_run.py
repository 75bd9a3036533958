"""Runs from Python: `run_sync` with Ctrl-C, ids, streams, the models of a run, and places that no run may change."""

import asyncio
import os
import re
import shutil
import signal
import string
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.api.run_maker import checked_id
from run_specialist.api.runner import Runner, run, run_sync
from run_specialist.errors import NotTrusted, ProviderError, UsageError, with_flags
from run_specialist.providers.base import Capabilities
from run_specialist.providers.choose import ModelChain, choose_models
from run_specialist.specialist.fields import Specialist
from run_specialist.store.location import LAST
from run_specialist.tools.base import Tool
from tests.docs.markdown import ROOT
from tests.forked_program import ForkedProgram
from tests.journals import load
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.unit.api.finder_scripts import ANSWER, LOOKS

FINDER = Specialist(name="finder", description="Finds", prompt="You find notes.", tools=(), tool_calls_limit=9)


@dataclass
class StreamingHarness:
    """A runner with a tool that hangs on request and records when it starts and when it is released."""

    runner: Runner
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def stream(self, **settings):
        """Return the stream of a run of the finder."""
        return self.runner.stream(FINDER, "What do owls eat?", **settings)


async def test_run_sync_in_a_running_loop_raises_an_error():
    """Inside a running event loop run_sync raises a one-line error with the code to use, before it starts anything."""
    with pytest.raises(UsageError, match=r"await run\(\) instead"):
        run_sync(FINDER, "What?")


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[3])
from run_specialist import Specialist, Tool, run_sync
from run_specialist.api import runner
from run_specialist.providers import choose
from tests.scripted_provider import ScriptedProvider, calls

def look(query: str) -> str:
    if query == "b":
        print("reached", flush=True)
        import threading
        if sys.argv[2] == "thread":
            import signal
            # Once the loop sleeps: it would hear the signal as soon as it is awake.
            while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "select":
                pass
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Event().wait()
    return f"note on {query}"

script = [calls(("look", {"query": "a"})), calls(("look", {"query": "b"}), first_id=2)]
choose.make_provider = lambda model: ScriptedProvider(script)
one = runner.Runner.__init__
runner.Runner.__init__ = lambda self, **given: one(self, tools=[Tool("look", "Look.", look)], **given)
finder = Specialist(name="finder", description="", prompt="You find.", tools=())
try:
    run_sync(finder, "What?", store=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("whom", ["process", "thread"])
def test_s3_6_ctrl_c_in_run_sync_aborts_and_stores_the_run(whom, tmp_path):
    """Ctrl-C in run_sync, whichever thread gets it, aborts the run, stores its results and raises KeyboardInterrupt."""
    url = f"sqlite:///{tmp_path}/runs.db"
    command = [sys.executable, "-W", "error", "-c", PROGRAM, url, whom, str(ROOT)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ForkedProgram(command, cwd=tmp_path, **pipes) as process:
        assert process.stdout.readline() == "reached\n"
        if whom == "process":
            process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=90)
    assert (told, errors, process.returncode) == ("interrupted\n", "", 0)
    stored = load(url)
    assert stored.status == "aborted"


@pytest.mark.exhaustive
async def test_a_run_is_resumed_without_the_file_of_its_skill(project, tmp_path):
    """Its prompt has the text of the skill already; a new run is refused with the place in the file."""
    skill = project / ".agents" / "skills" / "tables"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tables\ndescription: d\n---\nRead tables row by row.\n")
    (project / "specialists" / "owls.md").write_text("---\nname: owls\ndescription: d\nskills: [tables]\n---\nOwls.\n")
    provider = ScriptedProvider([ProviderError("the network was lost"), ANSWER])
    async with Runner(provider=provider, store=tmp_path / "runs.db") as runner:
        assert (await runner.run("owls", "What do owls eat?")).status == "failed"
        shutil.rmtree(skill)
        with pytest.raises(UsageError, match=r"owls\.md:4:1: skills: no skill named tables"):
            await runner.run("owls", "What do owls eat?")
        outcome = await (await runner.resume("last")).outcome()
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert "Read tables row by row." in provider.opening.system


ALLOWED = string.ascii_letters + string.digits + "._-"


@given(st.text(ALLOWED, max_size=101) | st.text(max_size=120) | st.sampled_from([LAST, "x" * 1_000_000]))
def test_a_text_is_an_id_or_refused_in_one_line(text):
    """Each id of 1 to 100 allowed characters is accepted unchanged, any other text refused in one short line."""
    if 1 <= len(text) <= 100 and set(text) <= {*ALLOWED} and text != LAST:
        assert checked_id(text) == text
        return
    with pytest.raises(UsageError) as refused:
        checked_id(text)
    assert re.fullmatch(r"run_id: .* cannot be the id of a run; use 1 to 100 letters, .*", str(refused.value))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


# Messages speak of arguments in Python, and of flags on the command line and over MCP.
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("check `model` and the URL", "check --model and the URL"),
        ("use `model=offline`", "use --model offline"),
        ("`model=local:my file.gguf`: there is no file", "--model local:my file.gguf: there is no file"),
        ("allow it once with `trust=True`", "allow it once with --trust"),
        ("add `force=True` to omit them", "add --force to omit them"),
        ("the store is `none`", "the store is `none`"),
        ("`models` and model=haiku", "`models` and model=haiku"),
    ],
)
def test_arguments_become_flags(message, shown):
    """Arguments in backticks become flags, with their values; all else stays."""
    assert with_flags(message) == shown


async def test_python_errors_name_arguments(tmp_path, monkeypatch):
    """A missing root and a missing model in Python are errors without a flag."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    calls = [{"root": tmp_path / "nowhere"}, {"model": "openai:"}, {"model": "openai:gpt-5"}]
    for arguments in calls:
        with pytest.raises(UsageError) as error:
            await run("thoughts-analyzer", "What?", store="none", **arguments)
        assert "--" not in str(error.value)


LOOKS_ON = calls(("look", {"query": "for ever"}), first_id=2)


@pytest.fixture
async def desk(tmp_path):
    """Return a function that creates a desk with a script."""
    runners = []

    def make(*script, store=None):
        async def look(query: str) -> str:
            if query == "for ever":
                desk.reached.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    desk.released.set()
            return f"note on {query}"

        tools = [Tool("look", "Look.", look)]
        desk = StreamingHarness(Runner(provider=ScriptedProvider(script), root=tmp_path, store=store, tools=tools))
        runners.append(desk.runner)
        return desk

    yield make
    for runner in runners:
        await runner.aclose()


def others():
    """Return all tasks except the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_stream_yields_all_events_and_then_the_outcome(desk):
    """The stream has all events in order, then the outcome; a listener receives the same events."""
    heard, before = [], others()
    async with desk(LOOKS, ANSWER).stream(listener=heard.append) as stream:
        read = [event async for event in stream]
        again = [event async for event in stream]
    assert (read[0].event, read[-1].event) == ("started", "finished")
    assert read == heard
    assert again == []
    assert stream.outcome is read[-1].outcome
    assert (stream.outcome.status, stream.outcome.answer, stream.run.run_id) == ("answered", "mice", read[0].run_id)
    assert others() == before


async def test_events_arrive_while_the_run_works(desk):
    """Events arrive while the run works: the start of a call is read before the call ends."""
    one = desk(LOOKS_ON)
    async with asyncio.timeout(30), one.stream() as stream:
        async for event in stream:
            if event.event == "tool_call":
                assert event.phase == "started"
                await one.reached.wait()
                assert not one.released.is_set()
                break
    assert one.released.is_set()


@pytest.mark.parametrize("how", ["break", "exception", "nothing read"])
async def test_s3_6_leaving_the_block_early_aborts_the_run(desk, how):
    """Leaving the block early aborts the run, cancels the tool in progress, keeps what was gathered, leaves no task."""
    one, before = desk(LOOKS, LOOKS_ON), others()

    async def read(stream):
        async for event in stream:
            if event.event == "tool_call" and event.id == "call_2":
                await one.reached.wait()
                if how == "exception":
                    raise KeyError(how)
                break

    stream = one.stream()
    try:
        async with asyncio.timeout(30), stream:
            await (one.reached.wait() if how == "nothing read" else read(stream))
    except KeyError:
        assert how == "exception"
    assert one.released.is_set()
    assert (stream.outcome.status, stream.outcome.tool_calls.used) == ("aborted", 2)
    assert "note on owls" in stream.outcome.answer
    await asyncio.sleep(0)
    assert others() == before


@pytest.mark.parametrize("block", [True, False])
async def test_s3_6_cancelling_the_reader_aborts_the_run(desk, block):
    """If the reader is cancelled, with or without a block, the run ends first and the cancellation then propagates."""
    one, before = desk(LOOKS, LOOKS_ON), others()
    stream = one.stream()

    async def read():
        async with stream if block else nullcontext():
            _ = [event async for event in stream]

    async with asyncio.timeout(30):
        task = asyncio.create_task(read())
        await one.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert one.released.is_set()
    assert "note on owls" in stream.outcome.answer
    assert others() == before


async def test_s3_6_leaving_a_plain_loop_aborts_the_run(desk):
    """Without a block, leaving the loop aborts the run too, though without waiting for it."""
    one = desk(LOOKS_ON)
    async with asyncio.timeout(30):
        async for event in one.stream():
            if event.event == "tool_call":
                break
        await one.reached.wait()
        await one.released.wait()


async def test_reading_the_outcome_before_the_end_raises(desk):
    """Asking for the outcome before the end raises a one-line error that says what to wait for."""
    async with desk(LOOKS, ANSWER).stream() as stream:
        with pytest.raises(UsageError, match="no outcome yet"):
            _ = stream.outcome


async def test_s3_6_a_cancelled_run_keeps_its_outcome_in_ended(desk):
    """After a run was cancelled from outside, the caller gets the cancellation, and `ended` has the outcome."""
    one = desk(LOOKS, LOOKS_ON)
    prepared = await one.runner.prepare(FINDER, "What do owls eat?")
    assert prepared.ended is None
    async with asyncio.timeout(30):
        task = asyncio.create_task(prepared.outcome())
        await one.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (prepared.ended.status, prepared.ended.tool_calls.used) == ("aborted", 2)
    assert "note on owls" in prepared.ended.answer


# The models of a run are checked before its first request: names, prices, credentials and trust of each.
VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "SPECIALIST_MODEL")


@pytest.fixture
def looker(tmp_path, monkeypatch):
    """Return a function that writes a project's specialist and prepares a run of it; nothing is sent."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*VARIABLES, "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    monkeypatch.chdir(root)

    async def prepare(*lines, trust=False, runner_model=None, **options):
        text = "\n".join(["---", "name: looker", "description: Looks.", *lines, "---", "You look.", ""])
        (root / "specialists/looker.md").write_text(text)
        async with Runner(root=root, store="none", trust=trust, model=runner_model) as runner:
            return (await runner.prepare("looker", "What?", **options)).job

    return prepare


def ids(job):
    """Return the models of a job."""
    return job.provider.ids if isinstance(job.provider, ModelChain) else (job.provider.model,)


async def test_m_9_the_models_of_a_file_are_asked_in_order(looker):
    """The aliases become ids; only the first model has a connection, and the stored values name all."""
    job = await looker("model: [opus, sonnet, haiku]")
    assert ids(job) == ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
    assert job.origin()["models"] == [*ids(job)]
    assert isinstance(job.provider.capabilities, Capabilities)
    assert (job.origin()["settings"]["model"], job.origin()["settings"]["fallback_models"]) == (
        "opus",
        ["sonnet", "haiku"],
    )


async def test_m_9_models_without_credentials_are_left_out_with_a_warning(looker):
    """The first model whose credentials are set is asked, wherever it is in the list."""
    job = await looker("model: [gpt-5, sonnet, 'openai:gpt-6']")
    assert ids(job) == ("claude-sonnet-5-5",)
    left_out = [text for text in job.warnings if "is left out" in text]
    assert [text.partition(" ")[0] for text in left_out] == ["openai:gpt-5", "openai:gpt-6"]
    assert all("OPENAI_API_KEY" in text for text in left_out)
    with pytest.raises(UsageError, match="no credentials for openai:gpt-5"):
        await looker("model: [gpt-5, 'openai:gpt-6']")


async def test_m_9_each_model_must_exist_and_with_a_cost_limit_have_a_price(looker):
    """A misspelt model, and one with which the limit would not hold, are refused before the first one is asked."""
    with pytest.raises(UsageError, match="did you mean haiku"):
        await looker("model: sonnet", "fallback_models: [haikuu]")
    with pytest.raises(UsageError, match=r"looker\.md:\d+:1: cost_limit: the price of claude-unheard-of is unknown"):
        await looker("model: [sonnet, claude-unheard-of]", "cost_limit: 1")
    assert ids(await looker("model: [sonnet, haiku]", "cost_limit: 1"))


async def test_m_9_a_local_model_of_a_project_needs_trust_wherever_it_is(looker, tmp_path):
    """A fallback on this machine is refused without trust, with the place that names it."""
    lines = ("model: sonnet", "fallbackModels: ['ollama:qwen3', 'local:/models/a.gguf']")
    with pytest.raises(NotTrusted, match=r"looker\.md:5:\d+: fallback_models: .*Ollama"):
        await looker(*lines)
    job = await looker(*lines, trust=True)
    assert ids(job)[1:] == ("ollama:qwen3", "local:/models/a.gguf")
    assert ids(await looker(*lines, model="sonnet")) == ("claude-sonnet-5-5",)


def test_m_9_offline_follows_nothing(monkeypatch):
    """`offline` cannot be a fallback, and no model can follow it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    assert choose_models("offline,sonnet", None).names == ("offline",)
    found = choose_models("sonnet,offline", None)
    assert (found.names, found.left_out) == (("sonnet",), ("offline is left out: it is not a language model",))


def test_m_9_the_environment_and_the_config_file_may_name_several(monkeypatch):
    """SPECIALIST_MODEL and the default of a config file are lists too; the fallbacks of the file follow them."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    assert choose_models(None, "inherit", "opus,haiku", ["sonnet"]).names == ("opus", "haiku", "sonnet")
    monkeypatch.setenv("SPECIALIST_MODEL", "haiku,opus")
    assert choose_models(None, None, "sonnet", ["haiku"]).names == ("haiku", "opus")
    assert choose_models("sonnet", "opus", None, ["haiku"]).names == ("sonnet",)


# Places where runs may not change files, because they contain agents, permissions and runs of the user.
FILE = "---\nname: fixer\ndescription: Fixes.\ntools: write, read\nwritable: .\n---\nYou fix.\n"
CLOSED = [
    "docs/fixer.md",
    "team/other.md",
    "home/data/run-specialist/trusted/a.json",
    "home/config/run-specialist/config.toml",
    "home/config/opencode/agents/x.md",
]


async def test_a_run_cannot_extend_its_own_rights(tmp_path, monkeypatch):
    """Its own file, the folder of `--dir`, and permissions and settings of the user, if the root is above them."""
    for name, folder in {"HOME": "home", "XDG_DATA_HOME": "home/data", "XDG_CONFIG_HOME": "home/config"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    for folder in ("docs", "team", "home"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "docs/fixer.md"
    file.write_text(FILE)
    wanted = [("write", {"path": path, "content": "x"}) for path in (*CLOSED, "docs/ok.md")]
    provider = ScriptedProvider([calls(*wanted), says("done")])
    async with Runner(root=tmp_path, dir=tmp_path / "team", provider=provider, trust=True, store="none") as runner:
        outcome = await runner.run(file, "Fix.")
    results = [str(block["content"]) for block in provider.requests[1].messages[-1].content]
    assert ["may not be changed: it belongs to the specialists and settings" in text for text in results[:-1]] == [
        True
    ] * len(CLOSED)
    assert results[-1].startswith("Created docs/ok.md")
    assert (outcome.tool_calls.failed, file.read_text()) == (len(CLOSED), FILE)
