"""Resumed runs: the messages that the model receives, and the counters."""

import asyncio
import json
import os
import shutil
import sqlite3
from dataclasses import replace

import pytest

from run_specialist import prompts
from run_specialist.errors import NotResumable, ProviderError, UsageError
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.record.outcome import Exit
from run_specialist.spawning.resuming import begun_with
from run_specialist.spawning.spawner import digest
from run_specialist.specialist import project
from run_specialist.tools.base import Tool
from tests.journals import stored
from tests.loop.replies import ANSWER, THREE, answers, looks, looks_for
from tests.loop_jobs import LOOK, Clock, results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import write
from tests.stored_runs import ID, LOOKER, StoredRunHarness, taken

MORE = answers("More.", first_id=91)
REFRESHED = (
    "The budget was refreshed: you now have 6 tool calls in all, of which 3 are used, so 3 tool calls remain. "
    "What is said above about a remaining or spent budget, about limits that are reached and about having to answer "
    "now no longer holds. Build on what was found above.\nGo on with the question."
)


async def test_s4_5_s3_8_a_run_with_three_calls_is_resumed_with_a_total_of_six(desk):
    """It continues counting; earlier messages are unchanged, and the note is once inside the result of `respond`."""
    first = await desk.ask(*THREE, ANSWER, tool_calls_limit=3)
    assert (first.outcome.status, first.outcome.tool_calls.used) == ("landed", 3)
    again = await desk.go_on(looks(4), looks(5), looks(6), looks(7), MORE, tool_calls_limit=6)
    used = again.outcome.tool_calls
    assert (again.outcome.status, again.outcome.answer) == ("landed", "More.")
    assert (used.used, used.limit, used.skipped) == (6, 6, 1)
    ran = [event.id for event in again.named("tool_call") if event.phase == "finished"]
    assert ran == ["call_4", "call_5", "call_6"]
    # The last message had not been sent yet, so the resume note could be added to it.
    sent, said = again.requests[0].messages[:-1], first.run.transcript[:-1]
    assert [message.encoded for message in sent] == [message.encoded for message in said]
    (block,) = again.requests[0].messages[-1].content
    assert (block["type"], block["content"]) == ("tool_result", f"{prompts.DELIVERED}\n{REFRESHED}")
    assert sum(b"refreshed" in message.encoded for message in again.requests[-1].messages) == 1
    (event,) = again.named("resumed")
    assert (event.note, event.used["tool_calls"]) == (REFRESHED, 3)


async def test_s3_8_after_a_text_answer_the_resume_note_is_a_user_message(desk):
    """After a text answer the resume note is a user message, and new questions follow the answer."""
    first = await desk.ask(looks(1), says("Owls."))
    assert first.outcome.answer == "Owls."
    again = await desk.go_on(says("Toads."), question="And what else?")
    *before, answer, asked = again.requests[0].messages
    assert [message.role for message in before] == ["user", "assistant", "user"]
    assert answer.content == ({"type": "text", "text": "Owls."},)
    assert asked.content[0]["text"].endswith(" was found above.\nThe user now asks: And what else?")
    assert (again.outcome.answer, again.outcome.status) == ("Toads.", "answered")


