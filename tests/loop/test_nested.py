"""Specialists that call each other share one budget, and everything is counted once."""

import asyncio
import re
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError, UsageError
from run_specialist.record.events import BudgetSpent, Called, ChildTold, Finished
from run_specialist.store.reader import Store
from run_specialist.store.writer import Writer
from run_specialist.tools.base import Tool
from tests.journals import Notebook, keep
from tests.loop.replies import answers, asks, looks_for
from tests.loop_jobs import LOOK, results
from tests.scripted_provider import calls
from tests.scripted_specialists import ScriptedSpecialists, write


async def test_x_11_usage_and_cost_are_counted_once(run_lead, files):
    """Of four requests two are the child's: they count in the total once and are listed under `children`."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[looks_for("owls"), answers("mice")]])
    outcome, events = await run_lead(cast)
    (child,) = outcome.children
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (40, 20)
    assert (child.usage.input_tokens, child.usage.output_tokens) == (20, 10)
    assert (outcome.cost_usd, child.cost_usd) == (pytest.approx(0.0006), pytest.approx(0.0003))
    assert (child.specialist, child.status, child.tool_calls, child.children) == ("finder", "answered", 1, ())
    (told,) = (event for event in events if isinstance(event, ChildTold) and isinstance(event.told, Finished))
    assert told.run_id == child.run_id == told.told.outcome.run_id
    assert outcome.as_json()["children"][0]["usage"]["input_tokens"] == 20


async def test_x_11_the_calls_of_a_child_are_limited_by_the_parents_remainder(run_lead, files):
    """With 4 calls, the parent uses one to delegate; the child, whose limit is 6, gets 3, and both land."""
    files(lead=["tool_calls_limit: 4"])
    child = [looks_for("a", "b", first_id=1), looks_for("c", first_id=3), answers("some")]
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[child])
    outcome, _ = await run_lead(cast)
    finder, lead = cast.played["finder"][0], cast.played["lead"][0]
    assert [result.rsplit("\n", 1)[-1] for result in results(finder.requests[1].messages[-1])] == [
        "note on 'a', part 0",
        "1 tool call remaining",
    ]
    assert results(finder.requests[2].messages[-1])[-1].endswith("0 tool calls remaining")
    assert results(lead.requests[1].messages[-1])[-1].endswith("0 tool calls remaining")
    assert (outcome.tool_calls.used, outcome.status, outcome.children[0].status) == (4, "landed", "landed")


async def test_x_11_parallel_children_share_the_remaining_calls(run_lead, tmp_path):
    """Three parallel children each get a third of the remaining calls, and the limit is not exceeded."""
    write(tmp_path, "lead", "agents: [one, two, three]", "tool_calls_limit: 9")
    greedy = [looks_for(*"abcdefgh"), answers("some")]
    for name in ("one", "two", "three"):
        write(tmp_path, name, "tool_calls_limit: 8")
    ran = []

    async def look(query: str) -> str:
        ran.append(query)
        await asyncio.sleep(0)
        return query

    cast = ScriptedSpecialists(
        lead=[[asks("one", "two", "three"), answers("all")]], one=[greedy], two=[greedy], three=[greedy]
    )
    outcome, _ = await run_lead(cast, tools=[Tool("look", "Look.", look)])
    assert sorted(ran) == sorted("ab" * 3)
    assert (outcome.tool_calls.used, [child.tool_calls for child in outcome.children]) == (9, [2, 2, 2])


async def test_x_11_a_child_is_budgeted_at_the_price_of_its_own_model(tmp_path, monkeypatch):
    """A child's budget is checked at its own model's price: a cheap child runs where its parent could not."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "cost_limit: 0.5", "model: opus")
    write(tmp_path, "finder", "model: haiku")
    dear = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]])
    cheap = ScriptedSpecialists(finder=[[answers("mice")]])
    dear.cost = lambda usage: usage.output_tokens / 60_000 + usage.input_tokens / 20_000
    cheap.cost = lambda usage: usage.total_tokens / 1_000_000
    monkeypatch.setattr("run_specialist.providers.choose.make_provider", {"opus": dear, "haiku": cheap}.__getitem__)
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    assert [child.specialist for child in outcome.children] == ["finder"], dear.played["lead"][0].requests[-1].messages


