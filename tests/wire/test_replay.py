"""Runs that were recorded against the simulated APIs replay the same."""

import json
from dataclasses import replace

import pytest

from run_specialist import prompts
from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.replay.cassette import cassette_of
from run_specialist.spawning.trust import Trust
from run_specialist.store.stored import StoredEvent
from run_specialist.tools.python_tools import tool
from tests.journals import load
from tests.loop_jobs import LOOK
from tests.wire.chat import faults as chat_faults
from tests.wire.connected import CHAT, MESSAGES
from tests.wire.json_mode import written
from tests.wire.mcp_servers.running_servers import script
from tests.wire.replayed_runs import differs
from tests.wire.resumed_requests import look
from tests.wire.simulator import faults


@pytest.mark.exhaustive(one_in=2)
async def test_c1_a_recorded_run_replays_the_same(runs):
    """A run with failed and repeated calls replays equal from the store and from a file."""
    answer = runs.say.answers("Mice.", evidence=[{"source": "a", "quote": "b"}])
    run = await runs.record(runs.read(), runs.read(), runs.read("notes/none.md"), answer)
    replayed = await runs.replay(run)
    assert (replayed.difference, replayed.requests, replayed.as_json()["same"]) == (None, 4, True)
    assert (await runs.replay_file(await runs.save(run))).difference is None


@pytest.mark.exhaustive
async def test_c1_a_steered_run_replays_the_same(runs):
    """What the user added goes beside the same results, and is one text that both APIs get after them."""
    script, told = [runs.read(), runs.read("notes"), runs.say.answers("Mice.")], []
    async with (
        runs.provider_of(script) as (api, provider),
        Runner(root=runs.root, provider=provider, store=runs.url) as runner,
    ):

        def steer(event):
            if event.event == "tool_call" and not told:
                told.append(run.steer("Only 2025."))

        run = await runner.prepare("looker", "What do owls eat?", listener=steer)
        await run.outcome()
    assert told == [True]
    assert str(api.requests[1].messages[-1]).count("The user adds: Only 2025.") == 1
    assert (await runs.replay(load(runs.url))).difference is None
    assert (await runs.replay_file(await runs.save(load(runs.url)))).difference is None


async def test_c1_a_run_that_changed_its_notes_replays_the_same(runs, monkeypatch):
    """The prompt has the notes of the beginning, and no replay writes any."""
    runs.write("tools: read, todo", "memory: project")
    note = runs.root / ".run-specialist" / "memory" / "looker" / "MEMORY.md"
    note.parent.mkdir(parents=True)
    note.write_text("- bats: none\n")
    change = {"command": "append", "path": "MEMORY.md", "file_text": "- owls: notes/owls.md"}
    script = [runs.say.calls("memory", change), runs.say.calls("todo", {"todos": [{"content": "look"}]})]
    run = await runs.record(*script, runs.say.answers("Mice."), trust=True)
    assert note.read_text() == "- bats: none\n- owls: notes/owls.md\n"
    assert (await runs.replay(run)).difference is None
    assert note.read_text() == "- bats: none\n- owls: notes/owls.md\n"
    note.unlink()
    monkeypatch.setattr(Trust, "allows", lambda *_: False)
    assert (await runs.replay(run)).difference is None, "neither the notes nor the tool of today matter"


@pytest.mark.exhaustive
@pytest.mark.parametrize("landing", ["auto", "order", "schema", "finalize", "none", "stop"])
async def test_c1_a_landed_run_replays_the_same(runs, landing):
    """Each kind of landing is replayed, with what the endpoint refused inferred from its rungs."""
    end = "answers" if landing in {"auto", "order", "finalize"} else "says"
    text = '{"answer": "Mice.", "evidence": [], "gaps": []}' if end == "says" and landing == "schema" else "Mice."
    script = [runs.read(), runs.read("notes")]
    script += [runs.read("other")] if landing == "finalize" else []
    script += [] if landing == "stop" else [getattr(runs.say, end)(text)]
    if runs.kind == CHAT and landing == "auto":
        script[-1] = runs.say.says('{"answer": "Mice.", "evidence": [], "gaps": []}')
    run = await runs.record(*script, tool_calls_limit=2, landing=landing)
    assert run.outcome["status"] in {"landed", "partial"}
    replayed = await runs.replay(run)
    assert replayed.difference is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("choice", ["first", "none"])