LIMITS = {
    "turns_limit": (2, "you now have 9 turns in all, of which 2 are used, so 7 turns remain"),
    "total_tokens_limit": (25, "you now have 100,000 tokens in all, of which 30 are used, so 99,970 tokens remain"),
    "cost_limit": (0.0001, "you now have $9.00 in all, of which $0.0003 are used, so $9.00 remain"),
    "tool_chars_limit": (
        19,
        "you now have 100,000 characters in all, of which 19 are used, so 99,981 characters remain",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", LIMITS)
async def test_s3_8_a_raised_limit_of_any_kind_continues_from_the_used_amount(desk, key):
    """A raised limit of any kind continues from the used amount, and the run no longer lands at the old total."""
    limit, words = LIMITS[key]
    first = await desk.ask(looks(1), ANSWER, **{key: limit})
    assert first.outcome.status == "landed", first.outcome
    new = {"turns_limit": 9, "cost_limit": 9.0}.get(key, 100_000)
    again = await desk.go_on(looks(4), ANSWER, **{key: new})
    assert words in again.named("resumed")[0].note
    assert again.outcome.status == "answered"
    kind = first.outcome.landing.reason
    assert again.outcome.limits[kind].limit == new
    assert again.outcome.limits[kind].used > first.outcome.limits[kind].used > 0
    assert again.outcome.usage.total_tokens == 4 * 15
    assert again.outcome.limits["turns"].used == 4


@pytest.mark.exhaustive
async def test_t_12_a_follow_up_has_a_fresh_budget_that_counts_down_from_its_own_half(desk):
    """After a landing each further question gets the first limits again, and an explicit total stays one."""
    await desk.ask(*THREE, ANSWER, tool_calls_limit=3, time_limit=60)
    again = await desk.go_on(looks(4), looks(5), ANSWER, question="Since when?")
    assert (again.outcome.status, again.outcome.tool_calls.used, again.outcome.tool_calls.limit) == ("answered", 5, 6)
    note = again.named("resumed")[0].note
    assert "you now have 6 tool calls in all, of which 3 are used, so 3 tool calls remain" in note
    assert note.endswith("The user now asks: Since when?")
    first, second = (str(asked.messages[-1].content) for asked in again.requests[1:3])
    assert ("remaining" in first, "1 tool call remaining" in second) == (False, True)
    third = await desk.go_on(*THREE, ANSWER, question="And where?")
    assert (third.outcome.status, third.outcome.tool_calls.limit) == ("landed", 8)
    last = await desk.go_on(looks(9), ANSWER, question="Why?", tool_calls_limit=9)
    assert (last.outcome.status, last.outcome.tool_calls.limit) == ("landed", 9)
    assert last.requests[0].messages[0].content[0]["text"] == "What is known?"
    assert desk.load().question == "Why?"
    fork = await desk.fork(4, looks(10), ANSWER, question="Which?")
    assert (fork.outcome.status, fork.outcome.tool_calls.limit, desk.load().question) == ("answered", 9, "Which?")


async def test_a_run_resumed_three_times_has_one_history(desk):
    """A run resumed three times has one history, one bill and consecutive event numbers."""
    await desk.ask(looks(1), ANSWER)
    for number in (2, 3, 4):
        again = await desk.go_on(looks(number), calls(("respond", {"answer": str(number)}), first_id=95 + number),
                                 question=f"And {number}?")  # fmt: skip
        assert again.outcome.answer == str(number)
        assert again.run.is_kept
    assert again.outcome.tool_calls.used == 4
    assert again.outcome.usage.total_tokens == 8 * 15
    run = desk.load()
    assert [event.number for event in run.events] == list(range(1, len(run.events) + 1))
    assert [event.body["event"] for event in run.events].count("finished") == 4
    assert [turn.number for turn in run.turns] == list(range(1, 9))
    assert run.transcript == again.run.transcript
    assert run.outcome == json.loads(json.dumps(again.outcome.as_json()))


# A run continues on another host, in another folder, if the same specialist is found there by its name.
READS = calls(("read", {"path": "note.md"}), first_id=1)
LINES = ("tool_calls_limit: 5",)


@pytest.fixture
def hosts(tmp_path, store_url, monkeypatch):
    """Create two hosts with the same specialist in different places, and different notes, and one store."""
    monkeypatch.setattr(project, "packaged", lambda: tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = []
    for name in ("one", "other"):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True)
        write(folder, "finder", *LINES).write_text(
            "---\nname: finder\ndescription: Finds.\ntool_calls_limit: 5\n---\nYou are finder.\n"
        )
        (folder / "note.md").write_text(f"The note of {name}.")
        made.append(StoredRunHarness(folder, store=store_url))
    return made


def process(office, monkeypatch, *script, **options):
    """Open a runner on a host."""
    monkeypatch.chdir(office.folder)
    return office.process(*script, tools=(), **options)


async def begun(office, monkeypatch):
    """Begin the run on a host, where it fails."""
    async with process(office, monkeypatch, READS, ProviderError("the host has lost its network")) as runner:
        outcome = await (await taken(runner, specialist="finder")).outcome()
    assert outcome.status == "failed"


def reads_again(seen):
    """Make a script that reads the note again and answers."""

    def see(request):
        seen.extend(request.messages)
        return ANSWER

    return [calls(("read", {"path": "note.md", "offset": 1}), first_id=2), see]


async def test_a_run_is_taken_up_in_the_root_of_the_other_host(hosts, monkeypatch):
    """The run continues in the root of the other host, with the stored system prompt, and says so in a warning."""
    one, other = hosts
    await begun(one, monkeypatch)
    seen = []
    async with process(other, monkeypatch, *reads_again(seen)) as runner:
        run = await taken(runner, specialist="finder", retry="failed")
        outcome = await run.outcome()
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 2)
    assert outcome.warnings[0] == f"the run began in {one.folder} and continues in {other.folder}"
    texts = [block["content"] for message in seen for block in message.content if block["type"] == "tool_result"]
    assert ["The note of one." in texts[0], "The note of other." in texts[1]] == [True, True]
    async with process(one, monkeypatch) as runner:
        assert (await taken(runner, specialist="finder")).ended == outcome


@pytest.mark.exhaustive
async def test_resume_continues_here_only_if_its_folder_does_not_exist(hosts, monkeypatch):
    """`resume` continues where the run began, and in the folder of the other host only if that does not exist."""
    one, other = hosts
    await begun(one, monkeypatch)
    async with process(
        other, monkeypatch, root=one.folder, provider=ScriptedProvider([ProviderError("again")])
    ) as runner:
        outcome = await (await runner.resume(ID)).outcome()
    assert not [text for text in outcome.warnings if "continues in" in text]
    shutil.rmtree(one.folder)
    seen = []
    async with process(other, monkeypatch, *reads_again(seen)) as runner:
        outcome = await (await runner.resume(ID)).outcome()
    assert outcome.status == "answered"
    assert f"the run began in {one.folder} and continues in {other.folder}" in outcome.warnings


@pytest.mark.exhaustive
async def test_another_specialist_on_the_other_host_is_refused_with_both_digests(hosts, monkeypatch):
    """A specialist of that name with another content is refused, by `resume` and `take_up`, with both digests."""
    one, other = hosts
    await begun(one, monkeypatch)
    shutil.rmtree(one.folder)
    path = other.folder / "specialists" / "finder.md"
    path.write_text(f"{path.read_text()}You guess.\n")
    digests = r"its digest was \w{12} and is \w{12}"
    async with process(other, monkeypatch, ProviderError("once"), ANSWER) as runner:
        gone = f"{ID}: its working folder {one.folder} no longer exists, and {path} is another specialist: {digests}$"
        with pytest.raises(NotResumable, match=gone):
            await runner.resume(ID)
        with pytest.raises(UsageError, match=f"{path} has another content, {digests}; use another id"):
            await taken(runner, specialist="finder", retry="failed")
        assert (await (await runner.resume(ID, force=True)).outcome()).status == "failed"
        forced = await taken(runner, specialist="finder", retry="failed", force=True)
        assert (await forced.outcome()).status == "answered"


async def test_the_file_is_confined_to_the_project_it_is_found_in(hosts, monkeypatch, tmp_path):
    """Secrets that the store has masked are read from the file only if it lies in the project that the run is in."""
    one, _ = hosts
    await begun(one, monkeypatch)
    async with process(one, monkeypatch) as runner:
        run = await runner.environments.store.load(ID, "")
    server = "mcp_servers: {web: {url: 'https://localhost:1/mcp', headers: {Authorization: Bearer canary-4711}}}"
    outside = write(tmp_path / "other", "outside", server)
    folder = tmp_path / "plain"
    (folder / "specialists").mkdir(parents=True)
    link, copy = folder / "specialists" / "link.md", folder / "specialists" / "copy.md"
    link.symlink_to(outside)
    shutil.copy(outside, copy)
    settings = run.frozen["settings"] | {"mcp_servers": {"web": {"type": "http", "url": "https://localhost:1/mcp"}}}
    frozen = {**run.frozen, "settings": settings, "digest": digest(outside), "root": "/gone"}
    found = [begun_with(replace(run, frozen=frozen), file, folder)[1] for file in (link, copy)]
    assert ["canary-4711" in repr(settings.mcp_servers) for settings in found] == [False, True]


async def test_s3_8_time_between_two_segments_does_not_count(desk):
    """Time between segments does not count: after 40 of 60 s and a week, a limit of 100 s leaves 60 s."""
    clock = Clock()

    def look(query: str = "") -> str:
        clock.now += 40
        return "a note"

    desk.tools = [Tool("look", "Look something up.", look)]
    first = await desk.record(looks(1), ProviderError("down"), clock=clock, time_limit=60.0, tool_calls_limit=None)
    past = stored(first.notebook.records)
    assert past.snapshot.used["time"] == 40
    clock.now += 604_800
    second = await desk.record(looks(2), ANSWER, past=past, clock=clock, time_limit=100.0)
    assert "you now have 100 seconds in all, of which 40 are used, so 60 seconds remain" in second.noted
    assert results(second.requests[1].messages[-1]) == ["a note\n20 seconds remaining"]
    assert second.outcome.limits["time"].used == second.outcome.duration_s == 80
    assert second.outcome.status == "answered"


async def test_s2_8_archived_outputs_can_be_read_after_a_resume(desk):
    """Archived outputs can be read in full at the same offsets after a resume, for cut, merged and skipped results."""
    desk.tools = [Tool("look", "Look something up.", lambda query: query * 5_000)]
    desk.specialist = desk.specialist.model_copy(update={"summarize_at": 50_000, "tool_result_limit": 12_000})
    three = [("look", {"query": query}) for query in ("abcd", "efgh", "ijkl")]
    batch = calls(*three)
    batch = replace(batch, content=(batch.content[0], {**batch.content[1], "id": "call_1"}, batch.content[2]))
    large = replace(looks(5), usage=Usage(60_000, 0, 0, 5))
    first = await desk.ask(batch, large, says("notes"), says("some"), tool_calls_limit=2, landing="order")
    assert first.outcome.answer == "some"
    assert "SUMMARIZED executionId:'call_3'" in str(first.run.transcript)
    wanted = [("call_1", 0), ("call_1", 19_990), ("call_1", 20_100), ("call_3", 0)]
    reads = [
        calls(("get_tool_response", {"execution_id": one, "offset": offset}), first_id=number)
        for number, (one, offset) in enumerate(wanted, 20)
    ]
    desk.specialist = LOOKER
    again = await desk.go_on(*reads, ANSWER, tool_calls_limit=9)
    assert again.outcome.tool_calls.failed == 0
    one, seam, two, skipped = [call.whole for call in desk.load().calls[2:]]
    assert one == ("abcd" * 5_000)[:12_000]
    assert seam.startswith("cdabcdabcd\n[another output of the same id follows]\nefgh")
    assert set(two) == set("efgh")
    assert skipped.startswith("Not run: limit reached, look skipped.")


# A reply received before the process ended is processed on resume: not paid for again, and no call runs twice.
LATER = answers("Later.", first_id=91)
ENDED = prompts.PROCESS_ENDED.format(tool="look")


async def crash_after(desk, kind, number, *script, **settings):
    """Work on a question in a process that dies right after a record of a kind, and return what it left."""
    going = await desk.record(*script, **settings)
    await desk.keep(going.notebook.until(kind, number))
    run = desk.load()
    assert run.status == "interrupted"
    return run


@pytest.mark.parametrize("reply", [ANSWER, says("It is known.")], ids=["respond", "text"])
async def test_an_answer_received_before_the_crash_is_returned_without_a_request(desk, reply):
    """An answer received before the crash is returned without a request and is paid for once."""
    run = await crash_after(desk, Received, 2, looks(1), reply)
    assert run.pending is not None
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.answer) == ("answered", "It is known.")
    assert again.requests == []
    assert again.outcome.usage.total_tokens == 30
    assert again.outcome.limits["turns"].used == 2
    assert [event.event for event in again.events] == ["started", "finished"]


