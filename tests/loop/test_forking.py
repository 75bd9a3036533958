"""Forks: a new run begins with the first turns of a stored one, which is only read."""

from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError
from run_specialist.loop.transcript import portable_id
from run_specialist.record.messages import Stop, Usage
from run_specialist.spawning.resuming import first_turns
from run_specialist.store.reader import Store
from run_specialist.store.stored import copied_rows, transcript_rows
from tests.journals import load
from tests.loop.replies import ANSWER, THREE, answers, asks, looks, looks_for, responds
from tests.loop_jobs import LOOK
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists

DOWN = ProviderError("the API is down")


class OtherProvider(ScriptedProvider):
    """Another model, with another price."""

    model = "other"

    def cost(self, usage):
        """Return two cents a thousand tokens, if the price is known."""
        return usage.total_tokens / 50_000 if self.priced else None


async def eventful(desk):
    """Make a run that lands, is resumed, gets a cut reply, fails, is summarized and answers.

    Return the request of each turn.
    """
    desk.specialist = desk.specialist.model_copy(update={"landing": "order"})
    first = await desk.ask(looks(1, 2), looks(3), ANSWER, tool_calls_limit=3)
    cut, large = says("I lo", Stop.TRUNCATED), replace(looks(5), usage=Usage(60_000, 0, 0, 5))
    second = await desk.go_on(cut, large, DOWN, tool_calls_limit=9, question="And why?")
    last = await desk.go_on(says("notes"), looks(6), looks(7), says("Because."), summarize_at=50_000)
    return [*first.requests, *second.requests[:2], *last.requests[1:]]


async def test_f_1_a_fork_repeats_the_request_after_any_turn(desk):
    """At each turn a fork sends what followed it, across a landing, a resumption, a cut reply and a summary.

    Before a turn at which a limit was raised, it does not copy the note about that, but has the limit.
    """
    requests = await eventful(desk)
    source = desk.load()
    later = {note["text"] for note in first_turns(source, 0).left_out}
    assert len(later) == 1
    for at in (0, 1, 2, 4, 5, 6, 7):
        fork = await desk.fork(at, says("So."), run_id=source.run_id, summarize_at=None)
        *before, newest = fork.requests[0].messages
        assert newest.landing_instruction is None
        own = [block for block in newest.blocks if block.get("text") != fork.run.forked_from.note]
        if at == 5:
            # The source summarized after this turn, and the fork does not.
            assert "SUMMARIZED" not in str(before)
            assert str(before).count("tool_use_id") == 4
            continue
        *expected, tail = requests[at].messages
        assert [one.encoded for one in before] == [one.encoded for one in expected]
        known = {note["text"] for note in first_turns(source, at).notes}
        assert own == [block for block in tail.blocks if block.get("text") not in later - known]
        assert fork.outcome.limits["turns"].used == at + 1
    assert load(desk.url, source.run_id) == source
    fork = await desk.fork(2, says("So."), run_id=source.run_id, summarize_at=None)
    assert "you now have 9 tool calls in all, of which 3 are used" in str(fork.requests[0].messages[-1])
    deeper = await desk.fork(1, says("So."))
    assert "you now have 9 tool calls in all, of which 2 are used" in str(deeper.requests[0].messages[-1])
    assert "of which 3 are used" not in str(deeper.requests[0].messages)


@pytest.mark.exhaustive
async def test_f_3_copied_calls_and_turns_count_but_not_what_they_cost(desk):
    """Calls, turns and characters of the copied turns count against the limits; tokens, cost and time do not."""
    first = await desk.ask(*THREE, ANSWER, tool_calls_limit=5)
    fork = await desk.fork(2, looks(4), looks(5), ANSWER, tool_calls_limit=4)
    assert first.outcome.run_id != fork.outcome.run_id
    used = {kind: spent.used for kind, spent in fork.outcome.limits.items()}
    assert (used["tool_calls"], used["turns"], used["tokens"], used["cost"]) == (4, 5, 45, 0.00045)
    assert used["characters"] == sum(len(call.text) for call in desk.load().calls) > 0
    assert fork.outcome.usage == Usage(30, 0, 0, 15)
    assert fork.outcome.status == "landed"
    (said,) = [text for text in fork.outcome.warnings if "copied" in text]
    assert said.startswith(f"the first 2 turns of {first.outcome.run_id} are copied: 2 tool calls and 2 turns count")
    assert "you now have 4 tool calls in all, of which 2 are used" in str(fork.requests[0].messages[-1])
    (told,) = fork.named("forked")
    assert (told.source, told.at, told.used["tool_calls"]) == (first.outcome.run_id, 2, 2)
    stored = desk.load()
    assert (stored.parent_id, stored.forked_from, stored.forked_at) == (None, first.outcome.run_id, 2)


