"""Ask a model on this machine for keys that are spread over notes, with five ways to tell it what is left.

    uv run --group test --group local python -m bench.countdown --model MODEL.gguf --json FILE

Each note has the key of one door. A chain asks for the key of the last door, and each note names the next; a list asks
for the key of the door that was painted last, and the question names all notes. Some questions need more calls than the
limit allows. The score of an answer says how good it is: the key of the third of four doors, in the order of the chain
or of the years, has the score 3/4; no key, a wrong one, or several have 0. Each question is asked with the limits 2, 3,
5 and 8, in these ways:

- none: nothing is said while the model works; at the limit its reply is constrained to an answer
- none, order: nothing is said while it works; at the limit it is told to answer (`landing: order`)
- half: the countdown begins at half of the limit, the default
- start: the countdown begins with the first result
- last five: the countdown begins when five calls are left

Everything else is the same: the limit is named once in the system prompt, as by default, and the temperature is 0.
Runs that have been told the same until some turn have the same replies until then. Each reply is therefore kept by its
request beside the results (FILE.replies), and asked for once. The command can be stopped and started again; `--table`
prints the figures of such a file and asks nothing.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

from bench import kept_lines
from bench.judges.packages import table
from bench.report import commit
from run_specialist.api.runner import Runner
from run_specialist.errors import RunSpecialistError
from run_specialist.providers.base import Capabilities, Conversation, Opening, Provider, Request, Watch
from run_specialist.providers.local_servers import local_provider
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.record.outcome import Outcome
from tests.local.llama_server import ServerFailed, ServerSettings, llama_server

LIMITS = (2, 3, 5, 8)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "none": {"countdown": "none"},
    "none, order": {"countdown": "none", "landing": "order"},
    "half": {"countdown": {"from": 0.5}},
    "start": {"countdown": {"from": 0.0}},
    "last five": {"countdown": {"from": 5}},
}
DEFAULT = "half"
SPECIALIST = """\
---
name: key-finder
description: Finds keys in notes.
tools: read
first_search: off
evidence: off
output_schema:
  type: object
  properties:
    key: {type: string, description: The key that the question asks for.}
  required: [key]
---
You find a key, which is a word like K-1234. Read the notes one after the other with `read`, until you know which key
the question asks for. If you cannot read them all, respond with the best key that you have seen.
"""
PLACES = [
    "Arnholm", "Borkel", "Corvey", "Dunmore", "Elstow", "Farsund", "Gandia", "Hartlap", "Ilmenau", "Jarrow", "Kelso",
    "Lindos", "Morvan", "Nairn", "Oppido", "Pelham", "Quarto", "Rosas", "Sintra", "Tavira", "Ulster", "Vernon",
    "Whitby", "Yarmouth",
]  # fmt: skip
DOORS = (2, 3, 4, 6, 8)
"""Numbers of doors, and thus of notes, in turn."""
LONGEST = 300.0
"""Time limit of a run; a small model on a busy machine is slow [s]."""
DRAWS = 2000
"""Samples of the questions, from which the 95 % intervals are."""

_KEY = re.compile(r"K-\d{4}")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the notes about it, and their keys, the best answer last."""

    text: str
    notes: Mapping[str, str]
    """Texts by path."""
    keys: tuple[str, ...]