async def test_x_10_finished_calls_do_not_run_again_on_resume(desk):
    """Of three parallel calls, the finished one keeps its stored result, and the tool does not run again on resume."""
    run = await crash_after(desk, Returned, 1, looks(1, 3), ANSWER)
    assert len(run.calls) == 1
    begun = []
    desk.tools = [Tool("look", "Look something up.", lambda query="", part=0: begun.append(query))]
    again = await desk.go_on(LATER)
    assert begun == []
    assert results(again.requests[0].messages[-1]) == ["note on '1', part 0", ENDED, ENDED]
    assert [block.get("is_error", False) for block in again.requests[0].messages[-1].content] == [False, True, True]
    assert (again.outcome.tool_calls.used, again.outcome.tool_calls.failed) == (3, 2)
    assert [call.number for call in desk.load().calls] == [1, 2, 3]
    assert [event.phase for event in again.named("tool_call")] == ["failed", "failed"]


@pytest.mark.exhaustive
async def test_calls_of_a_landing_never_run_in_a_later_segment(desk):
    """Calls made during a landing never run in a later segment, whatever its limit."""
    run = await crash_after(desk, Received, 2, looks(1), looks(2, 2), ANSWER, tool_calls_limit=1)
    assert run.pending.landing
    again = await desk.go_on(looks(4), LATER, tool_calls_limit=5)
    first, last = results(again.requests[0].messages[-1])
    assert first == prompts.NOT_BEGUN.format(tool="look")
    assert last.startswith(first)
    assert "you now have 5 tool calls in all, of which 1" in last
    assert (again.outcome.tool_calls.used, again.outcome.tool_calls.skipped) == (2, 2)
    assert again.outcome.status == "answered"