async def test_c1_a_landing_that_was_refused_replays_the_same(runs, choice):
    """Refused choices are not stored as replies; they are refused again, and lead to the same rungs."""
    text = {MESSAGES: "tool_choice forces tool use is not supported", CHAT: "response_format is not supported"}
    refused = {"first": text[runs.kind], "none": "tool_choice: none is not supported"}[choice]
    refusal = (faults if runs.kind == MESSAGES else chat_faults).invalid(refused)
    end = runs.say.says("Mice.") if choice == "none" else runs.say.answers("Mice.")
    landing = "none" if choice == "none" else "auto"
    run = await runs.record(runs.read(), refusal, end, tool_calls_limit=1, landing=landing)
    assert run.outcome["status"] == "landed"
    assert len(run.turns) == 2
    assert (await runs.replay(run)).difference is None


@pytest.mark.exhaustive
async def test_c1_replies_that_were_requested_again_replay_the_same(runs):
    """A truncated reply is not part of the next request; an early answer and one without a quote are returned."""
    say = runs.say
    runs.write("tool_calls_limit: 9", "evidence: require")
    cut = say.says("Mi", **({"stop_reason": "max_tokens"} if runs.kind == MESSAGES else {"finish_reason": "length"}))
    found = say.answers("Mice.", evidence=[{"source": "notes/owls.md:3", "quote": "Owls eat mice."}])
    script = [cut, runs.read(), say.says(""), say.answers("Mice."), runs.read("notes"), found]
    if runs.kind == MESSAGES:
        # Blocks of every kind are sent back unchanged, and a paused turn continues.
        script[1] = say.says(say.thinking("Which note?"), say.tool_use("read", {"path": "notes/owls.md"}))
        script.insert(1, say.pauses("One moment."))
    run = await runs.record(*script)
    assert (run.outcome["status"], len(run.turns)) == ("answered", len(script))
    assert (await runs.replay(run)).difference is None
    assert (await runs.replay_file(await runs.save(run))).difference is None


@pytest.mark.exhaustive
async def test_c1_calls_as_json_replay_the_same(runs):
    """Stored replies with calls as JSON are calls already; such runs have no bodies."""
    runs.write("tool_calls_limit: 4", "tool_calls: json", "first_search: off")
    reads = runs.say.says(written("read", path="notes/owls.md", offset=None, limit=None))
    run = await runs.record(reads, runs.say.says(written("respond", answer="Mice.", evidence=None, gaps=None)))
    assert run.outcome["tool_calls"]["used"] == 1
    assert (await runs.replay_file(await runs.save(run))).difference is None


@pytest.mark.exhaustive
async def test_c1_a_parent_replays_alone(messages_runs):
    """The results of delegated calls are stored with the parent, and so are the spending and quotes of the children."""
    one = messages_runs
    one.write("tools: read", "tool_calls_limit: 2", name="owls")
    one.write("tool_calls_limit: 6", "agents: [owls]")
    asks = one.say.calls("delegate", {"specialist": "owls", "query": "What do owls eat?"})
    quote = [{"source": "notes/owls.md:3", "quote": "Owls eat mice."}]
    answers = one.say.answers("Mice.", evidence=quote)
    run = await one.record(asks, one.read(), answers, one.read("notes"), answers)
    run = run if run.specialist == "looker" else one.load_parent(run)
    assert [child.specialist for child in run.children] == ["owls"]
    assert run.outcome["tool_calls"]["used"] == 3
    assert (await one.replay(run)).difference is None
    assert (await one.replay_file(await one.save(run))).difference is None


async def test_c1_tools_of_a_program_replay_the_same(messages_runs):
    """Their definitions are taken from the run, and this is said."""
    one = messages_runs
    run = await one.record(look(one.say, "a"), look(one.say, "a"), one.say.answers("A."), tools=[LOOK])
    replayed = await one.replay(run)
    assert (replayed.difference, replayed.not_compared) == (None, ["look"])


async def test_c1_secrets_and_prices_of_today_change_nothing(messages_runs, monkeypatch):
    """Stored results are masked already, and the cost of a request is the stored one."""
    one = messages_runs
    one.write("cost_limit: 1.0", "tool_calls_limit: none")
    run = await one.record(one.read(), one.say.answers("Mice."))
    monkeypatch.setenv("SOME_TOKEN", "Owls eat mice.")
    monkeypatch.setattr("run_specialist.providers.models.cost", lambda *given: 0.9)
    replayed = await one.replay(run)
    assert (replayed.difference, replayed.outcome.cost_usd) == (None, run.outcome["cost_usd"])


