"""Chains of models, whose next one continues the run, and `local:FILE`, with a stand-in for xllamacpp."""

import asyncio
import io
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from run_specialist.api.runner import Runner
from run_specialist.cli import ask
from run_specialist.cli.ask import app
from run_specialist.cli.live import LiveView
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.installation import adding
from run_specialist.loop.retries import PATIENCE_WITH_OTHERS
from run_specialist.record.events import Event
from run_specialist.record.outcome import Exit, Outcome
from run_specialist.store.stored import StoredRun
from tests.forked_program import ForkedProgram
from tests.journals import load
from tests.loop_jobs import LOOK
from tests.wire import fake_xllamacpp
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.resumed_requests import LOOKER, look, message_bytes
from tests.wire.serving import write_specialist
from tests.wire.simulator import Gate, faults, replies

OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"


@dataclass
class Chains:
    """A folder with a store, and the processes that run specialists in it one after the other."""

    folder: Path
    environment: pytest.MonkeyPatch
    url: str
    """The URL of the store."""
    events: list[Event] = field(default_factory=list)

    def use(self, messages: Any = None, chat: Any = None) -> None:
        """Let the next runs ask these simulators."""
        for prefix, api in (("ANTHROPIC", messages), ("OPENAI", chat)):
            for name, value in (("BASE_URL", api and api.base_url), ("API_KEY", api and "test")):
                if value:
                    self.environment.setenv(f"{prefix}_{name}", value)
                else:
                    self.environment.delenv(f"{prefix}_{name}", raising=False)

    async def ask(self, models: Sequence[str] = (), specialist: Any = LOOKER, **settings: Any) -> Outcome:
        """Start a run in a new runner."""
        model = ",".join(models) or None
        async with self.runner() as runner:
            run = await runner.prepare(
                specialist, "What is known?", model=model, listener=self.events.append, **settings
            )
            return await run.outcome()

    async def resume(self, question: str | None = None, **options: Any) -> Outcome:
        """Resume the newest run in a new runner."""
        async with self.runner() as runner:
            run = await runner.resume("last", question, listener=self.events.append, **options)
            return await run.outcome()

    async def fork(self, at: int, run_id: str, **options: Any) -> Outcome:
        """Fork a run in a new runner."""
        async with self.runner() as runner:
            return await (await runner.fork(run_id, at=at, listener=self.events.append, **options)).outcome()

    def runner(self) -> Runner:
        """Return a runner, as a new process would have it."""
        return Runner(root=self.folder, tools=[LOOK], store=self.url)

    def named(self, name: str) -> list[Any]:
        """Return the events of one name, in order."""
        return [event for event in self.events if event.event == name]

    def load(self, run_id: str | None = None) -> StoredRun:
        """Return a stored run, by default the newest."""
        return load(self.url, run_id) if run_id else load(self.url)


def asked(api: Any) -> list[str]:
    """Return the model of each request, in order."""
    return [sent.body["model"] for sent in api.requests]


PROGRAM = """
import asyncio, sys
from run_specialist import Runner
from tests.loop_jobs import LOOK

async def main(root, store):
    async with Runner(root=root, tools=[LOOK], store=store) as runner:
        await runner.run(f"{root}/specialists/looker.md", "What is known?")

asyncio.run(main(*sys.argv[1:]))
"""
GONE = faults.ApiError(404, "not_found_error", "model: it was retired")
NO_CREDIT = faults.ApiError(400, "invalid_request_error", "Your credit balance is too low.")
THINKS = [
    replies.says(replies.thinking(f"hm {q}"), "I look.", replies.tool_use("look", {"query": q})) for q in ("a", "b")
]


@pytest.fixture
def chains(tmp_path, monkeypatch):
    """Provide a store and runs with chains of models."""
    return Chains(tmp_path, monkeypatch, f"sqlite:///{tmp_path}/runs.db")


def overloaded_after(script, then):
    """Return a model that is overloaded after a script, and the answers of all other models."""
    first, others = iter(script), iter(then)

    def policy(request):
        if request.body["model"] == SONNET:
            return next(first, faults.overloaded())
        return next(others)

    return policy