async def test_x_11_unused_calls_of_a_child_return_to_the_parent(run_lead, files):
    """A child that gets 6 of 9 calls and uses 1 returns the rest, so that the second child gets its full 6."""
    files()
    six = [looks_for(*"abcdef"), answers("more")]
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), asks("finder", first_id=2), answers("all")]],
        finder=[[looks_for("a"), answers("some")], six],
    )
    outcome, _ = await run_lead(cast)
    assert [child.tool_calls for child in outcome.children] == [1, 6]
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (9, 0)


async def test_x_11_a_child_without_remaining_budget_is_not_started(run_lead, files):
    """If the parent's last call delegates, no budget is left: the result says so and the child sends no request."""
    files(lead=["tool_calls_limit: 1"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[])
    outcome, _ = await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[1].messages[-1])
    assert told.startswith("finder could not be asked: of the tool calls nothing is left that it could use")
    assert (outcome.tool_calls.used, outcome.tool_calls.failed, outcome.children) == (1, 1, ())


@pytest.mark.parametrize(("limit", "words"), [("total_tokens_limit: 10000", "tokens"), ("cost_limit: 0.1", "cost")])
async def test_x_11_parallel_children_start_only_within_the_remaining_budget(run_lead, files, limit, words):
    """Only as many parallel children start as the remaining tokens or cost allow; the others are error results."""
    files(lead=["tool_calls_limit: 40", "parallel_tools_limit: 8", limit])
    cast = ScriptedSpecialists(lead=[[asks(*["finder"] * 8), answers("all")]], finder=[[answers("mice")]] * 2)
    outcome, events = await run_lead(cast)
    begun = [event.told for event in events if isinstance(event, ChildTold) and event.told.event == "started"]
    assert sum(one.limits["tokens"] or one.limits["cost"] * 100_000 for one in begun) <= 10_000
    assert (len(outcome.children), outcome.tool_calls.failed) == (2, 6)
    told = results(cast.played["lead"][0].requests[1].messages[-1])
    assert f"of the {words} nothing is left that it could use" in str(told)


async def test_x_11_the_time_of_a_child_ends_before_the_parents(run_lead, files):
    """A child's time limit ends before its parent's landing, whatever its own limit and `tool_timeout`."""
    files(lead=["time_limit: 100", "tool_timeout: 5"], finder=["time_limit: 500"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    _, events = await run_lead(cast)
    (begun,) = (event.told for event in events if isinstance(event, ChildTold) and event.told.event == "started")
    assert 60 < begun.limits["time"] < 90 / 1.1


async def test_s3_5_a_child_has_no_delegate_tool_unless_its_file_lists_agents(run_lead, files, tmp_path):
    """Permission to delegate is not inherited: a child gets `delegate` only for the `agents` in its own file."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    await run_lead(cast)
    assert "delegate" in cast.played["lead"][0].opening.tools
    assert "delegate" not in cast.played["finder"][0].opening.tools
    files(finder=["agents: [deep]"])
    write(tmp_path, "deep")
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    await run_lead(cast)
    schema = cast.played["finder"][0].opening.tools.get("delegate").input_schema
    assert schema["properties"]["specialist"] == {"const": "deep", "description": "Which specialist to ask."} | {
        key: value for key, value in schema["properties"]["specialist"].items() if key in {"title", "type"}
    }


async def test_a_quote_from_a_child_is_verified_only_if_the_child_has_read_it(run_lead, files):
    """A child's quote is verified only if it appears in a tool result that the child has read."""
    files()
    quoted = [{"source": "look", "quote": "note on 'owls', part 0"}, {"source": "nowhere", "quote": "Owls eat cheese."}]
    child = [looks_for("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": quoted}), first_id=90)]
    said = [*quoted, {"source": "finder", "quote": "Owls eat mice."}]
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), calls(("respond", {"answer": "all", "evidence": said}), first_id=90)]], finder=[child]
    )
    outcome, _ = await run_lead(cast)
    assert [quote.verified for quote in outcome.evidence] == [True, False, False]
    assert [quote.verified for quote in outcome.children[0].evidence] == [True, False]


