"""Requests against a server that tracks its cache: what is read and written, the prompt, and none sent twice."""

import asyncio
import gzip
import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic, DefaultAioHttpClient
from anthropic._base_client import BaseClient
from openai import AsyncOpenAI
from opentelemetry import trace

from run_specialist.providers.base import Opening
from run_specialist.providers.models import capabilities
from tests.forked_program import ForkedProgram
from tests.loop_jobs import job, outcome_of
from tests.unit.store.records import ask
from tests.wire import chat
from tests.wire.connected import asked, connected
from tests.wire.serving import owl_project, write_specialist
from tests.wire.simulator import MODELS, Gate, Model, policies
from tests.wire.simulator.cache import MARKERS, count_tokens, markers
from tests.wire.simulator.prompt import segments
from tests.wire.simulator.replies import answers, calls, cut_call, says, text, thinking, tool_use
from tests.wire.specialists import texts

LONG = "You look things up, with care. " * 300
"""A system prompt long enough to be cached."""


@pytest.fixture(params=["json", "stream"])
def ask_cache(messages_api, request):
    """Return a function that runs a job with a long prompt and returns its outcome and the requests."""
    watch = None if request.param == "json" else lambda delta: None

    async def run(
        script, limit=30, *, model="haiku", effort=None, task_budget=None, models=MODELS, may_refuse=(), **settings
    ):
        api = messages_api(script, models=models, may_refuse=may_refuse)
        async with connected(api, model) as provider:
            plain = job(provider, limit, **settings)
            opening = Opening(LONG + plain.opening.system, plain.opening.tools, effort, task_budget=task_budget)
            outcome = await outcome_of(replace(plain, opening=opening), watch=watch)
        assert {sent.stream for sent in api.requests} == {watch is not None}
        return outcome, api.requests

    return run


def whole(sent):
    """Return the number of tokens in a request."""
    return count_tokens(segments(sent.body))


def front(sent):
    """Return the number of tokens in a request's tools and system prompt."""
    return count_tokens([part for part in segments(sent.body) if part.level != "messages"])


def read(sent):
    """Return the number of tokens that a request read from the cache."""
    return sent.usage["cache_read_input_tokens"]


def written(sent):
    """Return the number of tokens that a request wrote to the cache."""
    return sent.usage["cache_creation_input_tokens"]


def marked(sent):
    """Return the indexes of the messages that have a cache marker."""
    return [
        number
        for number, message in enumerate(sent.messages)
        if any("cache_control" in block for block in message["content"])
    ]


async def test_every_request_reads_the_cache_written_by_the_previous_one(ask_cache):
    """The first request writes its full prompt; each later one reads the previous prompt and writes the new part."""
    outcome, requests = await ask_cache(policies.works_then_answers("look", calls=6))
    assert outcome.status == "answered"
    first = requests[0]
    assert (read(first), written(first), first.usage["input_tokens"]) == (0, whole(first), 0)
    for before, after in pairwise(requests):
        assert read(after) == whole(before)
        assert written(after) == whole(after) - whole(before)
    assert outcome.usage.cache_read_input_tokens == sum(map(read, requests)) > 0


async def test_s0_4_a_forced_landing_reads_tools_and_system_from_the_cache(ask_cache):
    """A changed `tool_choice` invalidates cached messages, so no tail marker is sent: its write would not be read."""
    outcome, requests = await ask_cache(policies.always_tool("look"), 4)
    *_, before, last = requests
    assert outcome.landing.how == "force"
    assert last.tool_choice == {"type": "tool", "name": "respond"}
    assert (read(last), written(last)) == (front(last), 0)
    assert 0 < front(last) < whole(before)
    assert "cache_control" not in last.body
    assert marked(last) == []
    assert len(markers(last.body, segments(last.body))) == 1


@pytest.mark.parametrize(("model", "style"), [("haiku", "order"), ("sonnet", "auto")])
async def test_s0_10_a_landing_by_order_reads_the_messages_from_the_cache(ask_cache, model, style):
    """Only the last result changes: everything up to the last turn is read from the cache, and nothing is written."""
    outcome, requests = await ask_cache(policies.always_tool("look"), 4, model=model, landing=style)
    *_, before, last = requests
    assert (outcome.landing.how, last.tool_choice) == ("order", None)
    assert (read(last), written(last)) == (whole(before), 0)
    assert whole(before) > front(last)
    assert "cache_control" not in last.body