async def test_x_6_a_cut_answer_received_before_the_crash_is_requested_again(desk):
    """A cut answer received before the crash is paid for, left out of the history and requested again."""
    await crash_after(desk, Received, 1, says("It is", Stop.TRUNCATED), says("It is known."))
    again = await desk.go_on(says("It is known."))
    assert [message.role for message in again.requests[0].messages] == ["user"]
    assert again.requests[0].max_tokens > 16_000
    assert again.outcome.usage.total_tokens == 30


async def test_x_8_a_pause_received_before_the_crash_is_sent_back_unchanged(desk):
    """A pause received before the crash is sent back unchanged, with no message added."""
    pause = says("Wait", Stop.PAUSED)
    await crash_after(desk, Received, 1, pause, ANSWER)
    again = await desk.go_on(LATER)
    assert [message.role for message in again.requests[0].messages] == ["user", "assistant"]
    assert again.requests[0].messages[-1].content == pause.content
    assert again.named("resumed")[0].note == ""


@pytest.mark.exhaustive
async def test_x_8_a_refusal_received_before_the_crash_ends_the_run(desk):
    """A refusal received before the crash fails with exit code 4; it is not in the history, so a follow-up works."""
    await crash_after(desk, Received, 2, looks(1), says("No.", Stop.REFUSED))
    again = await desk.go_on()
    assert (again.outcome.status, again.outcome.exit_code, again.requests) == ("failed", Exit.NO_ANSWER, [])
    later = await desk.go_on(LATER, question="Politely?")
    assert later.outcome.answer == "Later."
    assert "No." not in str(later.requests[0].messages)


