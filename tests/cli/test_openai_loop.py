"""The preset `openai-loop` on chat completions: a plain tool loop that reports why it ended and how to continue."""

import json

from tests.stderr_lines import lines_before_summary
from tests.wire.chat import policies
from tests.wire.chat.replies import calls, says

MODEL = ("--model", "openai:some-model", "--preset", "openai-loop")
GREP = [calls("grep", {"pattern": word}) for word in ("mice", "winter", "bats")]
REACHED = {"limit_reached": True, "limit_message": "Tool call limit reached (3). Stopping tool loop."}
ANSWER = "Owls eat mice. I stopped at three tool calls; resume or raise the limit for more."


def result(call, content):
    """Return the message with the result of a call."""
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def test_s4_1_tool_choice_is_auto_until_the_limit_and_then_none(chat, write, call):
    """A limit of 3 gives four requests and three results, compared in full; the list of tools never changes."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    simulator = chat([*GREP, says(ANSWER)])
    assert call("finder", "What do owls eat?", *MODEL).stdout == f"{ANSWER}\n"
    assert [sent.tool_choice for sent in simulator.requests] == ["auto", "auto", "auto", "none"]
    first = simulator.requests[0].body
    assert {tool["function"]["name"] for tool in first["tools"]} == {"grep", "respond"}
    varying = {"messages", "tool_choice", "max_completion_tokens"}
    fixed = [{key: value for key, value in sent.body.items() if key not in varying} for sent in simulator.requests]
    assert fixed == fixed[:1] * 4
    system, question = first["messages"]
    assert system["role"] == "system"
    assert "budget" not in system["content"]
    assert question == {"role": "user", "content": "What do owls eat?"}
    made = [message for message in simulator.requests[3].messages if message["role"] == "assistant"]
    (one,), (two,), (three,) = (message["tool_calls"] for message in made)
    nothing = "[no line matches in 3 text files; try ignore_case, a shorter pattern, or search]"
    results = [
        result(one, "notes/owls.md:3: Owls eat mice at night."),
        result(two, "notes/toads.md:3: Toads sleep in winter."),
        result(three, json.dumps({"output": nothing, **REACHED})),
    ]
    whole = [system, question, made[0], results[0], made[1], results[1], made[2], results[2]]
    assert [sent.messages for sent in simulator.requests] == [whole[:2], whole[:4], whole[:6], whole]


def test_s4_2_only_the_last_result_has_the_limit_fields(chat, write, call):
    """Skipped calls of a batch that exceeds the limit say so, and only the last result has the limit fields."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    batch = calls("grep", *({"pattern": word} for word in ("night", "winter", "bats")))
    simulator = chat([GREP[0], batch, says(ANSWER)])
    call("finder", "What?", *MODEL)
    *earlier, last = simulator.requests[-1].results
    skipped = "Not run: limit reached, grep skipped."
    assert json.loads(last) == {"output": skipped, **REACHED}
    owls = "notes/owls.md:3: Owls eat mice at night."
    assert earlier == [owls, owls, "notes/toads.md:3: Toads sleep in winter."]


def test_s4_3_stderr_names_the_limit_and_the_flag_that_raises_it(chat, write, call):
    """The model's answer is on stdout; the limit that was reached and the flag that raises it are on stderr."""
    write("finder", "tool_calls_limit: 3")
    chat(policies.always_tool("grep", answer=ANSWER))
    result = call("finder", "What?", *MODEL)
    assert (result.exit_code, result.stdout) == (0, f"{ANSWER}\n")
    (line,) = lines_before_summary(result.stderr)
    assert line.endswith(": the limit of 3 tool calls was reached; raise it with --tool-calls-limit for a longer run")