async def test_f_3_nothing_is_said_to_the_model_if_nothing_has_changed(desk):
    """With the same model and limits the first request of the fork is the third of the run."""
    first = await desk.ask(*THREE, ANSWER)
    fork = await desk.fork(2, ANSWER)
    assert [one.encoded for one in fork.requests[0].messages] == [one.encoded for one in first.requests[2].messages]
    assert fork.provider.opening.system == first.provider.opening.system
    (told,) = fork.named("forked")
    assert told.note == ""
    assert fork.run.forked_from.cold_tokens is None


@pytest.mark.exhaustive
async def test_f_4_a_fork_does_not_need_the_run_that_it_came_from(desk):
    """When the source is deleted, transcript, resuming and forking of the fork stay as they are."""
    first = await desk.ask(*THREE, ANSWER)
    fork = await desk.fork(2, looks(4), DOWN)
    before = desk.load()
    with Store(desk.url) as store:
        assert store.forks(load(desk.url, first.outcome.run_id)) == [fork.outcome.run_id]
        store.delete([first.outcome.run_id])
    after = desk.load()
    assert transcript_rows(after) == transcript_rows(before)
    rows = transcript_rows(after)[: copied_rows(after)]
    assert [row["name"] for row in rows if row["kind"] == "tool_call"] == ["look", "look"]
    again = await desk.go_on(ANSWER)
    assert (again.outcome.status, again.outcome.tool_calls.used) == ("answered", 3)
    deeper = await desk.fork(1, ANSWER)
    assert (desk.load().forked_from, deeper.outcome.tool_calls.used) == (fork.outcome.run_id, 1)


@pytest.mark.exhaustive
async def test_f_5_a_fork_is_stored_before_its_first_request(desk):
    """A fork that is killed before its first reply is resumed with its turns and its note, and pays for them once."""
    first = await desk.ask(*THREE, ANSWER)
    provider = OtherProvider([])
    async with desk.process(provider=provider) as runner:
        run = await runner.fork(first.outcome.run_id, "And why?", at=2, tool_calls_limit=9)
    stored = load(desk.url, run.run_id)
    assert (len(stored.turns), len(stored.calls), stored.snapshot.turns) == (2, 2, 2)
    resumed = await desk.go_on(run_id=run.run_id, provider=OtherProvider([ANSWER]))
    messages = resumed.requests[0].messages
    assert str(messages).count("And why?") == 1
    assert str(messages).count("The budget was refreshed") == 1
    assert resumed.outcome.usage == Usage(10, 0, 0, 5)
    assert any("copied" in warning for warning in resumed.outcome.warnings)
    assert (stored.forked_from, desk.load().forked_from) == (first.outcome.run_id, first.outcome.run_id)