@pytest.mark.exhaustive
async def test_c1_a_failed_run_replays_the_same(messages_runs):
    """A request that ended the run by an error of the API ends the replay, too; what was gathered is the same."""
    one = messages_runs
    one.write("patience: 0")
    run = await one.record(one.read(), faults.overloaded())
    assert run.outcome["status"] == "failed"
    replayed = await one.replay(run)
    assert (replayed.difference, replayed.requests) == (None, 2)


async def test_c1_functions_of_a_project_are_not_imported(messages_runs):
    """Nothing is imported and no trust is needed; their definitions are those of the run."""
    one = messages_runs
    module = one.root / "replayed_counting.py"
    module.write_text('def count(word: str) -> int:\n    """Count letters."""\n    return len(word)\n')
    one.write("python_tools: replayed_counting:count")
    script = [one.say.calls("count", {"word": "owls"}), one.say.answers("4")]
    run = await one.record(*script, trust=True)
    module.write_text("raise ValueError\n")
    replayed = await one.replay(run)
    assert (replayed.difference, replayed.not_compared) == (None, ["count"])
    one.write("python_tools: []")
    assert (await differs(one, run))[:2] == (1, "definition of the tool count")
    one.write("python_tools: [replayed_counting:count, replayed_counting:other]")
    assert (await differs(one, run))[:2] == (1, "definition of the tool other")


@pytest.mark.exhaustive
async def test_c1_servers_of_a_run_are_not_started(messages_runs):
    """A replay needs no server, and no trust; a server that the file names no longer is a difference."""
    one = messages_runs
    servers = f"mcp_servers: {{raw: {{command: {json.dumps([*script('raw', 'plain')])}}}}}"
    one.write("tools: mcp__raw__*", servers)
    run = await one.record(one.say.calls("mcp__raw__look", {}), one.say.answers("seen"), trust=True)
    assert [call.is_error for call in run.calls] == [False]
    one.write("tools: mcp__raw__*", "mcp_servers: {raw: {command: /none}}")
    replayed = await one.replay(run)
    assert (replayed.difference, "mcp__raw__look" in replayed.not_compared) == (None, True)
    one.write("tools: mcp__raw__*", servers.replace("raw: {", "fine: {"))
    assert (await differs(one, run))[0] == 1


@pytest.mark.exhaustive
async def test_c2_the_part_that_differs_is_named(messages_runs, monkeypatch):
    """A changed prompt, a limit, a missing tool and a setting of the landing are each found; a changed note is not."""
    one = messages_runs
    run = await one.record(one.read(), one.read("notes"), one.say.answers("Mice."), tool_calls_limit=2)
    one.write("tool_calls_limit: 4", body="You look up things.")
    changed = ["-You look things up.", "+You look up things."]
    assert await differs(one, run) == (1, "system prompt", changed)
    # The limit of the call holds, whatever the file says.
    one.write("tool_calls_limit: 9")
    assert (await one.replay(run)).difference is None
    one.write("tool_calls_limit: 4", "landing_prompt: Stop now.", "landing: order")
    found = (await one.replay(run)).difference
    assert (found.request, found.part) == (3, "tool choice")
    assert any('landing "auto" -> "order"' in hint for hint in found.hints)
    one.write("tool_calls_limit: 4", "tools: read")
    assert (await differs(one, run))[:2] == (1, "definition of the tool glob")
    one.write("tool_calls_limit: 4")
    (one.root / "notes/owls.md").write_text("# Owls\n\nOwls eat voles.\n")
    assert (await one.replay(run)).difference is None


@pytest.mark.exhaustive
async def test_c2_a_changed_limit_is_found_in_the_prompt(messages_runs):
    """The prompt names the limit of the file, and the hints name the setting; so is the instruction of a landing."""
    one = messages_runs
    run = await one.record(one.read(), one.say.answers("Mice."))
    one.write("tool_calls_limit: 3")
    found = (await one.replay(run)).difference
    assert (found.request, found.part) == (1, "system prompt")
    assert found.hints[:2] == ("Settings that differ: tool_calls_limit 4 -> 3.", "looker.md has changed since the run.")
    landing = ["tool_calls_limit: 1", "landing: order"]
    one.write(*landing)
    landed = await one.record(one.read(), one.say.answers("Mice."))
    one.write(*landing, "landing_prompt: Stop now.")
    request, part, changed = await differs(one, landed)
    assert (request, part, changed[-1]) == (2, "landing instruction", "+Stop now.")
    one.write("tool_calls_limit: 4", "budget_notice: false")
    silent = await one.record(one.read(), one.read("notes"), one.say.answers("Mice."))
    one.write("tool_calls_limit: 3", "budget_notice: false")
    request, part, lines = await differs(one, silent)
    assert (request, part) == (3, "result of the tool read in message 5")
    assert lines == ['-2 tool calls remaining",', '+1 tool call remaining",']