async def test_m_1_a_model_that_is_gone_is_replaced_before_the_first_turn(chains, messages_api):
    """404 at the first request: the next model answers, and nothing is said about a cache, because nothing was sent."""
    api = messages_api([GONE, look(replies, "a"), replies.answers("mice")])
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert asked(api) == [OPUS, HAIKU, HAIKU]
    assert (outcome.status, outcome.answer, outcome.model) == ("answered", "mice", HAIKU)
    assert [(one.model, one.since_turn, one.turns) for one in outcome.models] == [(OPUS, 1, 0), (HAIKU, 1, 2)]
    assert "it was retired" in (outcome.models[0].failure or "")
    (changed,) = chains.named("model_changed")
    assert (changed.turn, changed.before, changed.model, changed.kind) == (1, OPUS, HAIKU, "model_missing")
    assert (changed.cold_tokens, changed.cold_cost_usd, changed.left_out) == (None, None, "")
    (warning,) = [text for text in outcome.warnings if "continues with" in text]
    assert warning.startswith(f"the run continues with {HAIKU}, because {OPUS} cannot answer (the API answered 404")
    assert chains.load().model == HAIKU


async def test_m_2_an_overload_in_the_middle(chains, messages_api):
    """529 after two turns: the same transcript continues without thinking, after at most ten seconds of retries."""
    api = messages_api(overloaded_after(THINKS, [look(replies, "c"), replies.answers("mice")]))
    chains.use(api)
    outcome = await chains.ask(["sonnet", "haiku"], tool_calls_limit=9)
    first = next(sent for sent in api.requests if sent.body["model"] == HAIKU)
    assert asked(api)[-2:] == [HAIKU, HAIKU]
    assert sum(event.seconds for event in chains.named("retrying")) == pytest.approx(PATIENCE_WITH_OTHERS, abs=0.1)
    assert b"hm" not in message_bytes(first)
    assert b"note on 'a'" in message_bytes(first)
    assert "did the work above; its thinking was left out" in message_bytes(first).decode()
    assert (outcome.answer, outcome.tool_calls.used, outcome.limits["turns"].used) == ("mice", 3, 4)
    (changed,) = chains.named("model_changed")
    assert changed.left_out == "the thoughts"
    assert changed.cold_tokens > 100
    assert changed.cold_cost_usd == pytest.approx(changed.cold_tokens * 1e-6, rel=1)
    turns = chains.load().turns
    assert outcome.cost_usd == pytest.approx(sum(turn.cost_usd for turn in turns))
    assert [one.cost_usd for one in outcome.models] == [
        pytest.approx(turns[0].cost_usd + turns[1].cost_usd),
        pytest.approx(turns[2].cost_usd + turns[3].cost_usd),
    ]
    assert outcome.usage == outcome.models[0].usage + outcome.models[1].usage
    assert any("which reads about" in text and "price about $" in text for text in outcome.warnings)


async def test_m_3_an_exhausted_quota_in_the_landing(chains, messages_api):
    """The credit ends before the landing: the next model lands, on the ladder of its own endpoint."""
    api = messages_api([*THINKS[:1], NO_CREDIT, replies.says(replies.respond("mice"))])
    chains.use(api)
    outcome = await chains.ask(["sonnet", "haiku"], tool_calls_limit=1)
    assert asked(api) == [SONNET, SONNET, HAIKU]
    # The first model cannot be forced, the second one can.
    assert "tool_choice" not in api.requests[1].body
    assert api.requests[2].body["tool_choice"]["name"] == "respond"
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "mice", "force")
    assert (outcome.landing.requests, outcome.landing.usage) == (1, outcome.models[1].usage)


async def test_m_4_the_next_model_is_on_the_other_api(chains, messages_api, chat_api):
    """From the Messages API to chat completions: messages are converted, and the calls go on."""
    api = messages_api([*THINKS, NO_CREDIT])
    other = chat_api([look(chat_replies, "c"), chat_replies.answers("mice")])
    chains.use(api, other)
    outcome = await chains.ask(["sonnet", "openai:some-model"])
    assert (outcome.answer, outcome.model, outcome.tool_calls.used) == ("mice", "openai:some-model", 3)
    assert outcome.cost_usd is None
    assert b"hm" not in message_bytes(other.requests[0])