async def test_a_failed_child_becomes_an_error_result(run_lead, files):
    """A child whose provider fails becomes an error result; its spending is counted and the parent answers."""
    files()
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), answers("all")]], finder=[[looks_for("a"), ProviderError("the server is gone")]]
    )
    outcome, _ = await run_lead(cast)
    (block,) = cast.played["lead"][0].requests[1].messages[-1].content
    assert block["is_error"]
    assert "the server is gone" in block["content"]
    assert "note on 'a'" in block["content"]
    assert (outcome.status, outcome.tool_calls.used, outcome.tool_calls.failed) == ("answered", 2, 1)


async def test_an_abort_keeps_the_results_of_the_child(files, tmp_path, monkeypatch):
    """After an abort the child's calls are counted and its results are part of the parent's salvage."""
    files()
    monkeypatch.chdir(tmp_path)
    begun, never = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "for ever":
            begun.set()
            await never.wait()
        return f"note on {query}"

    cast = ScriptedSpecialists(lead=[[asks("finder")]], finder=[[looks_for("owls"), looks_for("for ever", first_id=2)]])
    async with Runner(provider=cast, tools=[Tool("look", "Look.", look)]) as runner:
        run = await runner.prepare("lead", "What is known?")
        task = asyncio.create_task(run.outcome())
        await begun.wait()
        run.abort()
        outcome = await task
    (child,) = outcome.children
    assert (outcome.status, child.status, child.tool_calls, outcome.tool_calls.used) == ("aborted", "aborted", 2, 3)
    assert "note on owls" in outcome.answer
    assert outcome.usage.input_tokens == 30


async def test_child_events_reach_the_parents_listener_wrapped(run_lead, files):
    """The parent's listener receives the child's events wrapped, between start and end of the delegate call."""
    files()
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[looks_for("owls"), answers("mice")]])
    _, events = await run_lead(cast)
    names = [f"{event.event}/{event.told.event}" if isinstance(event, ChildTold) else event.event for event in events]
    begin = next(i for i, event in enumerate(events) if isinstance(event, Called) and event.phase == "started")
    end = next(i for i, event in enumerate(events) if isinstance(event, Called) and event.phase == "finished")
    inside = [name for name in names if name.startswith("child/")]
    assert names[begin + 1 : end] == inside
    assert (inside[0], inside[-1]) == ("child/started", "child/finished")
    spent = [event.used for event in events if isinstance(event, BudgetSpent)]
    assert spent == [2]
    assert all(isinstance(event.as_json()["told"], dict) for event in events if isinstance(event, ChildTold))


async def test_a_child_without_a_model_uses_its_parents(tmp_path, monkeypatch):
    """A child without a model uses its parent's provider; one that names a model gets its own, created once."""
    made = []

    def make(model):
        cast = ScriptedSpecialists(
            lead=[[asks("finder", "other"), answers("all")]], finder=[[answers("mice")]], other=[[answers("rats")]]
        )
        made.append(model)
        return cast

    monkeypatch.setattr("run_specialist.providers.choose.make_provider", make)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder, other]", "model: opus")
    write(tmp_path, "finder")
    write(tmp_path, "other", "model: haiku")
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    assert (made, outcome.answer, len(outcome.children)) == (["opus", "haiku"], "all", 2)


async def test_g_5_verified_quotes_of_a_child_count_for_its_parent(run_lead, files):
    """A parent that requires quotes may rest on what its child has read, and on nothing else of the child."""
    files(lead=["evidence: require"])
    quote = {"source": "look", "quote": "note on 'owls', part 0"}
    child = [looks_for("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": [quote]}), first_id=90)]
    said = calls(("respond", {"answer": "all", "evidence": [{"source": "finder", "quote": "Owls eat mice."}]}))
    good = calls(("respond", {"answer": "all", "evidence": [quote]}), first_id=90)
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), replace(said, content=({**said.content[0], "id": "r1"},)), good]], finder=[child]
    )
    outcome, _ = await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[2].messages[-1])
    assert '"Owls eat mice."' in told
    assert (outcome.status, outcome.warnings) == ("answered", ())


