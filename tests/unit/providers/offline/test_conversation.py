"""The offline provider in a run: its turns, its limits, and its reaction to a landing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.offline import OfflineProvider
from run_specialist.providers.offline_text import code_units, defined
from run_specialist.record.messages import Message, Stop, ToolResult
from run_specialist.tools.base import Toolset
from run_specialist.tools.files import file_tools
from run_specialist.tools.respond import respond_tool
from tests.plugins.tiers import examples
from tests.unit.providers.offline.code_project import GATEWAY, LOOP

QUESTION = "Why was the cache removed, and which PostgreSQL version do we use?"


def opened(root, watch=None):
    """Open a conversation with all tools."""
    return OfflineProvider().open(Opening("", Toolset([*file_tools(root), respond_tool()])), watch)


def turn(call_id: str, name: str, arguments: dict, result: str, *, failed: bool = False) -> list[Message]:
    """Return the two messages of one call and its result."""
    call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return [Message("assistant", (call,)), Message.results([ToolResult(call_id, result, is_error=failed)])]


async def test_the_provider_searches_first_and_never_repeats_a_call(ask):
    """The first call is a search for the question, no call is repeated, and all ids differ."""
    finished = await ask(QUESTION)
    assert finished.calls[0].name == "search"
    assert finished.calls[0].arguments["query"] == QUESTION
    assert len({call.key for call in finished.calls}) == len(finished.calls)
    ids = [call.id for call in finished.calls]
    assert len(set(ids)) == len(ids)
    assert ids[0] == "toolu_offline_0001"


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_at_the_limit_respond_uses_the_quotes_found_so_far(ask, limit):
    """At the limit the provider calls `respond` immediately, with the quotes found so far."""
    finished = await ask(QUESTION, limit=limit)
    assert finished.outcome.tool_calls.used == limit
    assert "stale entries" in finished.outcome.answer


@pytest.mark.parametrize("choice", [Choice.RESPOND, Choice.NONE])
async def test_at_the_start_the_reply_follows_the_tool_choice(root, choice):
    """At the very start, with nothing gathered, the reply follows the tool choice."""
    reply = await opened(root).ask(Request([Message.user(QUESTION)], choice, 4096))
    assert [call.name for call in reply.calls] == (["respond"] if choice is Choice.RESPOND else [])
    assert bool(reply.text) == (choice is Choice.NONE)
    assert reply.stop is (Stop.WANTS_TOOLS if choice is Choice.RESPOND else Stop.ANSWERED)
    assert reply.usage.total_tokens == 0


@pytest.mark.parametrize(
    "order",
    [
        "0 tool calls remain and only a call of `respond` will be heard.",
        "The limit of this task is reached. Answer directly now, from what is here, without more tool calls.",
        "Own words of whoever wrote the specialist.",
    ],
)
async def test_a_landing_instruction_in_the_last_result_is_followed(root, order):
    """After any instruction in the last result `respond` is called, and the instruction is not quoted."""
    found = "notes/cache.md:7: - The cache was removed because of stale entries."
    *earlier, last = [Message.user("Why was the cache removed?"), *turn("1", "search", {"query": "x"}, found)]
    reply = await opened(root).ask(Request([*earlier, last.with_instruction(order)], Choice.AUTO, 4096))
    (call,) = reply.calls
    assert call.name == "respond"
    assert "stale entries" in call.arguments["answer"]
    assert order not in str(call.arguments)


async def test_a_landing_instruction_below_the_question_is_not_part_of_it(root):
    """With a limit of 0 the instruction below the question is followed and is not taken for part of the question."""
    message = Message.user("Why was the cache removed?").with_instruction("0 tool calls remain.")
    (call,) = (await opened(root).ask(Request([message], Choice.AUTO, 4096))).calls
    assert call.name == "respond"
    assert call.arguments["gaps"] == ["Why was the cache removed?"]


@pytest.mark.parametrize(
    "question", ["Why is the exit code 0 when a limit was reached?", "Does it say 0 tool calls remaining at the end?"]
)
async def test_limits_mentioned_in_a_question_are_no_instruction(root, question):
    """A question that mentions limits is searched for like any other."""
    (call, *_) = (await opened(root).ask(Request([Message.user(question)], Choice.AUTO, 4096))).calls
    assert call.name == "search"


async def test_a_resumed_run_continues_to_search(root):
    """A new user message after an instruction cancels it, since the budget has been refreshed."""
    messages = [
        Message.user("Why was the cache removed?"),
        *turn("1", "search", {"query": "x"}, "notes/cache.md:3: The cache.\n0 tool calls remaining"),
        *turn("2", "respond", {"answer": "x"}, "Delivered."),
        Message.user("The budget is refreshed; go on."),
    ]
    assert (await opened(root).ask(Request(messages, Choice.AUTO, 4096))).calls[0].name != "respond"


async def test_countdown_lines_and_notices_are_never_quoted(root):
    """Countdown lines and notices in brackets are never quoted."""
    found = (
        "notes/cache.md:7: The cache was removed because of stale entries.\n[passages per word: cache 3, removed 1]\n"
        "[You made this very call before; the cache was removed because of this.]\n3 tool calls remaining"
    )
    messages = [Message.user("Why was the cache removed?"), *turn("1", "search", {"query": "x"}, found)]
    (call,) = (await opened(root).ask(Request(messages, Choice.RESPOND, 4096))).calls
    assert [item["quote"] for item in call.arguments["evidence"]] == ["The cache was removed because of stale entries."]


@pytest.mark.exhaustive
async def test_the_same_transcript_gets_the_same_reply(ask, root):
    """The reply depends only on the transcript: another conversation gives the same one."""
    finished = await ask(QUESTION)
    replies = [await opened(root).ask(Request(finished.messages, Choice.AUTO, 4096)) for _ in range(2)]
    assert replies[0] == replies[1]


WORDS = st.sampled_from(
    ["cache", "removed", "because", "PostgreSQL", "16", "the", "x.md", "…", '"', "a_b", "12 ms", "|", "-", "##", "```"]
)
LINE = st.one_of(
    st.lists(WORDS, max_size=12).map(" ".join),
    st.builds(
        "{}:{}: {}".format,
        st.sampled_from(["a.md", "b c.md", "d/" + "e" * 300]),
        st.integers(0, 9),
        st.text(max_size=700),
    ),
    st.builds("{:>6}\t{}".format, st.integers(0, 9), st.lists(WORDS, max_size=200).map(" ".join)),
    st.text(max_size=30),
    st.just("[passages per word: cache 3, x]"),
    st.just("[in no file: Zookeeper, …]"),
    st.just("0 tool calls remaining"),
)
CALL = st.tuples(
    st.sampled_from(["search", "grep", "read", "glob", "ls", "other"]),
    st.sampled_from([{}, {"path": "a.md"}, {"path": 3, "offset": "x", "limit": None}, {"pattern": "cache"}, None]),
    st.lists(LINE, max_size=12).map("\n".join),
    st.booleans(),
)


@pytest.mark.exhaustive
@settings(max_examples=examples(100))
@given(
    st.text(max_size=60) | st.lists(WORDS, max_size=8).map(" ".join),
    st.lists(CALL, max_size=6),
    st.sampled_from(Choice),
)
async def test_any_transcript_gets_a_bounded_reply(question, calls, choice):
    """For any transcript the reply has a bounded answer and number of quotes, and each quote is in a result."""
    tools = Toolset([*file_tools("."), respond_tool()])
    messages = [Message.user(question)]
    for number, (name, arguments, result, failed) in enumerate(calls):
        messages += turn(str(number), name, arguments, result, failed=failed)
    reply = await OfflineProvider().open(Opening("", tools)).ask(Request(messages, choice, 4096))
    assert reply.text or reply.calls
    results = "\n".join(result for _, _, result, _ in calls)
    plain = "\n".join(line.split("\t")[-1].split(": ", 1)[-1] for line in results.split("\n"))
    for call in reply.calls:
        if call.name == "respond":
            assert call.arguments["answer"].strip()
            assert len(call.arguments["answer"]) <= 1500
            assert len(call.arguments["evidence"]) <= 8
            for item in call.arguments["evidence"]:
                assert 0 < len(item["quote"]) <= 400
                assert all(part.strip() in plain for part in item["quote"].split("\n"))


PIECES = [
    *("def f(x):", "class A:", '"""', "# c", "// c", "/*", "*/", "}", "{", "x = 1", "const a = () => {", "'''", "é", "")
]


