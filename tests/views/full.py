"""A run with nearly every feature: 24 calls, a summary, a resume, a forced landing."""

from run_specialist import prompts
from run_specialist.budget import Kind, Rung
from run_specialist.record.events import Warned
from run_specialist.record.messages import Message, ToolResult
from run_specialist.record.outcome import Evidence
from run_specialist.store.stored import StoredRun
from tests.views.recording import Did
from tests.views.runs import Tape

LOOP = [
    "class Loop:",
    '    """Ask, run the tools, ask again."""',
    "",
    "    def run(self, question):",
    "        self.messages = [user(question)]",
    "        for number in range(self.limit + 1):",
    "            if number == self.limit:",
    "                return self.finalize()",
    "            reply = self.model.ask(self.messages, tools=self.tools)",
    "            if not reply.calls:",
    "                return reply.text",
    "            self.messages.append(reply.message)",
    "            self.messages.append(self.dispatch(reply.calls))",
    "",
    "    def finalize(self):",
    '        """Ask once more without tools; what was gathered stays in the messages."""',
    "        self.messages.append(user(FINALIZE))",
    '        return self.model.ask(self.messages, tools=self.tools, choice="none").text',
]
RESUMED = (
    "The budget was refreshed: you now have 20 tool calls in all, of which 11 are used, so 9 tool calls remain. What "
    "stands above about remaining or spent budget, about limits reached and about having to answer now holds no longer."
)
FINALIZE_LINE = "The limit of this task is reached. Answer directly now, from what is here, without more tool calls."
SUMMARY = (
    "- agents/loop.py:31-48: `Loop.run` counts turns, not tool calls; at the limit it calls `finalize`\n"
    '- agents/loop.py:46: "Ask once more without tools; what was gathered stays in the messages."\n'
    "- agents/dispatch.py:12-40: a batch runs in threads; an exception in one call cancels the others\n"
    "- looked for and not found: any test of a batch that straddles the limit (grep `straddl`, `partial_batch`)\n"
    "- worth reading and not read: agents/store.py, tests/test_loop.py"
)
ANSWER = """\
At the limit the loop asks the model one last time, with tools forbidden, and takes its text as the answer. What had \
been gathered stays in the messages, so as a rule nothing is lost.

There are two exceptions:

1. A batch that fails in part. `dispatch` runs the calls of a turn in a thread pool and leaves it by the first \
exception (agents/dispatch.py:27). Results of calls that had already returned are dropped with it.
2. A last request that the API refuses. `finalize` has no second way out (agents/loop.py:48): an overloaded server \
ends in an exception, and the messages are gone with the process, because the store writes only finished runs.

The limit counts turns and not tool calls, so a turn with eight calls costs as much as one with a single call."""