async def test_c2_a_call_that_was_skipped_then_is_found(messages_runs):
    """A higher limit executes a call that has no result in the run."""
    one = messages_runs
    one.write("tool_calls_limit: 1", "budget_notice: false", "countdown: none")
    both = one.say.calls("read", {"path": "notes/owls.md"}, {"path": "notes"})
    run = await one.record(both, one.say.answers("Mice."))
    one.write("tool_calls_limit: 2", "budget_notice: false", "countdown: none")
    request, part, lines = await differs(one, run)
    assert (request, part) == (2, "a tool call that the run did not execute")
    assert lines[1] == "+read {"


@tool
def long() -> str:
    """Return more than fits."""
    return "x" * 3_000


@pytest.mark.exhaustive
async def test_c2_a_result_that_is_cut_elsewhere_is_found(messages_runs):
    """The limit of a result applies to the whole stored output, and its note is generated again."""
    one = messages_runs
    one.write("tool_result_limit: 420")
    run = await one.record(one.say.calls("long", {}), one.say.answers("Mice."), tools=[long])
    assert (run.calls[0].truncated, run.calls[0].characters) == (True, 420)
    assert (await one.replay(run)).difference is None
    assert (await one.replay_file(await one.save(run))).difference is None
    one.write("tool_result_limit: 500")
    found = (await one.replay(run)).difference
    assert found.part == "result of the tool long in message 3"
    assert f'"{"x" * 500}\n' in found.now
    assert "\n[cut at 500 of 3000 characters; read on by get_tool_response" in found.now


@pytest.mark.exhaustive
async def test_c2_the_end_of_a_run_is_compared(messages_runs, monkeypatch):
    """A shorter run, a longer run, and the content of the last message."""
    one = messages_runs
    quoted = one.say.answers("Mice.", evidence=[{"source": "notes/owls.md:3", "quote": "Owls eat mice."}])
    one.write("evidence: require")
    longer = await one.record(one.read(), one.say.answers("Mice."), quoted)
    one.write("evidence: check")
    found = (await one.replay(longer)).difference
    assert (found.request, found.part) == (None, "the replay ended after 2 of 3 requests")
    shorter = await one.record(one.read(), one.say.answers("Mice."))
    one.write("evidence: require")
    found = (await one.replay(shorter)).difference
    assert (found.request, found.part) == (None, "a further request")
    one.write("evidence: off")
    assert (await differs(one, longer))[1] == "the replay ended after 2 of 3 requests"
    one.write("evidence: check")
    monkeypatch.setattr(prompts, "DELIVERED", "It was delivered.")
    found = (await one.replay(shorter)).difference
    assert (found.request, found.part) == (None, "result of the tool respond in message 5")


async def test_c3_runs_that_cannot_be_replayed_are_refused_by_name(messages_runs):
    """A resumed, forked, summarized, aborted or unended run, and one out of time, are refused with the reason."""
    one = messages_runs
    run = await one.record(one.read(), one.say.answers("Mice."))

    def reason(**changes):
        with pytest.raises(UsageError) as refused:
            cassette_of(replace(run, **changes))
        return str(refused.value).removeprefix(f"{run.run_id} cannot be replayed: ").split(" (")[0].split(",")[0]

    def event(body):
        return (*run.events, StoredEvent(99, 0.0, body))

    landed = {"reason": "time", "how": "force"}
    assert reason(outcome=None, status="interrupted") == "it has not ended"
    assert reason(status="aborted") == "it was aborted"
    assert reason(events=event({"event": "resumed"})) == "it was resumed"
    assert reason(frozen={**run.frozen, "fork": {"run_id": "r1", "at": 1}}) == "it is a fork of r1"
    assert reason(events=event({"event": "summarized"})) == "its transcript was summarized"
    assert reason(outcome={**run.outcome, "landing": landed}) == "its messages depend on its time limit"
    late = {"event": "budget", "kind": "time", "phase": "countdown"}
    assert reason(events=event(late)) == "its messages depend on its time limit"
    assert reason(outcome={**run.outcome, "error_kind": "store_lost"}).startswith("it ended by a failure")
    assert reason(events=()) == "it sent no request"