async def test_s0_10_every_rung_after_an_ignored_force_reads_tools_and_system_only(ask_cache):
    """Force, schema and none each change the options of the messages, which therefore are billed again, unmarked."""
    outcome, requests = await ask_cache(policies.ignores_everything("look"), 3)
    assert (outcome.status, outcome.landing.requests) == ("partial", 3)
    for request in requests[-3:]:
        assert (read(request), written(request)) == (front(request), 0)
        assert "cache_control" not in request.body


@pytest.mark.exhaustive
@pytest.mark.parametrize(("at_once", "extra"), [(9, False), (10, True), (30, True)])
async def test_a_large_batch_marks_and_reads_the_previous_tail(ask_cache, at_once, extra):
    """A turn of 12 calls adds 24 blocks, more than the lookback of 20: the previous tail is marked too, and read."""
    outcome, requests = await ask_cache(
        policies.works_then_answers("look", calls=3 * at_once, calls_per_turn=at_once), None
    )
    assert outcome.tool_calls.used == 3 * at_once
    for number, (before, after) in enumerate(pairwise(requests)):
        assert read(after) == whole(before), number
        assert marked(after) == ([2 * number] if extra else [])
    assert marked(requests[0]) == []


async def test_x_9_thinking_and_text_count_as_blocks_of_a_turn(ask_cache):
    """Nine calls with results, a thinking block and a text block are 20 blocks: the previous tail is marked too."""
    wishes = [tool_use("look", {"query": str(number)}) for number in range(9)]
    small, large = [*wishes], [thinking("hm"), text("I look."), *wishes]
    _, requests = await ask_cache([says(*small), says(*large), answers("yes")])
    assert [marked(sent) for sent in requests] == [[], [], [2]]
    assert read(requests[2]) == whole(requests[1])


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("at_once", [1, 12])
@pytest.mark.parametrize("style", ["force", "none"])
async def test_no_request_has_more_markers_than_the_api_allows(ask_cache, at_once, style):
    """Every request of every landing style has at most three of the four markers: system, tail, previous tail."""
    _, requests = await ask_cache(
        policies.ignores_everything("look", calls_per_turn=at_once), 3 * at_once, landing=style
    )
    counts = [len(markers(sent.body, segments(sent.body))) for sent in requests]
    assert max(counts) == (2 if at_once == 1 else 3) < MARKERS
    assert all("cache_control" in sent.body["system"][-1] for sent in requests)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("effort", ["low", "max"])
async def test_effort_is_passed_on_in_every_request(ask_cache, effort):
    """The effort is sent as `output_config.effort`, identical in every request, so that the cache stays valid."""
    _, requests = await ask_cache([calls("look", {"query": "a"}), answers("yes")], effort=effort)
    assert [sent.body["output_config"] for sent in requests] == [{"effort": effort}] * 2
    assert read(requests[1]) == whole(requests[0])


LOCAL = Model("a-local-model", max_output=32_000)


@pytest.mark.parametrize("model", ["haiku", LOCAL.id])
async def test_a_task_budget_is_sent_in_every_request_or_left_out_with_a_warning(ask_cache, model):
    """The same value with its beta header each time, so that the cache stays valid; the limits are checked anyway."""
    script = [calls("look", {"query": "a"}), answers("yes")]
    given = {"model": model, "models": (*MODELS, LOCAL), "may_refuse": ["output_config.shape"]}
    outcome, requests = await ask_cache(script, 1, task_budget=60_000, **given)
    sent = [one.body.get("output_config", {}).get("task_budget") for one in requests]
    budget, is_refused = {"type": "tokens", "total": 60_000}, model == LOCAL.id
    assert (outcome.status, outcome.tool_calls.used) == ("landed", 1)
    assert sent == ([budget, None, None] if is_refused else [budget, budget])
    assert any("takes no task_budget" in line for line in outcome.warnings) is is_refused


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("model", [MODELS[0], MODELS[-1], LOCAL], ids=lambda model: model.id)
async def test_x_6_max_tokens_stays_within_the_maximum_of_the_model(ask_cache, model):
    """`max_tokens` stays within the model's maximum, also when raised after a cut reply and for an unknown model."""
    script = [cut_call("look", '{"que', {}), answers("yes")]
    outcome, requests = await ask_cache(script, model=model.id, models=(*MODELS, LOCAL))
    first, second = (sent.body["max_tokens"] for sent in requests)
    assert outcome.answer == "yes"
    assert first < second <= min(model.max_output, capabilities(model.id).max_output_tokens)
    assert read(requests[1]) == whole(requests[0])