async def test_x_7_an_empty_answer_received_before_the_crash_is_requested_again(desk):
    """An empty answer received before the crash is requested once more, as in an uninterrupted run."""
    await crash_after(desk, Received, 1, says(""), ANSWER)
    again = await desk.go_on(LATER)
    assert again.outcome.answer == "Later."
    assert again.outcome.limits["turns"].used == 2


async def test_x_13_a_call_repeated_after_a_resume_is_answered_from_the_record(desk):
    """A repeated read-only call from an earlier segment is answered from the record, with a hint, and counts."""
    desk.tools = [Tool(LOOK.name, LOOK.description, LOOK.function, repeatable=True)]
    await desk.ask(looks(1), ANSWER)
    begun = []

    def look(query: str = "", part: int = 0) -> str:
        begun.append(query)
        return ""

    desk.tools = [Tool(LOOK.name, LOOK.description, look, repeatable=True)]
    again = await desk.go_on(looks_for("1", first_id=7), LATER, question="Sure?")
    assert begun == []
    assert results(again.requests[1].messages[-1]) == [f"note on '1', part 0\n{prompts.SAME_CALL}"]
    assert again.outcome.tool_calls.used == 2


async def test_x_10_s3_6_ctrl_c_during_a_batch_stores_a_result_for_each_call(desk):
    """After Ctrl-C with two of three calls finished, all three have a stored result, which the next segment sends."""
    going = asyncio.Event()

    async def look(query: str = "", part: int = 0) -> str:
        if query == "3":
            going.set()
            await asyncio.Event().wait()
        return f"note on {query}"

    desk.tools = [Tool("look", "Look something up.", look)]
    provider = ScriptedProvider([looks(1, 3)])
    async with desk.process(provider=provider) as runner:
        run = await runner.prepare(desk.specialist, "What is known?")
        task = asyncio.create_task(run.outcome())
        await going.wait()
        run.abort()
        outcome = await task
    stopped = prompts.STOPPED.format(tool="look")
    assert (outcome.status, outcome.exit_code) == ("aborted", Exit.INTERRUPTED)
    assert results(run.transcript[-1]) == ["note on 1", "note on 2", stopped]
    kept = desk.load()
    assert (kept.status, kept.transcript, len(kept.calls)) == ("aborted", run.transcript, 3)
    again = await desk.go_on(LATER)
    assert results(again.requests[0].messages[-1]) == ["note on 1", "note on 2", stopped]
    assert again.outcome.answer == "Later."
    assert (again.outcome.tool_calls.used, again.outcome.usage.total_tokens) == (3, 30)