def blocks_of(path, text):
    """Return the blocks of a file that was seen as a whole."""
    return list(code_units(path, tuple((number, line, 1) for number, line in enumerate(text.split("\n"), 1))))


@pytest.mark.parametrize(
    ("line", "suffix", "name"),
    [
        ("def retry(self):", ".py", "retry"),
        ("  def self.charge(card)", ".rb", "charge"),
        ("\tprivate async _onRetry(error: Error): Promise<void> {", ".ts", "_onRetry"),
        ("const delay: Returns<F, number> = ({", ".ts", "delay"),
        ("View.prototype.lookup = function lookup(name) {", ".js", "lookup"),
        ("func (s *Server) Close() error {", ".go", "Close"),
        ("    pub(crate) fn parse<T>(input: T) -> Option<T> {", ".rs", "parse"),
        ("    public static List<String> names(int most) throws IOException {", ".java", "names"),
        ("static int *find_slot(struct table *t, int key) {", ".c", "find_slot"),
    ],
)
def test_a_definition_is_recognized(line, suffix, name):
    """The name is found in the lines that begin a function, a method or a class."""
    assert defined(line, suffix) == name


@pytest.mark.parametrize(
    ("line", "suffix"),
    [
        ("x = retry(3)", ".py"),
        ("  if (now > then) {", ".js"),
        ("  const total = sum(items);", ".js"),
        ("  items.forEach(item => {", ".js"),
        ("", ".ts"),
    ],
)
def test_other_lines_define_nothing(line, suffix):
    """Calls, conditions and values are not definitions."""
    assert defined(line, suffix) is None


def test_a_body_is_apart_from_its_docstring():
    """The statements of a method are one block, with the names around them and the docstring beside them."""
    block = next(block for block in blocks_of("gateway.py", GATEWAY) if block.text == LOOP)
    assert (block.headings, block.is_comment) == (("Gateway", "charge_with_retries"), False)
    assert block.start == 26
    assert "with the same key" in block.around


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["", "    ", "\t"]), st.sampled_from(PIECES), st.integers(0, 1))
    )
)
def test_blocks_are_verbatim_lines_of_one_result(pieces):
    """Each block consists of consecutive, unchanged lines of one result, whichever parts of a file were seen."""
    number, lines = 0, []
    for step, indent, text, origin in pieces:
        number += step
        lines.append((number, indent + text, origin))
    known = {line: (text, origin) for line, text, origin in lines}
    for block in code_units("a.ts", tuple(lines)):
        for at, text in enumerate(block.text.split("\n"), block.line):
            assert known[at] == (text, known[block.line][1])