async def test_m_5_no_model_helps(chains, messages_api):
    """If all fail, the error names each with its reason in one line, and the kind is that of the last one."""
    api = messages_api([look(replies, "a"), GONE, NO_CREDIT])
    chains.use(api)
    outcome = await chains.ask(["opus", "sonnet"])
    assert (outcome.status, outcome.exit_code, outcome.error_kind) == ("failed", Exit.PROVIDER, "quota")
    assert outcome.error is not None
    assert outcome.error.startswith(f"no model of this run answers: {OPUS}: the API answered 404")
    assert f"; {SONNET}: the API answered 400: Your credit balance" in outcome.error
    assert "\n" not in outcome.error
    assert "note on 'a'" in outcome.answer


@pytest.mark.parametrize("fault", [faults.unauthorised(), faults.ApiError(400, "invalid_request_error", "no")])
async def test_m_5_a_mistake_that_somebody_must_see_changes_nothing(chains, messages_api, fault):
    """A wrong key and an invalid request end the run as without other models."""
    api = messages_api([fault])
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert (outcome.status, asked(api)) == ("failed", [OPUS])
    assert "no model of this run" not in str(outcome.error)


@pytest.mark.exhaustive
async def test_m_7_a_fork_before_the_change_drops_the_thoughts_of_the_first_model(chains, messages_api):
    """A fork knows which model wrote each turn: it converts those of another one, and keeps its own as they are."""
    api = messages_api([*THINKS, NO_CREDIT, look(replies, "c"), replies.answers("mice")])
    chains.use(api)
    source = await chains.ask(["sonnet", "haiku"])
    again = messages_api([replies.answers("one"), replies.answers("two")])
    chains.use(again)
    before = await chains.fork(1, source.run_id)
    assert b"hm" not in message_bytes(again.requests[0])
    assert any("the thoughts of claude-sonnet-5-5 were left out" in text for text in before.warnings)
    after = await chains.fork(3, source.run_id)
    assert message_bytes(again.requests[1]) == message_bytes(api.requests[-1])
    assert (before.answer, after.answer) == ("one", "two")
    assert [one.model for one in after.models] == [HAIKU]


@pytest.mark.exhaustive
async def test_m_8_a_gate_that_the_first_model_has_closed_does_not_hold_the_next_one(chains, messages_api):
    """A 429 with a long wait closes the gate of the key; the run immediately continues with the next model."""
    api = messages_api(
        [
            faults.rate_limited(900),
            look(replies, "a"),
            replies.answers("mice"),
            replies.answers("rats"),
            replies.answers("bats"),
        ]
    )
    chains.use(api)
    outcome = await chains.ask(["opus", "haiku"])
    assert (outcome.answer, chains.named("waiting"), chains.named("retrying")) == ("mice", [], [])
    # Another run finds the gate closed, and asks the first model not at all.
    again = await chains.ask(["opus", "haiku"])
    assert (again.answer, asked(api)) == ("rats", [OPUS, HAIKU, HAIKU, HAIKU])
    # So does a run that is resumed after its change.
    assert (await chains.resume("And?")).answer == "bats"


@pytest.mark.exhaustive
async def test_m_8_a_later_run_of_the_model_is_held(chains, messages_api):
    """A run that begins with the model that was refused is held."""
    api = messages_api([faults.rate_limited(900), replies.answers("mice")])
    chains.use(api)
    await chains.ask(["opus", "haiku"])
    outcome = await chains.ask(["opus"])
    assert (outcome.status, outcome.retry_after is not None) == ("failed", True)
    assert asked(api) == [OPUS, HAIKU]


@pytest.mark.exhaustive
def test_m_6_after_a_kill_the_run_goes_on_with_the_second_model(chains, messages_api, store_url):
    """Killed with SIGKILL while the second model works on a reply: resumed with it, from the transcript that it got."""
    gate = Gate()
    held = replace(look(replies, "d"), gate=gate)
    api = messages_api([*THINKS, NO_CREDIT, look(replies, "c"), held, replies.answers("mice")])
    chains.use(api)
    for name in (".git", "specialists"):
        (chains.folder / name).mkdir()
    write_specialist(chains.folder, "looker", "model: [sonnet, haiku, opus]")
    program = ForkedProgram(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(chains.folder), store_url], env=os.environ
    )
    gate.wait_for_request(timeout=60)
    program.kill()
    program.wait()
    gate.open()
    chains.url = store_url
    outcome = asyncio.run(chains.resume())
    assert asked(api) == [SONNET, SONNET, SONNET, HAIKU, HAIKU, HAIKU]
    assert message_bytes(api.requests[-1]).startswith(message_bytes(api.requests[-2]))
    assert (outcome.answer, outcome.tool_calls.used) == ("mice", 3)
    assert [(one.model, one.turns) for one in outcome.models] == [(SONNET, 2), (HAIKU, 2)]
    assert outcome.cost_usd == pytest.approx(sum(one.cost_usd for one in outcome.models), abs=2e-8)
    assert chains.load().model == HAIKU