# A resume that is not possible is refused with one line, without a request or a change to the store.
LOOKS = looks(1)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}


def dump(desk):
    """Return every row of the store."""
    with sqlite3.connect(f"file:{desk.folder}/runs.db?mode=ro", uri=True) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {table: connection.execute(f"select * from {table}").fetchall() for table in sorted(tables)}  # noqa: S608


async def refused(desk, words, error=NotResumable, question=None, provider=None, **wish):
    """Try to go on, and check that nothing was asked and nothing changed; return what was said."""
    before, provider = dump(desk), provider or ScriptedProvider([])
    with pytest.raises(error) as told:
        await desk.go_on(question=question, provider=provider, **wish)
    assert type(told.value) is error
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert provider.requests == []
    assert dump(desk) == before
    return str(told.value)


async def test_an_answered_run_is_resumed_only_with_a_question(desk):
    """An answered run can be resumed only with a question, even if the limit is raised."""
    await desk.ask(LOOKS, ANSWER)
    words = "is already answered; to ask a follow-up question, add it after the run"
    await refused(desk, words)
    await refused(desk, words, tool_calls_limit=50)


async def test_a_run_in_a_living_process_is_not_resumed(desk):
    """A run whose process is alive cannot be resumed, and the error names the process."""
    reached, release = asyncio.Event(), asyncio.Event()

    async def look(query: str = "", part: int = 0) -> str:
        # Everything before the second request has been stored by then.
        if query == "2":
            reached.set()
            await release.wait()
        return "a note"

    desk.tools = [Tool("look", "Look something up.", look)]
    provider = ScriptedProvider([LOOKS, looks(2), ANSWER])
    async with desk.process(provider=provider) as runner:
        run = await runner.prepare(desk.specialist, "What is known?")
        task = asyncio.create_task(run.outcome())
        await reached.wait()
        stranger = ScriptedProvider([])
        with pytest.raises(NotResumable, match=rf"is still running: .*{os.getpid()}"):
            await desk.go_on(provider=stranger)
        release.set()
        assert (await task).status == "answered"
    assert run.is_kept
    assert stranger.requests == []


async def test_a_missing_custom_tool_is_refused_without_force(desk):
    """A missing custom tool is named in the refusal; with force the run resumes and calls of it are errors."""
    first = await desk.ask(LOOKS, ANSWER)
    desk.tools = ()
    words = "uses tools of the program that started it: look; resume it there with Runner(tools=...)"
    await refused(desk, words, question="More?")
    again = await desk.go_on(looks(2), LATER, question="More?", force=True)
    assert again.named("resumed")[0].note.startswith("Of your tools look can no longer be called.\nThe budget was")
    assert again.requests[1].messages[-1].content[0]["content"] == "look failed: this tool is no longer there"
    before, after = ([tool.definition for tool in one.provider.opening.tools] for one in (first, again))
    assert before == after
    # The tool stays known as missing, and a further resume still needs force.
    await refused(desk, words, question="And?")


@pytest.mark.exhaustive
async def test_another_model_needs_force_after_thinking(desk):
    """A history with thinking needs force for another model: the thinking is removed and the model is notified."""
    thinks = Reply(Stop.WANTS_TOOLS, (THOUGHT, *LOOKS.content), Usage(10, 0, 0, 5), "tool_use")
    await desk.ask(thinks, ANSWER)
    other = ScriptedProvider([])
    other.model = "another"
    await refused(
        desk, "contains parts, such as thinking, that only scripted accepts", provider=other, question="More?"
    )
    other = ScriptedProvider([LATER])
    other.model = "another"
    again = await desk.go_on(provider=other, question="More?", force=True)
    assert again.named("resumed")[0].note.startswith("Another model, scripted, did the work above; its thinking was")
    assert "thinking" not in str([message.content for message in other.requests[0].messages[:-1]])
    assert other.requests[0].messages[1].content == LOOKS.content
    # The stored history equals the sent one, so the new model can continue from it.
    third = ScriptedProvider([ANSWER])
    third.model = "another"
    later = await desk.go_on(provider=third, question="And?")
    assert later.outcome.status == "answered"
    assert [message.encoded for message in third.requests[0].messages][:-1] == [
        message.encoded for message in again.run.transcript
    ][:-1]