async def test_f_6_another_model_is_priced_before_it_reads_the_turns(desk):
    """The size and the price of the first request of another model are known before it is sent."""
    first = await desk.ask(*THREE[:1], replace(looks(2), usage=Usage(1_000, 0, 0, 20)), looks(3), ANSWER)
    fork = await desk.fork(2, provider=OtherProvider([ANSWER]))
    tail = -(-len(fork.requests[0].messages[-1].blocks[0]["content"]) // 4)
    assert fork.run.forked_from.cold_tokens == 1_020 + tail
    assert fork.run.forked_from.cold_cost == (1_020 + tail) / 50_000
    assert fork.outcome.model == "other"
    assert fork.outcome.cost_usd == 15 / 50_000
    unknown = await desk.fork(0, provider=OtherProvider([ANSWER], priced=False), run_id=first.outcome.run_id)
    assert unknown.run.forked_from.cold_tokens > 100


async def test_f_6_the_price_of_the_cold_prefix_is_reserved(desk):
    """A cost limit that does not cover reading the turns twice makes the fork land immediately."""
    await desk.ask(replace(looks(1), usage=Usage(1_000, 0, 0, 20)), ANSWER)
    fork = await desk.fork(1, provider=OtherProvider([ANSWER]), cost_limit=0.05)
    assert [asked.choice for asked in fork.requests] == ["respond"]


REFUSED = [
    (9, {}, "`at=9`: {id} has 4 turns; use 0 to 4"),
    (-1, {}, "`at=-1`: {id} has 4 turns; use 0 to 4"),
    (4, {}, "`at=4`: turn 4 of {id} is its answer; add a further question, or use `at=3` to have it answered again"),
    (3, {"tool_calls_limit": 2}, "tool_calls_limit: the first 3 turns of {id} used 3 tool calls, so"),
    (3, {"turns_limit": 2}, "turns_limit: the first 3 turns of {id} used 3 turns, so its total limit cannot be 2"),
    (2, {"query": " "}, "question is empty"),
    (2, {"landing": "softly"}, "landing: must be"),
]


async def test_f_7_what_cannot_be_forked_is_refused_by_name(desk):
    """Each refusal is one line with what to do; nothing is sent, and no run is stored."""
    first = await desk.ask(*THREE, ANSWER)
    async with desk.process() as runner:
        for at, options, reason in REFUSED:
            with pytest.raises(Exception, match=r".") as refused:
                await runner.fork(first.outcome.run_id, at=at, **options)
            assert reason.format(id=first.outcome.run_id) in str(refused.value)
            assert "\n" not in str(refused.value)
    assert desk.load().run_id == first.outcome.run_id


@pytest.mark.exhaustive
async def test_f_9_a_preset_replaces_the_one_before(desk):
    """A preset and a landing of the fork replace those of the run; limits that are not given stay."""
    desk.specialist = desk.specialist.model_copy(update={"tool_calls_limit": 3})
    await desk.ask(*THREE, says("So."), preset="openai-loop")
    fork = await desk.fork(2, looks(4), ANSWER, preset="soft-landing", landing="force")
    assert [asked.choice for asked in fork.requests] == ["auto", "respond"]
    assert "0 tool calls remaining" in str(fork.requests[1].messages[-1])
    settings = desk.load().frozen["settings"]
    assert (settings["preset"], settings["landing"], settings["tool_calls_limit"]) == ("soft-landing", "force", 3)


@pytest.mark.exhaustive
async def test_f_9_a_further_question_after_the_answer(desk):
    """At the answer itself a fork asks a further question, and the run keeps its own end."""
    first = await desk.ask(looks(1), says("It is known."))
    fork = await desk.fork(2, says("Because."), question="And why?")
    assert [one.role for one in fork.requests[0].messages] == ["user", "assistant", "user", "assistant", "user"]
    assert fork.outcome.answer == "Because."
    assert desk.load().frozen["questions"] == ["And why?"]
    again = await desk.fork(0, says("All."), run_id=first.outcome.run_id)
    assert [one.blocks for one in again.requests[0].messages] == [({"type": "text", "text": "What is known?"},)]


async def test_f_2_calls_with_odd_ids_get_new_ones(desk):
    """The calls that another model gets have new ids in calls, results and stored calls, the same everywhere."""
    odd = calls(("look", {"query": "1"}))
    blocks = ({**odd.content[0], "id": "functions.look:0", "chat": {"id": "functions.look:0"}},)
    await desk.ask(replace(odd, content=blocks), ANSWER)
    fork = await desk.fork(1, provider=OtherProvider([ANSWER]))
    _, asked, answered = fork.requests[0].messages
    new = portable_id("functions.look:0")
    assert asked.blocks == ({"type": "tool_use", "id": new, "name": "look", "input": {"query": "1"}},)
    assert answered.blocks[0]["tool_use_id"] == new
    assert [call.call.id for call in desk.load().calls] == [new]
    assert not [text for text in fork.outcome.warnings if "left out" in text]


FOUND = responds("mice", {"source": "n.md:1", "quote": "note on 'owls', part 0"}, first_id=90)


@pytest.mark.exhaustive
async def test_f_3_f_4_children_belong_to_the_source_and_a_fork_of_one_has_no_parent(store):
    """A fork does not count copied children, but verifies what they read, on resume too; their forks are own runs."""
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("some")]], finder=[[looks_for("owls"), FOUND]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        first = await runner.run("lead", "What is known?")
    child = first.children[0].run_id
    more = ScriptedSpecialists(lead=[[FOUND], [FOUND]], finder=[[FOUND]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        copy = await (await runner.fork(first.run_id, at=1)).outcome()
        again = await (await runner.resume(copy.run_id, "Sure?")).outcome()
        outcome = await (await runner.fork(child, at=1)).outcome()
    assert (first.tool_calls.used, copy.tool_calls.used, copy.children) == (2, 1, ())
    assert [one.verified for one in (*copy.evidence, *again.evidence)] == [True, True]
    with Store(store) as kept:
        assert [one.run_id for one in kept.load(first.run_id).children] == [child]
        fork = kept.load(outcome.run_id)
        (listed,) = [one for one in kept.runs() if one.run_id == outcome.run_id]
    assert (fork.parent_id, fork.forked_from, listed.forked_from, listed.forked_at) == (None, child, child, 1)
