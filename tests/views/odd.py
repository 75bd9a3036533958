"""Runs that are hard to display: odd characters, huge results, duplicate ids, and unfinished runs."""

from dataclasses import replace

from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.record.messages import Message, ToolResult
from run_specialist.record.outcome import Evidence
from run_specialist.store.stored import StoredRun
from tests.views.full import grep, read
from tests.views.recording import Did, Tape

ODD = (
    "</script></pre><script>window.harmed = 1</script><img src=x onerror='window.harmed=1'>{{ 7*7 }}{% raw %} &amp; "
    "\x1b[31mred\x1b[0m \x00 \x07 \x7f \x9b \u202edesrever\u202c \ud83d half \ufeff שלום עולם \U0001f600 ]]>"
)


def odd_run() -> StoredRun:
    """Return a run with hostile text in every field, and a server that repeats one call id."""
    tape = Tape({Kind.TOOL_CALLS: 0}, question=ODD, model=ODD)
    same = [Did(ODD, {ODD: ODD}, f"one {ODD}", call_id="same"), Did("read", {"path": "b"}, "two", call_id="same")]
    tape.turn(ODD, *same)
    tape.turn(
        "",
        Did("read", {"path": "c"}, "three", call_id="same"),
        Did("read", None, "four", is_error=True, call_id="same"),
    )
    outcome = tape.outcome(
        "partial",
        ODD,
        [Evidence(ODD, ODD, verified=True), Evidence("", "", verified=False)],
        gaps=(ODD,),
        warnings=(ODD,),
    )
    run = tape.end(outcome)
    return replace(
        run, specialist=ODD, frozen={"system": ODD, "tools": [ODD, {"name": ODD}], "settings": {ODD: ODD}, "root": ODD}
    )


def huge_run() -> StoredRun:
    """Return a run with a result of a megabyte, and a question of 2,000 words."""
    tape = Tape({}, question="Why? " * 2_000)
    tape.turn("", read("all.txt", "x" * 500_000 + "\n" + "word " * 100_000))
    tape.ask("It is long.", stop="answered")
    return tape.end(tape.outcome("answered", "It is long."))


def interrupted_run() -> StoredRun:
    """Return a run whose process died while two of three calls were running."""
    tape = Tape({Kind.TOOL_CALLS: 10})
    tape.turn("First.", grep("a", "b.py:1: a"))
    three = [read("a.py", "     1\ta"), read("b.py", "     1\tb"), read("c.py", "     1\tc", 0.3)]
    turn = tape.ask("I read three files at once.", three)
    tape.run(three)
    kept = [call for call in tape.calls if call.call.id not in {turn.reply.calls[0].id, turn.reply.calls[2].id}]
    tape.calls[:] = kept
    texts = [prompts.PROCESS_ENDED.format(tool="read"), "     1\tb", prompts.PROCESS_ENDED.format(tool="read")]
    results = [
        ToolResult(call.id, text, is_error=text != texts[1]) for call, text in zip(turn.reply.calls, texts, strict=True)
    ]
    tape.messages[-1] = replace(tape.messages[-1], message=Message.results(results))
    return tape.stored("interrupted")


def pending_run() -> StoredRun:
    """Return a running run with a reply that is not in the transcript yet."""
    tape = Tape({Kind.TIME: 60})
    tape.turn("First.", grep("a", "b.py:1: a"))
    tape.ask("And now:", [read("a.py", "")], entered=False)
    return tape.stored("running")


def empty_run() -> StoredRun:
    """Return a run that has just begun, with only its question stored."""
    run = Tape({}).stored("running")
    return replace(run, frozen={}, snapshot=None, events=(), messages=())


def failed_run() -> StoredRun:
    """Return a failed run with errors only, and without an answer."""
    tape = Tape({Kind.TURNS: 5})
    tape.turn("", grep("a", "grep failed: the search could not be run", is_error=True))
    return tape.end(tape.outcome("failed", "", warnings=("the API answered 529: overloaded",)))


def structured_run() -> StoredRun:
    """Return a run with a structured answer."""
    tape = Tape({Kind.COST: 1.0})
    output = {"files": ["a.py", "b.py"], "sure": True, "note": "</pre>"}
    tape.ask("", [Did("respond", {"answer": output}, "")])
    tape.say(Message.results([ToolResult(tape.turns[0].reply.calls[0].id, prompts.DELIVERED)]))
    return tape.end(tape.outcome("answered", '{"files": []}', output=output))