async def test_g_4_specialists_asked_beside_an_answer_are_asked_first(run_lead, files):
    """A `delegate` call beside `respond` runs its child, whose quotes the next answer may use."""
    files()
    quote = {"source": "look", "quote": "note on 'owls', part 0"}
    respond = ("respond", {"answer": "early", "evidence": [quote]})
    both = calls(("delegate", {"specialist": "finder", "query": "What of owls?"}), respond)
    child = [looks_for("owls"), calls(("respond", {"answer": "Owls eat mice.", "evidence": [quote]}), first_id=90)]
    good = calls(("respond", {"answer": "late", "evidence": [quote]}), first_id=90)
    outcome, _ = await run_lead(ScriptedSpecialists(lead=[[both, good]], finder=[child]))
    assert (outcome.answer, outcome.tool_calls.used, len(outcome.children)) == ("late", 2, 1)
    assert [one.verified for one in outcome.evidence] == [True]


async def test_g_5_a_parent_reads_which_quotes_of_its_child_were_not_found(run_lead, files):
    """The result of `delegate` names them."""
    files()
    invented = {"source": "nowhere", "quote": "Owls eat cheese."}
    child = [looks_for("owls"), calls(("respond", {"answer": "cheese", "evidence": [invented]}), first_id=90)]
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[child])
    await run_lead(cast)
    (told,) = results(cast.played["lead"][0].requests[1].messages[-1])
    assert '[0 of 1 quotes found in what it read. Do not rely on: "Owls eat cheese."]' in told


