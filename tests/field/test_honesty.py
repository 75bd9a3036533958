"""An outcome says what happened. Each test begins with the thread that it answers."""

import json

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner
from run_specialist.loop.evidence import NOTHING_READ
from tests.loop.replies import answers as scripted_answers
from tests.loop.replies import looks
from tests.loop_jobs import LOOK
from tests.scripted_provider import ScriptedProvider
from tests.wire.serving import serving, write_specialist
from tests.wire.simulator import policies
from tests.wire.simulator.replies import answers, calls

SHAPE = {"type": "object", "properties": {"prey": {"type": "string"}}, "required": ["prey"]}
OLD, NEW = "Stack: Python 3.11", "Stack: Python 3.14"


def test_a_limit_is_not_told_as_disobedience(api, write, call):
    """anthropics/claude-code#80848: at `maxTurns` the error was that the agent had not called StructuredOutput.

    Nothing named the limit. Here the line and the outcome name it, also if the model never gives an answer in shape.
    """
    write("implementer", "turns_limit: 3", f"output_schema: {json.dumps(SHAPE)}")
    api(policies.ignores_everything("search"))
    result = call("implementer", "What do owls eat?", "--model", "haiku", "--json")
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["status"], outcome["output"]) == (0, "partial", None)
    assert outcome["landing"]["reason"] == "turns"
    assert "no answer at the limit of 3 turns" in str(outcome["warnings"])


async def test_a_limit_is_not_told_as_success(project):
    """google-gemini/gemini-cli#22323: an investigator out of turns was "success" with the reason "GOAL".

    Here the status is `landed`, never `answered`, and the first line that the parent reads names the limit.
    """
    write_specialist(project, "codebase-investigator", "tools: []", "turns_limit: 2")
    script = [looks(1), scripted_answers("Interrupted before anything was analyzed.")]
    async with serving(script, tools=[LOOK]) as served:
        result = await served.call("codebase-investigator", query="Understand the architecture.")
    outcome, text = result.structured_content, result.content[0].text
    assert (outcome["status"], outcome["landing"]["reason"]) == ("landed", "turns")
    assert text.startswith("[codebase-investigator: landed after 1 of 30 tool calls, at its limit of turns]\n\nInterr")


async def test_a_report_without_reading_shows_that_nothing_was_read(project):
    """anthropics/claude-code#70581: a detailed report with paths and a table came after no tool call at all.

    Here the parent reads `after 0 of 30 tool calls`, the outcome has a warning, and `evidence: require` returns the
    report to the model once; then it is partial.
    """
    write_specialist(project, "architect", "tools: read")
    report = scripted_answers("There is no legacy theme.js.")
    async with delegate_tool("architect", runner=Runner(provider=ScriptedProvider([report]))) as delegate:
        told = await delegate({"specialist": "architect", "query": "Which theme does each screen import?"})
    assert told.text.startswith("[architect: answered after 0 of 30 tool calls]")
    assert NOTHING_READ in told.outcome.warnings
    strict = Runner(provider=ScriptedProvider([report, scripted_answers("There is none.", first_id=91)]))
    async with delegate_tool("architect", runner=strict, evidence="require") as delegate:
        told = await delegate({"specialist": "architect", "query": "Which theme does each screen import?"})
    assert told.text.startswith("[architect: partial after 0 of 30 tool calls]")


def test_a_quote_that_the_file_does_not_have_is_marked(api, write, call, notes):
    """anthropics/claude-code#88987: asked for a line verbatim, an agent gave the line as it was before an edit.

    Here a quote counts only if the run has read it; of a quote by reference the program itself fills in the line.
    """
    (notes / "notes/guide.md").write_text(f"# Guide\n\n{NEW}\n")
    write("checker", "tools: read")
    quotes = [{"source": "notes/guide.md:3", "quote": OLD}, {"source": "notes/guide.md:3"}]
    api([calls("read", {"path": "notes/guide.md"}), answers("Verbatim.", evidence=quotes)])
    result = call("checker", "Which line begins with Stack:?", "--model", "haiku", "--json")
    outcome = json.loads(result.stdout)
    assert [(one["quote"], one["verified"]) for one in outcome["evidence"]] == [(OLD, False), (NEW, True)]
    assert OLD in str(outcome["warnings"])
