"""A run with nearly every feature: 24 calls, a summary, a resume, a forced landing."""

from dataclasses import replace
from functools import cache

from run_specialist.store.stored import StoredRun
from tests.journals import stored
from tests.views.recording import Did, recorded, turn

LOOP = ["class Loop:", "    def finalize(self):", "        # Ask once more; what was gathered stays in the messages."]
DISPATCH = [
    "def dispatch(calls):",
    "    with ThreadPoolExecutor() as pool:",
    "        return [one.result() for one in calls]",
]
STORE = ["def finish(run):", "    # only finished runs are written", "    database.insert(run)"]
NOTHING = "[no line matches in 61 text files; try ignore_case, a shorter pattern, or search]"
SUMMARY = "- agents/loop.py:31: `Loop` calls `finalize` at the limit\n- not found: any test of a batch (grep `straddl`)"
ANSWER = """\
At the limit the loop asks the model one last time, with tools forbidden, and takes its text as the answer.

1. A batch that fails in part: `dispatch` leaves it by the first exception (agents/dispatch.py:27).
2. A last request that the API refuses: `finalize` has no second way out (agents/loop.py:48)."""


def numbered(lines: list[str], first: int) -> str:
    """Return lines in the format of the tool `read`."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def search(query: str, result: str, seconds: float = 0.3, **others: object) -> Did:
    """Return a call of `search`."""
    return Did("search", {"query": query}, result, seconds, **others)


def grep(pattern: str, result: str, seconds: float = 0.12, **others: object) -> Did:
    """Return a call of `grep`."""
    return Did("grep", {"pattern": pattern}, result, seconds, **others)


def read(path: str, result: str, seconds: float = 0.05, **others: object) -> Did:
    """Return a call of `read`."""
    return Did("read", {"path": path, "offset": 1}, result, seconds, **others)


@cache
def full_run() -> StoredRun:
    """Return the run."""
    loop, whole = numbered(LOOP, 31), "The loop keeps its notes in order.\n" * 1_150
    first = recorded(
        turn(
            "I look for the loop and for what ends it.",
            search("tool call limit", "agents/loop.py:37: if number == self.limit:\n[1 best of 9 passages]", 0.9),
            grep(r"def finalize", "agents/loop.py:45:     def finalize(self):", 0.4),
            grep("tool_calls_limit", NOTHING, 0.5),
            seconds=3.1,
        ),
        turn("", read("agents/loop.py", loop), seconds=1.9, grown=2_300),
        turn(
            "The loop counts turns. Now the dispatcher, and the tests of both.",
            read("agents/dispatch.py", numbered(DISPATCH, 25)),
            read("agents/dispatcher.py", "agents/dispatcher.py does not exist", is_error=True),
            Did("ls", {"path": "tests"}, "test_dispatch.py  4.1 KB  120 lines\ntest_loop.py  9.8 KB  301 lines"),
            seconds=4.2,
        ),
        turn("", read("docs/loop.md", whole, 0.3), seconds=2.2, grown=2_000),
        turn("", read("agents/loop.py", loop), seconds=1.4, grown=7_000),
        turn(
            "Back to the one open question: what becomes of a batch that fails in part?",
            grep("straddl|partial_batch", NOTHING),
            Did("fetch_issue", {"number": 218, "deep": True}),
            seconds=5.5,
            lost=5_200,
        ),
        summary=SUMMARY,
        tool_calls_limit=16,
        total_tokens_limit=400_000,
        time_limit=300.0,
        cost_limit=None,
        summarize_at=19_000,
        landing="force",
    )
    quotes = [
        {"source": "agents/loop.py:33", "quote": "Ask once more; what was gathered stays in the messages."},
        {"source": "agents/dispatch.py:26", "quote": "\n".join(DISPATCH[1:]).strip()},
        {"source": "agents/store.py:81", "quote": "only finished runs are written"},
        {"source": "docs/limits.md:9", "quote": "A refused last request is retried three times."},
    ]
    gaps = ["Whether the thread pool waits for calls that still run.", "docs/store.md was not read."]
    second = recorded(
        turn(
            "",
            read("agents/store.py", numbered(STORE, 80), 1.2),
            read("tests/test_loop.py", numbered(["def test_limit():", "    assert Loop(limit=3).run('q')"], 12), 0.7),
            search("overloaded server retry", "agents/model.py:61: retries = 2\n[1 best of 1 passages]", 1.9),
            search("lost results", "", 0.4),
            seconds=6.0,
            lost=0,
            grown=1_900,
        ),
        turn(
            "",
            grep("FINALIZE *=", 'agents/prompts.py:7: FINALIZE = "Answer."'),
            grep("insert\\(", "agents/store.py:82:     database.insert(run)"),
            seconds=2.1,
        ),
        turn("", read("agents/model.py", numbered(["retries = 2"], 61)), seconds=2.0),
        turn("", Did("glob", {"pattern": "**/*retry*"}, "[no file matches]", 0.1), seconds=1.3),
        turn(
            "Two last places.",
            grep("Overloaded", "agents/model.py:64: class Overloaded(Exception): ..."),
            read("docs/limits.md", numbered(["# Limits", "", "A limit counts turns."], 1)),
            read("docs/store.md", ""),
            seconds=2.7,
        ),
        turn("", Did("respond", {"answer": ANSWER, "evidence": quotes, "gaps": gaps}), seconds=11.8, lost=5_200),
        past=first,
        after=7_830,
        tool_calls_limit=20,
    )
    run = stored(second)
    return replace(run, frozen={**run.frozen, "digest": "sha256:4f1c0a7e"})