@pytest.mark.exhaustive
async def test_x_11_a_resumed_parent_keeps_its_children(store):
    """A resumed parent counts its first child once, and sends an identical `delegate` definition."""
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("some")]], finder=[[looks_for("owls"), answers("mice")]])
    async with Runner(provider=cast, tools=[LOOK], store=store) as runner:
        first = await runner.run("lead", "What is known?")
    again = calls(("delegate", {"specialist": "finder", "query": "And bats?"}), first_id=20)
    more = ScriptedSpecialists(lead=[[again, answers("all")]], finder=[[answers("moths")]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        run = await runner.resume(first.run_id, "And bats?")
        outcome = await run.outcome()
    before, after = (one.played["lead"][0].opening.tools.get("delegate").definition for one in (cast, more))
    assert before == after
    assert [child.tool_calls for child in outcome.children] == [1, 0]
    assert (outcome.tool_calls.used, outcome.usage.input_tokens) == (3, 70)


@pytest.mark.exhaustive
async def test_a_resumed_child_works_in_the_root_of_its_parent(store, tmp_path):
    """A resumed run and its child work in the run's own root, even if the new runner has another root."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "owls.md").write_text("Owls eat mice.\n")
    write(tmp_path, "finder", "tools: [read]")
    first = ScriptedSpecialists(lead=[[answers("nothing yet")]])
    async with Runner(provider=first, root=notes, store=store) as runner:
        begun = await runner.run("lead", "What is known?")
    reads = calls(("read", {"path": "owls.md"}))
    more = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[reads, answers("mice")]])
    async with Runner(provider=more, root=tmp_path, store=store) as runner:
        outcome = await (await runner.resume(begun.run_id, "What of owls?")).outcome()
    assert [child.status for child in outcome.children] == ["answered"]
    assert "Owls eat mice." in results(more.played["finder"][0].requests[1].messages[-1])[0]
    with Store(store) as kept:
        assert kept.load(outcome.children[0].run_id).frozen["root"] == str(notes)


@pytest.mark.exhaustive
async def test_a_run_resumed_from_another_project_calls_its_own_specialists(store, tmp_path, monkeypatch):
    """A run resumed from another project calls its own project's specialists; the `delegate` tool is identical."""
    (tmp_path / ".git").mkdir()
    first = ScriptedSpecialists(lead=[[answers("nothing yet")]])
    async with Runner(provider=first, store=store) as runner:
        begun = await runner.run("lead", "What is known?")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    write(elsewhere, "finder", "tool_calls_limit: 0")
    monkeypatch.chdir(elsewhere)
    more = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    async with Runner(root=tmp_path, provider=more, store=store) as runner:
        outcome = await (await runner.resume(begun.run_id, "What of owls?")).outcome()
    assert ([child.status for child in outcome.children], outcome.warnings) == (["answered"], ())
    before, after = (one.played["lead"][0].opening.tools.get("delegate").definition for one in (first, more))
    assert before == after


@pytest.mark.exhaustive
async def test_a_run_whose_resume_was_cancelled_can_be_resumed_again(store, monkeypatch):
    """A resume that was cancelled ends the run as aborted, so that the same process can resume it again."""
    cast = ScriptedSpecialists(lead=[[answers("some")], [], [answers("all")]])
    claim, loop = Writer.claim, asyncio.get_running_loop()

    async with Runner(provider=cast, store=store) as runner:
        first = await runner.run("lead", "What is known?")

        async def go_on():
            return await (await runner.resume(first.run_id, "And bats?")).outcome()

        task = asyncio.create_task(go_on())

        def slowly(writer, run):
            loop.call_soon_threadsafe(task.cancel)
            return claim(writer, run)

        with monkeypatch.context() as patched:
            patched.setattr(Writer, "claim", slowly)
            with pytest.raises(asyncio.CancelledError):
                await task
        again = await (await runner.resume(first.run_id, "And bats?")).outcome()
    assert again.answer == "all"


@pytest.mark.exhaustive
@pytest.mark.parametrize("shared", [True, False])
async def test_x_11_calls_of_two_killed_levels_are_counted_on_resume(store, tmp_path, monkeypatch, shared):
    """If two nested levels were killed during a call, the replies and started calls of both count on resuming."""
    switch = f"share_budget: {str(shared).lower()}"
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 20", switch)
    write(tmp_path, "finder", "agents: [deep]", switch)
    write(tmp_path, "deep")
    notebooks: dict[str, Notebook] = {}
    kept: list[list] = []

    async def journal(run_id):
        return notebooks.setdefault(run_id, Notebook())

    def look(query: str) -> str:
        if query == "bats":
            kept.extend([*notebook.records] for notebook in notebooks.values())
        return f"note on {query}"

    deeper = calls(("delegate", {"specialist": "deep", "query": "What of bats?"}), first_id=2)
    last = calls(("look", {"query": "owls"}), ("look", {"query": "bats"}), first_id=2)
    cast = ScriptedSpecialists(
        lead=[[asks("finder"), answers("all")]],
        finder=[[looks_for("owls"), deeper, answers("a")]],
        deep=[[looks_for("owls"), last, answers("b")]],
    )
    async with Runner(provider=cast, tools=[Tool("look", "Look.", look)]) as runner:
        monkeypatch.setattr(runner.environments.store, "journal", journal)
        run = await runner.prepare("lead", "What is known?")
        await run.outcome()
    for records in kept:
        await keep(store, records)
    more = ScriptedSpecialists(lead=[[answers("all")]])
    async with Runner(provider=more, tools=[LOOK], store=store) as runner:
        outcome = await (await runner.resume(run.run_id)).outcome()
    (finder,) = outcome.children
    (deep,) = finder.children
    assert [one.usage.input_tokens for one in (deep, finder, outcome)] == [20, 40, 60]
    assert deep.cost_usd == pytest.approx(0.0003)
    assert [deep.tool_calls, finder.tool_calls, outcome.tool_calls.used] == ([3, 5, 6] if shared else [3, 2, 1])


# Children that cannot work: not offered to the parent's model, and refused if they need a model.
UNJUDGED = "no model judged: this ran offline, by ranked search and verbatim quotes"


def offered(cast) -> list[str]:
    """Return the specialists that `delegate` offered to `lead`; empty without the tool."""
    tool = cast.played["lead"][0].opening.tools.get("delegate")
    return [] if tool is None else re.findall(r"^- (\w+): ", tool.definition["description"], re.MULTILINE)


async def test_a_child_without_files_is_not_offered(run_lead, files, tmp_path):
    """A child whose `paths` match nothing is not offered, and a warning says why; the next run sees its folder."""
    files(lead=["agents: [finder, other]"])
    write(tmp_path, "lead", "agents: [finder, other]")
    write(tmp_path, "other", "paths: [notes/]")
    cast = ScriptedSpecialists(lead=[[answers("all")]])
    outcome, _ = await run_lead(cast)
    assert offered(cast) == ["finder"]
    (warning,) = [one for one in outcome.warnings if "agents" in one]
    assert warning.endswith(f": agents: other cannot work here: no file under {tmp_path} matches notes/")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Here.\n")
    cast = ScriptedSpecialists(lead=[[answers("all")]])
    outcome, _ = await run_lead(cast)
    assert offered(cast) == ["finder", "other"]
    assert not [one for one in outcome.warnings if "agents" in one]


async def test_a_judgement_inherits_the_model(run_lead, files):
    """A child with `offline: refuse` that inherits its parent's model is offered, and answers."""
    files(finder=["offline: refuse"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    outcome, _ = await run_lead(cast)
    assert (offered(cast), outcome.warnings) == (["finder"], ())


@pytest.fixture
def with_model(monkeypatch):
    """Return a function that gives every model but `offline` to a cast."""
    from run_specialist.providers.choose import make_provider

    def give(cast):
        def make(model):
            return make_provider(model) if model == "offline" else cast

        monkeypatch.setattr("run_specialist.providers.choose.make_provider", make)

    return give


async def test_an_offline_child_is_said_to_be_one(files, with_model, tmp_path, monkeypatch):
    """The parent's model reads in the first line of the result that no model judged the child's answer."""
    monkeypatch.chdir(tmp_path)
    files(lead=["model: opus"], finder=["model: offline"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]])
    with_model(cast)
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    request = cast.played["lead"][0].requests[1]
    head = request.messages[-1].content[0]["content"].partition("\n")[0]
    assert head.startswith("[finder: partial after ")
    assert head.endswith(", offline: no model judged]")
    assert (outcome.model, UNJUDGED in outcome.warnings) == ("scripted", False)


@pytest.mark.parametrize(("lines", "rule"), [(["offline: refuse"], None), ([], True)])
async def test_an_offline_child_is_not_asked_where_a_model_is_needed(
    files, with_model, tmp_path, monkeypatch, lines, rule
):
    """A child that names `offline` is not offered if its file refuses that, or if all runs require a model."""
    monkeypatch.chdir(tmp_path)
    files(lead=["model: opus"], finder=["model: offline", *lines])
    cast = ScriptedSpecialists(lead=[[answers("alone")]])
    with_model(cast)
    async with Runner(require_model=rule) as runner:
        outcome = await runner.run("lead", "What is known?")
    assert offered(cast) == []
    (warning,) = outcome.warnings
    assert "agents: finder cannot work here: " in warning
    assert warning.endswith("the model in its file is offline; name another one, e.g. sonnet, openai:ID or ollama:NAME")


@pytest.mark.parametrize(("given", "variable", "refuses"), [(True, "", True), (None, "1", True), (False, "1", False)])
async def test_the_argument_of_the_runner_overrides_the_variable(
    files, tmp_path, monkeypatch, given, variable, refuses
):
    """`require_model` is as the variable says unless it is given; before an error nothing is stored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", variable)
    files()
    async with Runner(require_model=given, store=tmp_path / "runs.db") as runner:
        if refuses:
            with pytest.raises(UsageError, match=r"a model is required.*, but no model is configured; set "):
                await runner.run("finder", "What is known?")
            assert not (tmp_path / "runs.db").exists()
        else:
            assert (await runner.run("finder", "What is known?")).warnings[0] == UNJUDGED