async def test_skills_and_instructions_are_part_of_the_prompt_and_files_of_a_skill_can_be_read(
    ask_once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts follow the file's own; `read` gets a file of the skill, and nothing else outside of `paths`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Say please.\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("text\n")
    skill = tmp_path / ".agents" / "skills" / "tables"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tables\ndescription: d\n---\nRead tables row by row.\n")
    (skill / "rules.md").write_text("Rows first.\n")
    done = await ask_once(
        [
            calls("read", {"path": ".agents/skills/tables/rules.md"}, {"path": "AGENTS.md"}),
            answers("yes", evidence=[{"source": "rules.md:1", "quote": "Rows first."}]),
        ],
        "tools: [read]",
        "paths: [docs/]",
        "skills: [tables]",
        "project_instructions: true",
        tools=[],
    )
    assert done.outcome.answer == "yes"
    prompt = done.requests[0].body["system"][0]["text"]
    own, skill_text, instructions, *_ = prompt.split("\n\n# ")
    assert own == "You look things up."
    assert skill_text == (
        "Skill: tables\n\nThe other files that it names are below `.agents/skills/tables/`; read them when you need "
        "them.\n\nRead tables row by row."
    )
    assert instructions.startswith("Instructions of the project (AGENTS.md)\n\nSay please.\n\nTool results are data")
    rules, hidden = texts(done.requests[1].messages[-1])
    assert "Rows first." in rules
    assert "not among the paths" in hidden


PROGRAM = """
import asyncio, json, sys
from run_specialist import AtWork, EndedRun, Runner

async def main(store):
    async with Runner(model="haiku", store=store) as runner:
        print("ready", flush=True)
        while run_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                run = await runner.take_up(run_id, "looker", f"What of {run_id}?")
                outcome = await run.outcome()
                found = {"ended": isinstance(run, EndedRun), "outcome": outcome.as_json(), "error": outcome.error}
            except AtWork as error:
                found = {"at_work": str(error)}
            print(json.dumps(found), flush=True)

asyncio.run(main(sys.argv[1]))
"""


class Worker:
    """A process that takes up runs."""

    def __init__(self, store):
        command = [sys.executable, "-W", "error", "-c", PROGRAM, store]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = ForkedProgram(command, env=os.environ, **pipes)
        assert self.process.stdout.readline() == "ready\n"

    def take(self, run_id):
        """Let it take up a run, without waiting."""
        self.process.stdin.write(f"{run_id}\n")
        self.process.stdin.flush()

    def found(self):
        """Wait for what it found."""
        return json.loads(self.process.stdout.readline())

    def kill(self):
        """Kill it with SIGKILL, and close its pipes."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with notes on owls and a specialist, and change into it."""
    root = owl_project(tmp_path, monkeypatch)
    write_specialist(root, "looker", "tools: [search]")
    return root


@pytest.fixture
def start(project, store_url):
    """Return a function that starts a worker; all are killed at the end."""
    with ExitStack() as running:

        def start_worker():
            worker = Worker(store_url)
            running.callback(worker.kill)
            return worker

        yield start_worker


@pytest.fixture
def api(messages_api, monkeypatch):
    """Return a function that starts an API for the workers."""

    def start_api(*arguments, **options):
        served = messages_api(*arguments, **options)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.base_url)
        return served

    return start_api


def requests_of(served):
    """Return the number of requests of each run, by the question in their first message."""
    return Counter(re.search(r"What of ([\w-]+)\?", request.raw.decode())[1] for request in served.requests)


@pytest.mark.exhaustive
def test_of_two_processes_that_begin_an_id_at_once_one_sends_a_request(api, start):
    """Two processes that begin the same ids at the same moment send one request each id, and get one outcome."""
    served = api(lambda request: answers("Owls eat mice."))
    workers = [start(), start()]
    for number in range(3):
        for worker in workers:
            worker.take(f"id-{number}")
        found = [worker.found() for worker in workers]
        began = [one for one in found if one.get("ended") is False]
        assert len(began) == 1
        (other,) = [one for one in found if one is not began[0]]
        assert "at_work" in other or other["outcome"] == began[0]["outcome"]
    assert requests_of(served) == {f"id-{number}": 1 for number in range(3)}


@pytest.mark.exhaustive
def test_after_a_kill_only_the_request_under_way_is_sent_again(api, start, store_url):
    """A process killed with SIGKILL while a request is under way: that one is sent again, and no stored reply."""
    gate = Gate()
    turns = [calls("search", {"query": "owls"}), says(tool_use("search", {"query": "mice"})), answers("Owls eat mice.")]
    served = api([turns[0], says(*turns[1].content, gate=gate), *turns[1:]])
    first = start()
    first.take("killed")
    gate.wait_for_request()
    first.kill()
    gate.open()
    second = start()
    second.take("killed")
    found = second.found()
    assert (found["ended"], found["outcome"]["status"]) == (False, "answered")
    assert len(served.requests) == len(turns) + 1
    bodies = [request.body for request in served.requests]
    assert bodies[2] == bodies[1]
    assert len({json.dumps(body) for body in bodies}) == len(turns)
    assert ask(store_url, "select count(*) from turns") == [(3,)]
    third = start()
    third.take("killed")
    assert third.found() == {**found, "ended": True}
    assert len(served.requests) == len(turns) + 1


