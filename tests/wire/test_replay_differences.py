"""The first difference of a replay, and runs that cannot be replayed."""

from dataclasses import replace

import pytest

from run_specialist import prompts
from run_specialist.errors import UsageError
from run_specialist.replay.cassette import cassette_of
from run_specialist.store.stored import StoredEvent
from run_specialist.tools.python_tools import tool
from tests.wire.replayed_runs import differs

pytestmark = pytest.mark.anyio


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