@pytest.mark.exhaustive
async def test_m_8_the_items_of_a_batch_go_on_with_the_next_model(chains, messages_api):
    """A quota that is used up pauses no batch and counts as no failure as long as another model answers."""

    def policy(request):
        return faults.rate_limited(900) if request.body["model"] == OPUS else replies.answers("mice")

    api = messages_api(policy)
    chains.use(api)
    async with chains.runner() as runner:
        batch = runner.map(LOOKER, ["a", "b", "c"], "What of {item}?", model="opus,haiku", at_once=1, breaker=1)
        done = [one async for one in batch]
    assert [one.outcome.model for one in done] == [HAIKU] * 3
    assert (batch.counts.answered, batch.counts.failed, asked(api).count(OPUS)) == (3, {}, 1)


REPLAY_THINKS = replies.says(replies.thinking("hm"), "I read.", replies.tool_use("read", {"path": "notes/owls.md"}))


@pytest.fixture
def record(messages_runs, messages_api, chat_api, monkeypatch):
    """Return a function that records a run with a chain of models, which may end on the other API."""

    async def go(*script, models="sonnet,haiku", chat=(), **settings):
        for name, api in (("ANTHROPIC", messages_api([*script])), ("OPENAI", chat_api([*chat]))):
            monkeypatch.setenv(f"{name}_BASE_URL", api.base_url)
            monkeypatch.setenv(f"{name}_API_KEY", "test")
        async with Runner(root=messages_runs.root, model=models, store=messages_runs.url) as runner:
            await runner.run("looker", "What do owls eat?", **settings)
        return load(messages_runs.url)

    return go


async def same(runs, run, models):
    """Assert that a run replays the same, from the store and from a file; return the replay."""
    replayed = await runs.replay(run)
    assert replayed.difference is None
    assert [one.model for one in replayed.outcome.models] == models
    assert (await runs.replay_file(await runs.save(run))).difference is None
    return replayed


async def test_m_7_a_run_that_changed_its_model_replays_the_same(messages_runs, record):
    """A change in the middle: the same requests to both models."""
    run = await record(REPLAY_THINKS, NO_CREDIT, messages_runs.read("notes"), replies.answers("Mice."))
    replayed = await same(messages_runs, run, ["claude-sonnet-5-5", "claude-haiku-5-5"])
    assert replayed.requests == 4


@pytest.mark.exhaustive
async def test_m_7_two_changes_replay_the_same(messages_runs, record):
    """Three models of both APIs; the last one fails too, and the salvaged answer is the same."""
    gone = chat_faults.error(404, "The model does not exist.", code="model_not_found")
    chat = [chat_replies.calls("read", {"path": "notes"}), gone]
    script = [REPLAY_THINKS, NO_CREDIT, messages_runs.read("other"), faults.unauthorised()]
    run = await record(*script, models="sonnet,openai:some-model,haiku", chat=chat)
    assert run.outcome["status"] == "failed"
    await same(messages_runs, run, ["claude-sonnet-5-5", "openai:some-model", "claude-haiku-5-5"])


GGUF = b"GGUF and more"
"""Enough of a file for the stand-in."""


@pytest.fixture
def folder(project, tmp_path, monkeypatch):
    """Enter a project with one specialist and a model, and with a stand-in for the package."""
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(fake_xllamacpp.__file__, package / "xllamacpp.py")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    write_specialist(project, "finder")
    (project / "m.gguf").write_bytes(GGUF)
    return project


def servers() -> list[psutil.Process]:
    """Return the servers that this process has started."""
    return [one for one in psutil.Process().children() if "llama_process.py" in " ".join(one.cmdline())]


async def told(runner, name="finder") -> dict:
    """Run a specialist and return the arguments of the server."""
    outcome = await runner.run(name, "What?")
    assert outcome.status == "answered", outcome.error
    return json.loads(outcome.answer)