@pytest.mark.exhaustive
async def test_a_changed_file_needs_force(desk):
    """A changed file needs force; the stored settings still apply, and the model is notified."""
    folder = desk.folder / "specialists"
    folder.mkdir()
    file = folder / "finder.md"
    file.write_text("---\nname: finder\ndescription: Finds.\ntools: []\ntool_calls_limit: 1\n---\nYou find.\n")
    desk.specialist = str(file)
    first = await desk.ask(LOOKS, ANSWER)
    file.write_text(file.read_text().replace("You find.", "You search.").replace("limit: 1", "limit: 9"))
    await refused(desk, f"{file} was changed or deleted since {first.outcome.run_id} began", question="More?")
    again = await desk.go_on(LATER, question="More?", force=True)
    note = again.named("resumed")[0].note
    assert note.startswith(f"{prompts.CHANGED_FILE}\nThe budget was refreshed")
    assert again.provider.opening.system == first.provider.opening.system
    assert again.outcome.tool_calls.limit == 2
    file.unlink()
    await refused(desk, "was changed or deleted since", question="And?")
    assert (await desk.go_on(ANSWER, question="And?", force=True)).outcome.status == "answered"


DOWN = ProviderError("the API is down")


@pytest.mark.exhaustive
@pytest.mark.parametrize("limit", [{"total_tokens_limit": 3_000}, {"cost_limit": 0.035}], ids=str)
async def test_x_14_the_largest_earlier_request_is_reserved_for_the_landing(desk, limit):
    """The landing reserve follows the largest earlier request: the resumed run lands immediately, within its limit."""
    await desk.ask(replace(LOOKS, usage=Usage(1_000, 0, 0, 5)), DOWN)
    again = await desk.go_on(replace(ANSWER, usage=Usage(1_000, 0, 0, 5)), **limit)
    assert [asked.choice for asked in again.requests] == ["respond"]
    assert again.outcome.status == "landed"
    assert again.outcome.warnings == ()


async def test_x_12_the_salvage_includes_text_of_an_earlier_segment(desk):
    """If the API fails again, the salvage includes the model's text and the results of the earlier segment."""
    await desk.ask(replace(LOOKS, content=({"type": "text", "text": "Owls, I think."}, *LOOKS.content)), DOWN)
    again = await desk.go_on(DOWN)
    assert again.outcome.status == "failed"
    assert "Owls, I think." in again.outcome.answer
    assert "note on '1', part 0" in again.outcome.answer
    assert [one.verified for one in again.outcome.evidence] == [True]


async def test_s2_6_a_history_that_is_too_long_is_summarised_before_the_first_request(desk):
    """A history that is too long is summarized before the first request, going by the last reply's token count."""
    large = replace(looks(2), usage=Usage(60_000, 0, 0, 5))
    await desk.ask(LOOKS, large, DOWN)
    again = await desk.go_on(says("notes"), ANSWER, summarize_at=50_000)
    told = [event.event for event in again.events if event.event != "warning"]
    assert told == ["started", "resumed", "summarized", "request", "reply", "finished"]
    assert "SUMMARIZED executionId:'call_1'" in str(again.requests[-1].messages)
    assert again.outcome.usage.input_tokens == 10 + 60_000 + 10 + 10


@pytest.mark.exhaustive
async def test_warnings_about_the_file_stay_in_the_outcome(desk):
    """Warnings about the specialist's file remain in the outcome, though the file is not read again."""
    file = desk.folder / "finder.md"
    file.write_text("---\nname: finder\ndescription: Finds.\ntools: []\nnonsense: 1\n---\nYou find.\n")
    desk.specialist = str(file)
    first = await desk.ask(LOOKS, ANSWER)
    assert any("nonsense" in warning for warning in first.outcome.warnings)
    again = await desk.go_on(ANSWER, question="Sure?")
    assert again.outcome.warnings == first.outcome.warnings
    # The same once more, when the file no longer counts at all.
    assert (await desk.go_on(ANSWER, question="Sure?")).outcome.warnings == first.outcome.warnings