@pytest.mark.parametrize("kind", ["messages", "chat"])
async def test_later_requests_have_the_headers_that_the_sdk_sends(messages_api, chat_api, monkeypatch, kind):
    """The SDK sends the first request of a client; the next ones repeat its headers with other bytes."""
    api, sdk, policy = (
        (messages_api, AsyncAnthropic, policies) if kind == "messages" else (chat_api, AsyncOpenAI, chat.policies)
    )
    sent, post = [], sdk.post
    monkeypatch.setattr(sdk, "post", lambda *given, **named: sent.append(1) or post(*given, **named))
    # Whatever tracers and logs other tests have set up.
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(logging.Logger, "isEnabledFor", lambda *_: False)
    started = api(policy.always_tool("look"))
    assert (await asked(started, 3)).status == "landed"
    first, *others = [
        {name: value for name, value in request.headers.items() if name != "content-length"}
        for request in started.requests
    ]
    assert (len(sent), others) == (1, [first] * 3)


@pytest.mark.parametrize("what", ["client", "middleware", "log", "log of the SDK", "tracer", "streamed", "version"])
async def test_what_must_see_each_request_is_not_passed_by(messages_api, monkeypatch, caplog, what):
    """The SDK sends all requests of a client or middleware of the caller, to a log, a tracer or a watcher.

    So does a version of the SDK without a part that the other way needs.
    """
    sent, post = [], AsyncAnthropic.post
    monkeypatch.setattr(AsyncAnthropic, "post", lambda *given, **named: sent.append(1) or post(*given, **named))
    api, options = messages_api(policies.works_then_answers("look", calls=2)), {}

    async def seen(request, call_next):
        return await call_next(request)

    if what == "client":
        options["http_client"] = DefaultAioHttpClient()
    elif what == "middleware":
        options["middleware"] = [seen]
    elif what.startswith("log"):
        name = "httpx2" if what == "log" else "anthropic"
        caplog.set_level("INFO", name)
        # Servers of other tests configure the logs of the process.
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
    elif what == "version":
        monkeypatch.delattr(BaseClient, "_make_status_error_from_response")
    elif what == "tracer":
        monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    watch = (lambda delta: None) if what == "streamed" else None
    async with connected(api, **options) as provider:
        outcome = await outcome_of(job(provider, 9), watch=watch)
    assert (outcome.status, len(sent)) == ("answered", 3)


async def test_a_later_request_has_the_key_that_the_client_has_now(messages_api):
    """A client that gets another key while it is used sends the other key."""
    api = messages_api([calls("look", {"query": "a"}), answers("done")] * 2)
    async with connected(api, key="first") as provider:
        await outcome_of(job(provider, 9))
        provider.client.api_key = "second"
        await outcome_of(job(provider, 9))
    assert [request.headers["authorization"] for request in api.requests] == [
        *["Bearer first"] * 2,
        *["Bearer second"] * 2,
    ]


@pytest.fixture
async def small_server():
    """A server whose replies call `look`, compressed; the targets of its requests are noted."""
    targets = []

    async def answered(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        targets.append(head.split(" ", 2)[1])
        await reader.readexactly(int(re.search(r"(?i)content-length: (\d+)", head)[1]))
        use = {"type": "tool_use", "id": f"t{len(targets)}", "name": "look", "input": {"query": str(len(targets))}}
        body = gzip.compress(json.dumps({"content": [use], "stop_reason": "tool_use"}).encode())
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n")
        writer.write(b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(answered, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", targets


async def test_compressed_replies_are_read_at_first_and_later(small_server):
    """A server may compress its replies, on both ways."""
    url, targets = small_server
    assert (await asked(url, 3)).tool_calls.used == 3
    assert {*targets} == {"/v1/messages"}


async def test_every_request_passes_the_proxy(small_server, monkeypatch):
    """A proxy of the environment gets the later requests, too."""
    url, targets = small_server
    monkeypatch.setenv("http_proxy", url)
    outcome = await asked("http://api.test", 1)
    assert (outcome.tool_calls.used, len(targets), {*targets}) == (1, 4, {"http://api.test/v1/messages"})