async def test_a_file_is_served_and_the_server_ends_with_the_runner(folder):
    """The context that the server reports is known, the request has the key, and nothing is left afterwards."""
    lines = []
    async with Runner(model="local:m.gguf") as runner:
        runner.loading = lines.append
        run = await runner.prepare("finder", "What?")
        outcome = await run.outcome()
        (process,) = servers()
    seen = json.loads(outcome.answer)
    assert (outcome.model, seen["model"], seen["alias"]) == ("local:m.gguf", "m.gguf", ["m.gguf"])
    # The server chooses the context, and reports it.
    assert (seen["n_ctx"], seen["max"], seen["pid"]) == (0, 2048, process.pid)
    assert run.job.provider.capabilities.context_tokens == 8192
    assert lines == ["loading m.gguf (0 MB)"]
    assert not process.is_running()


@pytest.mark.exhaustive
async def test_runs_and_children_share_one_server(folder):
    """Concurrent runs, another name of the same file, and a child use the same process."""
    (folder / "link.gguf").symlink_to("m.gguf")
    async with Runner(model="local:m.gguf") as runner:
        seen = await asyncio.gather(*(told(runner) for _ in range(4)))
        other = await runner.run("finder", "What?", model="local:~/../project/link.gguf")
        pids = {one["pid"] for one in seen} | {json.loads(other.answer)["pid"]}
        assert len(pids) == len(servers()) == 1


@pytest.mark.exhaustive
def test_two_event_loops_share_one_server(folder):
    """A Runner that is used in two threads starts one process; closing it in a third loop ends it."""
    runner, urls = Runner(model="local:m.gguf"), []

    def use():
        run = asyncio.run(runner.prepare("finder", "What?"))
        urls.append(str(run.job.provider.client.base_url))

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(urls), len(set(urls)), len(servers())) == (2, 1, 1)
    asyncio.run(runner.aclose())
    assert servers() == []


@pytest.mark.exhaustive
async def test_a_server_that_dies_fails_the_run_with_the_reason_and_is_started_again(folder):
    """Exit code 3 with what happened to the process, and the next run gets a new one."""
    (folder / "dies.gguf").write_bytes(GGUF)
    async with Runner(model="local:dies.gguf") as runner:
        outcome = await runner.run("finder", "What?")
        assert (outcome.status, outcome.exit_code) == ("failed", 3)
        assert "llama.cpp ended while it served local:dies.gguf: the system killed it" in outcome.error
        assert (await told(runner))["alias"] == ["dies.gguf"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.gguf", None, "there is no file"),
        ("folder", "", "is a folder; name the GGUF file in it"),
        ("notes.md", b"# notes", "it is not a GGUF file; name a file with the ending .gguf"),
        ("corrupt.gguf", GGUF, "tensor 'x' is missing"),
        ("killed.gguf", GGUF, "the system killed it, probably because the memory was full"),
        ("crash.gguf", GGUF, "llama.cpp ended with code -6 (ggml.c:12: GGML_ASSERT(ok) failed)"),
    ],
)
async def test_a_file_that_cannot_be_served_is_a_usage_error(folder, name, content, words, capfd):
    """One line that names the model, nothing on the terminal, and no process left."""
    if content == "":
        (folder / name).mkdir()
    elif content is not None:
        (folder / name).write_bytes(content)
    async with Runner(model=f"local:{name}") as runner:
        with pytest.raises(UsageError) as raised:
            await runner.prepare("finder", "What?")
    line = str(raised.value)
    assert line.startswith(f"`model=local:{name}`: ")
    assert words in line
    assert "\n" not in line
    assert capfd.readouterr() == ("", "")
    assert servers() == []


@pytest.mark.exhaustive
async def test_the_variable_sets_the_context(folder, monkeypatch):
    """SPECIALIST_LOCAL_CONTEXT overrides what llama.cpp chooses."""
    monkeypatch.setenv("SPECIALIST_LOCAL_CONTEXT", " 4096 ")
    async with Runner(model="local:m.gguf") as runner:
        assert (await told(runner))["n_ctx"] == 4096