def questions(number: int) -> list[Question]:
    """Return the first questions; always the same ones."""
    return [
        _question(place, DOORS[at // 2 % len(DOORS)], is_list=at % 2 == 0) for at, place in enumerate(PLACES[:number])
    ]


def _question(place: str, doors: int, *, is_list: bool) -> Question:
    pick = random.Random(place)  # noqa: S311 - the same notes each time
    keys = [f"K-{number}" for number in pick.sample(range(1000, 10_000), doors)]
    paths = [f"{place.lower()}-{number}.md" for number in pick.sample(range(100, 1000), doors)]
    years = pick.sample(range(1950, 2020), doors)
    texts = [
        f"A door of {place}. It was painted in {year}. Its key is {key}." for year, key in zip(years, keys, strict=True)
    ]
    if is_list:
        text = f"{place} has {doors} doors: {', '.join(paths)}. What is the key of the door that was painted last?"
        keys = [key for _, key in sorted(zip(years, keys, strict=True))]
    else:
        text = f"The first door of {place} is in {paths[0]}. What is the key of the last door?"
        following = [*(f"The next door is in {path}." for path in paths[1:]), "This is the last door."]
        texts = [f"{text} {after}" for text, after in zip(texts, following, strict=True)]
    return Question(text, dict(zip(paths, texts, strict=True)), tuple(keys))


class KeptReplies:
    """A provider that asks another one, and keeps each reply by its request."""

    def __init__(self, asked: Provider, setup: str, file: Path) -> None:
        """Read the replies of earlier runs.

        setup: names the model and its settings; replies of another setup are not used.
        file: one reply a line; an incomplete last line is removed.
        """
        self._asked = asked
        self.setup, self.file = setup, file
        self.replies = dict(kept_lines.read(file, "request", _reply))
        """By a digest of the request."""
        kept_lines.mend(file)

    @property
    def model(self) -> str:
        """The model of the other provider."""
        return self._asked.model

    @property
    def capabilities(self) -> Capabilities:
        """Those of the other provider."""
        return self._asked.capabilities

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation, whose replies are taken from those that are kept, or added to them."""
        return _Conversation(self, opening, self._asked.open(opening, watch))

    def cost(self, usage: Usage) -> float | None:
        """Return the price by the other provider."""
        return self._asked.cost(usage)

    async def aclose(self) -> None:
        """Close the other provider."""
        await self._asked.aclose()


def _reply(kept: Mapping[str, Any]) -> tuple[str, Reply]:
    """Return a request and the reply to it, from their JSON values."""
    usage, stop = Usage(**kept["usage"]), Stop(kept["stop"])
    return kept["request"], Reply(stop, tuple(kept["content"]), usage, kept["reason"])


@dataclass(frozen=True, slots=True)
class _Conversation:
    kept: KeptReplies
    opening: Opening
    asked: Conversation

    async def ask(self, request: Request) -> Reply:
        kept, opening = self.kept, self.opening
        tools = [(tool.name, tool.description, tool.input_schema) for tool in opening.tools]
        shape = (request.choice, request.max_tokens, request.landing_instruction, request.schema)
        messages = [message.encoded.decode() for message in request.messages]
        key = sha256(repr((kept.setup, opening.system, tools, shape, messages)).encode()).hexdigest()
        if key not in kept.replies:
            reply = kept.replies[key] = await self.asked.ask(request)
            values = {
                "stop": reply.stop,
                "content": reply.content,
                "usage": asdict(reply.usage),
                "reason": reply.reason,
            }
            kept_lines.append(kept.file, {"request": key, **values})
        return kept.replies[key]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one question, asked in one way with one limit."""

    setup: str
    commit: str
    question: int
    way: str
    limit: int
    score: float
    """How good the key in the answer is, from 0 to 1."""
    reached: float
    """The score of the best key in the results."""
    calls: int
    landing: str
    """The rung that gave the answer; empty if the model answered before its limit."""
    status: str
    input_tokens: int
    output_tokens: int

    @property
    def key(self) -> tuple[int, str, int]:
        """What is asked once."""
        return self.question, self.way, self.limit


async def ask(runner: Runner, question: Question, way: str, limit: int) -> tuple[Outcome, set[str]]:
    """Return the outcome of a question, and the keys that the results of its run contained."""
    run = await runner.prepare("key-finder", question.text, tool_calls_limit=limit, time_limit=LONGEST, **WAYS[way])
    outcome = await run.outcome()
    blocks = (block for message in run.transcript for block in message.blocks)
    return outcome, {
        key for block in blocks if block["type"] == "tool_result" for key in _KEY.findall(block["content"])
    }


def judged(question: Question, outcome: Outcome, shown: set[str]) -> dict[str, Any]:
    """Return what became of a question, as fields of `Result`; a salvaged answer counts as empty."""
    named = set(_KEY.findall(outcome.answer)) if outcome.status in {"answered", "landed"} else set[str]()
    scores = {key: place / len(question.keys) for place, key in enumerate(question.keys, 1)}
    used, landing = outcome.usage, outcome.landing
    return {
        "score": scores.get(*named, 0.0) if len(named) == 1 else 0.0,
        "reached": max((scores[key] for key in shown), default=0.0),
        "calls": outcome.tool_calls.used, "landing": landing.how if landing else "", "status": outcome.status,
        "input_tokens": used.total_tokens - used.output_tokens, "output_tokens": used.output_tokens,
    }  # fmt: skip


async def ask_all(provider: Provider, asked: Sequence[Question], done: Mapping[tuple[int, str, int], Result],
                  add: Callable[..., None]) -> None:  # fmt: skip
    """Ask what has no result yet, one question after the other, so that the server finds the beginning in its cache."""
    with tempfile.TemporaryDirectory() as folder:
        root, specialists = _written(Path(folder), asked)
        async with Runner(root=root, dir=specialists, provider=provider, store="none") as runner:
            for number, question in enumerate(asked):
                for limit in LIMITS:
                    for way in WAYS:
                        if (number, way, limit) not in done:
                            values = judged(question, *await ask(runner, question, way, limit))
                            add(question=number, way=way, limit=limit, **values)


def _written(folder: Path, asked: Sequence[Question]) -> tuple[Path, Path]:
    """Write the notes and the specialist; return their folders."""
    root, specialists = folder / "notes", folder / "specialists"
    root.mkdir()
    specialists.mkdir()
    (specialists / "key-finder.md").write_text(SPECIALIST, encoding="utf-8")
    for path, text in (note for question in asked for note in question.notes.items()):
        (root / path).write_text(text, encoding="utf-8")
    return root, specialists


def figures(results: Sequence[Result]) -> Iterator[str]:
    """Yield the tables of the questions that have all results."""
    complete = [[one for one in results if one.question == number] for number in {one.question for one in results}]
    complete = [group for group in complete if len(group) == len(WAYS) * len(LIMITS)]
    if not complete:
        yield "No question was asked in all ways."
        return
    yield table(
        ["way", "limit", "score", "best key read", "complete", "calls", "by itself", "tokens"],
        [_row(way, limit, [one for group in complete for one in group if one.way == way and one.limit in limit])
         for way in WAYS for limit in (*((each,) for each in LIMITS), LIMITS)],
    )  # fmt: skip
    yield table(
        [f"against {DEFAULT}, points of score", *map(str, LIMITS), "all limits"],
        [[way, *(_difference(complete, way, limit) for limit in (*((each,) for each in LIMITS), LIMITS))]
         for way in WAYS if way != DEFAULT],
    )  # fmt: skip
    yield f"{len(complete)} questions. Commits: {', '.join(sorted({one.commit for one in results}))}."


def _row(way: str, limits: tuple[int, ...], found: Sequence[Result]) -> list[object]:
    return [
        way, ", ".join(map(str, limits)), f"{100 * mean(one.score for one in found):.0f}%",
        f"{100 * mean(one.reached for one in found):.0f}%", f"{sum(one.score == 1 for one in found)} of {len(found)}",
        f"{mean(one.calls for one in found):.1f}", f"{sum(not one.landing for one in found)} of {len(found)}",
        f"{mean(one.input_tokens + one.output_tokens for one in found):,.0f}",
    ]  # fmt: skip


def _difference(complete: Sequence[Sequence[Result]], way: str, limits: tuple[int, ...]) -> str:
    """Return the mean difference to the default with its 95 % interval, by drawing whole questions."""

    def share(group: Sequence[Result], chosen: str) -> float:
        return mean(one.score for one in group if one.way == chosen and one.limit in limits)

    each = [100 * (share(group, way) - share(group, DEFAULT)) for group in complete]
    draw = random.Random(0)  # noqa: S311 - the same interval each time
    means = sorted(mean(draw.choices(each, k=len(each))) for _ in range(DRAWS))
    low, high = means[DRAWS // 40], means[-DRAWS // 40 - 1]
    return f"{mean(each):+.1f} ({low:+.1f} to {high:+.1f})"


async def _work(setup: str, given: argparse.Namespace, done: dict[tuple[int, str, int], Result]) -> None:
    def add(**values: Any) -> None:  # noqa: ANN401 - fields of `Result`
        result = Result(setup=setup, commit=commit(), **values)
        kept_lines.append(given.json, asdict(result))
        done[result.key] = result
        landing = result.landing or "by itself"
        print(
            f"{result.question} {result.way} {result.limit}: {result.score:.2f}, {landing}", file=sys.stderr, flush=True
        )

    provider = KeptReplies(await local_provider("llamacpp:local"), setup, given.json.with_suffix(".replies"))
    try:
        await ask_all(provider, questions(given.questions), done, add)
    finally:
        await provider.aclose()


def main() -> int:
    """Ask what has no result yet, and print the figures."""
    given = _arguments()
    setup = f"{given.model and given.model.name}, context {given.context}, temperature 0"
    try:
        found = kept_lines.read(given.json, "setup", lambda line: Result(**line))
    except kept_lines.LinesUnreadable as error:
        sys.exit(f"countdown: {error}")
    if given.table and found:
        setup = found[-1].setup
    done = {one.key: one for one in found if one.setup == setup and one.question < given.questions}
    code = 0
    try:
        if not given.table:
            kept_lines.mend(given.json)
            settings = ServerSettings(str(given.model), given.context)
            with llama_server(settings) as server, patch.dict(os.environ, server.environment):
                asyncio.run(_work(setup, given, done))
    except KeyboardInterrupt:
        code = 130
    except (ServerFailed, RunSpecialistError, kept_lines.LinesUnreadable) as error:
        print(f"countdown: {error}", file=sys.stderr)
        code = 1
    print(f"commit {commit() or 'unknown'}: {setup}", *figures([*done.values()]), sep="\n\n", flush=True)
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, metavar="MODEL.gguf")
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="append results, and skip those it has"
    )
    parser.add_argument("--questions", type=int, default=20, metavar="N", help=f"default: 20; at most {len(PLACES)}")
    parser.add_argument("--context", type=int, default=8192, metavar="N", help="default: 8192 tokens")
    parser.add_argument("--table", action="store_true", help="ask nothing; print the figures of the file")
    given = parser.parse_args()
    if not given.table and not (given.model and given.model.is_file()):
        parser.error(f"--model: no such file: {given.model or ''}")
    if given.json.is_dir() or not given.json.absolute().parent.is_dir():
        parser.error(f"not a file: {given.json}")
    if not 1 <= given.questions <= len(PLACES):
        parser.error(f"--questions must be from 1 to {len(PLACES)}")
    return given


if __name__ == "__main__":
    # `| head` ends this program without a message.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