def numbered(lines: list[str], first: int) -> str:
    """Return lines in the format of the tool `read`."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def prose(lines: int) -> str:
    """Return a long document."""
    return "\n".join(
        f"docs/loop.md:{number}: The loop of a child keeps paragraph {number} of its notes in the order of its calls."
        for number in range(1, lines + 1)
    )


def search(query: str, result: str, seconds: float = 0.3, **others: object) -> Did:
    """Return a call of `search`."""
    return Did("search", {"query": query}, result, seconds, **others)


def grep(pattern: str, result: str, seconds: float = 0.12, **others: object) -> Did:
    """Return a call of `grep`."""
    return Did("grep", {"pattern": pattern}, result, seconds, **others)


def read(path: str, result: str, seconds: float = 0.05, **others: object) -> Did:
    """Return a call of `read`."""
    return Did("read", {"path": path, "offset": 1, "limit": 40}, result, seconds, **others)


def full_run() -> StoredRun:
    """Return the run."""
    tape = Tape({Kind.TOOL_CALLS: 16, Kind.TOKENS: 400_000, Kind.TIME: 300, Kind.COST: None})
    loop = numbered(LOOP, 31)
    tape.turn(
        "I look for the loop and for what ends it.",
        search(
            "tool call limit of a sub-agent",
            "agents/loop.py:37:             if number == self.limit:\n[1 best of 9 passages]",
            0.9,
        ),
        grep(
            r"def finalize|def run",
            "agents/loop.py:34:     def run(self, question):\nagents/loop.py:45:     def finalize(self):",
            0.4,
        ),
        grep(
            "tool_calls_limit", "[no line matches in 61 text files; try ignore_case, a shorter pattern, or search]", 0.5
        ),
        seconds=3.1,
    )
    tape.turn("", read("agents/loop.py", loop), seconds=1.9, grown=2_300)
    tape.turn(
        "The loop counts turns. Now the dispatcher, and the tests of both.",
        read(
            "agents/dispatch.py",
            numbered(
                [
                    "def dispatch(self, calls):",
                    "    with ThreadPoolExecutor() as pool:",
                    "        return [one.result() for one in map(pool.submit, calls)]",
                ],
                25,
            ),
        ),
        read(
            "agents/dispatcher.py",
            "read failed: agents/dispatcher.py does not exist; there is agents/dispatch.py",
            is_error=True,
        ),
        Did("ls", {"path": "tests"}, "test_dispatch.py  4.1 KB  120 lines\ntest_loop.py  9.8 KB  301 lines"),
        seconds=4.2,
    )
    whole = prose(420)
    tape.turn(
        "",
        Did("read", {"path": "docs/loop.md", "limit": 2000}, whole[:20_000], 0.3, whole=whole),
        seconds=2.2,
        grown=2_000,
    )
    tape.tell(Warned("the summary of tests/test_loop.py was longer than summary_limit and was cut"))
    tape.turn("", read("agents/loop.py", loop, 0.0, repeated=True), seconds=1.4, grown=7_000)
    tape.summarize(SUMMARY)
    tape.turn(
        "Back to the one open question: what becomes of a batch that fails in part?",
        grep(
            "straddl|partial_batch", "[no line matches in 61 text files; try ignore_case, a shorter pattern, or search]"
        ),
        Did(
            "fetch_issue",
            {"number": 218, "with_comments": True},
            "fetch_issue failed: there is no such tool; there are search, grep, glob, read, ls",
            0.0,
            is_error=True,
        ),
        seconds=5.5,
        lost=5_200,
    )
    tape.resume(7_830, RESUMED, tool_calls=20)
    tape.turn(
        "",
        read(
            "agents/store.py",
            numbered(["def finish(run):", "    # only finished runs are written", "    database.insert(run)"], 80),
            1.2,
        ),
        read(
            "tests/test_loop.py",
            numbered(["def test_limit():", "    assert Loop(limit=3).run('q') == 'final'"], 12),
            0.7,
        ),
        search("overloaded server retry", "agents/model.py:61: retries = 2\n[1 best of 1 passages]", 1.9),
        search("lost results", "", 0.4),
        seconds=6.0,
        lost=0,
        grown=1_900,
    )
    tape.turn(
        "",
        grep("FINALIZE *=", f'agents/prompts.py:7: FINALIZE = "{FINALIZE_LINE}"'),
        grep("insert\\(", "agents/store.py:82:     database.insert(run)"),
        seconds=2.1,
    )
    tape.turn(
        "",
        read("agents/model.py", numbered(["retries = 2", "", "", "class Overloaded(Exception): ..."], 61)),
        seconds=2.0,
    )
    tape.turn(
        "",
        Did("glob", {"pattern": "**/*retry*"}, "[no file matches; try a shorter pattern such as `*word*`]", 0.1),
        seconds=1.3,
    )
    straddling = [
        grep("Overloaded", "agents/model.py:64: class Overloaded(Exception): ..."),
        read("docs/limits.md", numbered(["# Limits", "", "A limit counts turns."], 1)),
        read("docs/store.md", ""),
    ]
    tape.ask("Two last places.", straddling, seconds=2.7)
    tape.run(straddling[:1], straddling[1:])
    tape.land(Kind.TOOL_CALLS, Rung.FORCE)
    evidence = [
        Evidence(
            "agents/loop.py:46", "Ask once more without tools; what was gathered stays in the messages.", verified=True
        ),
        Evidence(
            "agents/dispatch.py:26",
            "with ThreadPoolExecutor() as pool:\n        return [one.result() for one in map(pool.submit, calls)]",
            verified=True,
        ),
        Evidence("agents/store.py:81", "only finished runs are written", verified=True),
        Evidence("docs/limits.md:9", "A refused last request is retried three times.", verified=False),
    ]
    gaps = (
        "Whether the thread pool waits for calls that still run when one has failed.",
        "docs/store.md was not read: the limit was reached.",
    )
    answer = {
        "answer": ANSWER,
        "evidence": [{"source": one.source, "quote": one.quote} for one in evidence],
        "gaps": list(gaps),
    }
    tape.ask("", [Did("respond", answer, "")], choice="respond", seconds=11.8, lost=5_200)
    tape.say(Message.results([ToolResult(tape.turns[-1].reply.calls[0].id, prompts.DELIVERED)]))
    tape.warnings.append(
        "quote not found in the tool results: docs/limits.md:9: 'A refused last request is retried three times.'"
    )
    return tape.end(tape.outcome("landed", ANSWER, evidence, gaps=gaps))