@pytest.mark.parametrize("value", ["many", "12"])
async def test_an_invalid_context_is_refused(folder, monkeypatch, value):
    """The line names the variable."""
    monkeypatch.setenv("SPECIALIST_LOCAL_CONTEXT", value)
    async with Runner(model="local:m.gguf") as runner:
        with pytest.raises(UsageError, match="SPECIALIST_LOCAL_CONTEXT: must be a number of tokens"):
            await runner.prepare("finder", "What?")


@pytest.mark.parametrize(("missing", "module"), [("xllamacpp", "xllamacpp"), ("openai", "openai")])
async def test_without_the_extra_the_line_says_how_to_install_it(folder, monkeypatch, missing, module):
    """Both packages of the extra are needed; nothing is started without them."""
    monkeypatch.setitem(sys.modules, module, None)
    async with Runner(model="local:m.gguf") as runner:
        said = f"(no module named '{missing}'); {adding('local')}"
        with pytest.raises(UsageError, match=re.escape(said)):
            await runner.prepare("finder", "What?")
    assert servers() == []


async def test_a_run_that_is_cancelled_while_it_loads_leaves_no_process(folder):
    """Loading can take minutes; Ctrl-C and a timeout end it immediately."""
    (folder / "slow.gguf").write_bytes(GGUF)
    async with Runner(model="local:slow.gguf") as runner:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        runner.loading = lambda _: loop.call_soon_threadsafe(started.set)
        task = asyncio.create_task(runner.prepare("finder", "What?"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert servers() == []


async def test_weights_that_a_project_names_need_trust(folder):
    """Native code parses them: they are refused until allowed, and again after they have changed."""
    write_specialist(folder, "own", "model: local:m.gguf")
    async with Runner() as runner:
        with pytest.raises(NotTrusted, match=rf"own.md:4:1: model: would load {folder}/m.gguf; this is not allowed"):
            await runner.prepare("own", "What?")
    assert servers() == []
    async with Runner(trust=True) as runner:
        await told(runner, "own")
    async with Runner() as runner:
        await told(runner, "own")
    (folder / "m.gguf").write_bytes(GGUF + b"changed")
    async with Runner() as runner:
        with pytest.raises(NotTrusted):
            await runner.prepare("own", "What?")
    async with Runner(model="local:m.gguf") as runner:
        await told(runner, "own")


async def test_a_child_cannot_load_weights_without_trust(folder):
    """A child's file is checked like that of its parent."""
    from tests.scripted_provider import ScriptedProvider, calls

    write_specialist(folder, "child", "model: local:m.gguf")
    write_specialist(folder, "parent", "agents: [child]")
    async with Runner() as runner:
        file = runner.registry.find("child")
        with pytest.raises(NotTrusted):
            await runner.environments.models.provider_for_child(file, file.specialist, ScriptedProvider([calls()]))
    assert servers() == []


@pytest.mark.exhaustive
async def test_an_own_file_needs_trust_for_weights_of_the_project_only(folder, monkeypatch):
    """A relative path leads to a file that the project has put there."""
    mine = Path(os.environ["HOME"]) / ".config/run-specialist/specialists"
    elsewhere = folder.parent / "models" / "m.gguf"
    for place in (mine, elsewhere.parent):
        place.mkdir(parents=True)
    elsewhere.write_bytes(GGUF)
    for name, path in (("near", "m.gguf"), ("far", elsewhere)):
        lines = ["---", f"name: {name}", "description: d", f"model: local:{path}", "---", "You look.", ""]
        (mine / f"{name}.md").write_text("\n".join(lines))
    async with Runner() as runner:
        await told(runner, "far")
        with pytest.raises(NotTrusted):
            await runner.prepare("near", "What?")


@pytest.mark.exhaustive
def test_the_live_view_shows_that_a_model_is_loading(folder, monkeypatch):
    """On a terminal only; without one, nothing is printed about it."""
    shown = []

    class View(LiveView):
        def prepare(self, what):
            super().prepare(what)
            shown.append(f"{what} | {self._doing}")

    flags = ["finder", "What?", "--model", "local:m.gguf", "--store", "none"]
    plain = CliRunner().invoke(app, flags)
    assert (plain.exit_code, "loading" in plain.stderr) == (0, False)
    monkeypatch.setattr(ask, "_view", lambda output: View(Console(file=io.StringIO(), force_terminal=True)))
    assert CliRunner().invoke(app, flags).exit_code == 0
    assert shown == ["loading m.gguf (0 MB) | loading m.gguf (0 MB)"]
