"""Let a model on this machine call functions, and check the calls by the Berkeley function calling leaderboard.

    uv run --group test --group local python -m bench.judges.functions --model MODEL.gguf [--json FILE]

Each case is one question with one function (`simple`) or several of which one is right (`multiple`), chosen at even
distances from the data. It is asked in three modes, with the same system prompt, at temperature 0:

- json: by this program with `tool_calls: json`, its default on a local server
- native: by this program with `tool_calls: native`
- server: by a plain request with `tools` to the same server, without this program

The functions are the tools of the run, as those of an MCP server would be. One reply is asked for and judged:

- right: the leaderboard's checker accepts the call
- other: a call that fits the schema of a function, but with another function, value or number of calls than wanted
- invalid: a function that does not exist, arguments that are no JSON object, or that violate the schema
- none: text without a call, or a reply that was cut off

Calls as this program would run them are also passed to tools; `reached` counts the invalid ones that arrived there.
With `--json` each reply is appended to a file, and the command can be stopped and started again; `--figures` prints the
figures of such a file and asks nothing. The data is fetched on first use; nothing of it is copied into the repository.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import comb, sqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
from jsonschema import Draft202012Validator

from bench import kept_lines
from bench.judges.berkeley import PIN, Case, Leaderboard
from bench.judges.packages import heading, table
from bench.report import commit
from run_specialist.errors import ProviderError, RunSpecialistError, ToolError
from run_specialist.providers.base import Choice, Opening, Provider, Request
from run_specialist.providers.json_calls import open_conversation
from run_specialist.providers.knowledge import leaked_calls, with_calls
from run_specialist.providers.local_servers import local_provider
from run_specialist.record.messages import CallFormat, Message, Stop
from run_specialist.tools.base import Tool, Toolset
from tests.local.llama_server import LlamaServer, ServerFailed, ServerSettings, llama_server

MODES = ("json", "native", "server")
SYSTEM = "You answer questions by calling functions. Take the arguments from the question."
LONGEST = 256
"""Maximum length of a reply [tokens]."""
PATIENCE = 3600.0
"""Timeout of a plain request, which may wait for others; the machine may be busy [s]."""
_Z = 1.96

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The reply to one case in one mode."""

    setup: str
    """Everything that must be the same for replies to be comparable."""
    case: str
    mode: str
    commit: str
    calls: Sequence[Json]
    """Each has a `name` and `arguments`, which are null if they are no JSON object."""
    text: str
    is_cut: bool
    error: str
    """Why the server or this program refused the reply; empty if it did not."""
    input_tokens: int
    output_tokens: int
    seconds: float

    @property
    def key(self) -> tuple[str, str]:
        """What is asked once."""
        return self.case, self.mode


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case in one mode."""

    asked: Asked
    category: str
    kind: str
    """`right`, `other`, `invalid` or `none`."""
    reason: str
    """Why it is not right, in few words."""
    reached: int
    """Invalid calls that reached a tool."""


def tools_of(case: Case, received: Callable[[str, Json], object] = lambda *_: None) -> Toolset:
    """Return the functions of a case as tools.

    received: called with the name and the arguments of each call.
    """

    def tool(function: Mapping[str, Any]) -> Tool:
        name: str = function["name"]

        def called(**arguments: Any) -> str:  # noqa: ANN401 - as for a tool of an MCP server
            received(name, arguments)
            return ""

        return Tool(name, function["description"], called, schema=function["parameters"])

    return Toolset(tool(one["function"]) for one in case.tools)


async def ask_ours(provider: Provider, case: Case, mode: CallFormat) -> Json:
    """Return the reply to a case as this program reads it, as fields of `Asked`."""
    tools = tools_of(case)
    conversation = open_conversation(provider, Opening(SYSTEM, tools, tool_calls=mode))
    reply = await conversation.ask(Request([Message.user(case.question)], Choice.AUTO, LONGEST))
    # As the loop does: calls that the model wrote as text are calls, too.
    if leaked := leaked_calls(reply, tools.names):
        reply = with_calls(reply, leaked, [f"written_{number}" for number, _ in enumerate(leaked)])
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
    return {
        "calls": calls,
        "text": reply.text,
        "is_cut": reply.stop is Stop.TRUNCATED,
        "input_tokens": reply.usage.total_tokens - reply.usage.output_tokens,
        "output_tokens": reply.usage.output_tokens,
    }


async def ask_server(client: httpx2.AsyncClient, case: Case) -> Json:
    """Return the reply to a case as the server sends it, as fields of `Asked`."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": case.question}]
    body = {"model": "local", "messages": messages, "tools": [*case.tools], "max_tokens": LONGEST}
    response = await client.post("/chat/completions", json=body)
    if response.is_error:
        return {"error": response.text[:500]}
    completion = response.json()
    (choice,), usage = completion["choices"], completion["usage"]
    functions = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return {
        "calls": [{"name": one["name"], "arguments": _object(one["arguments"])} for one in functions],
        "text": choice["message"].get("content") or "",
        "is_cut": choice["finish_reason"] == "length",
        "input_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
    }


def _object(text: str) -> Json | None:
    with suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None


async def judged(board: Leaderboard, case: Case, asked: Asked) -> Verdict:
    """Judge one reply, and pass its calls to tools as the loop would."""
    schemas = {one["function"]["name"]: one["function"]["parameters"] for one in case.tools}
    arrived = list[tuple[str, Json]]()
    tools = tools_of(case, lambda name, arguments: arrived.append((name, arguments)))
    # A call that was cut off is never run.
    for call in () if asked.is_cut else asked.calls:
        tool = tools.get(call["name"])
        if tool is not None and call["arguments"] is not None:
            with suppress(ToolError):
                await tool.call(call["arguments"])
    reached = sum(bool(_violation(name, arguments, schemas)) for name, arguments in arrived)
    kind, reason = "none", (asked.error and "an error") or ("cut off" if asked.is_cut else "text")
    if asked.calls and not asked.is_cut:
        violations = [_violation(call["name"], call["arguments"], schemas) for call in asked.calls]
        violation = next(filter(None, violations), "")
        is_object = all(call["arguments"] is not None for call in asked.calls)
        mistake = board.mistake(case, asked.calls) if is_object else violation
        kind = "invalid" if mistake and violation else "other" if mistake else "right"
        reason = (violation or mistake) if mistake else ""
    return Verdict(asked, case.category, kind, reason, reached)


def _violation(name: str, arguments: Json | None, schemas: Mapping[str, Json]) -> str:
    """Return what is invalid about a call; empty if it fits the schema of a function."""
    if name not in schemas:
        return "no such function"
    if arguments is None:
        return "no JSON object"
    error = next(Draft202012Validator(schemas[name]).iter_errors(arguments), None)
    if error is None:
        unknown = arguments.keys() - schemas[name]["properties"].keys()
        return "schema: unknown parameter" if unknown else ""
    return f"schema: {error.validator}"


class Replies:
    """The replies so far, kept in a file if there is one."""

    def __init__(self, setup: str, file: Path | None) -> None:
        """Read the replies of earlier runs with the same setup.

        Raises LinesUnreadable.
        """
        self.setup = setup
        self.file = file
        found = kept_lines.read(file, "setup", lambda line: Asked(**line))
        self.by_key = {asked.key: asked for asked in found if asked.setup == setup}

    def add(self, asked: Asked) -> None:
        """Keep a reply."""
        self.by_key[asked.key] = asked
        kept_lines.append(self.file, asdict(asked))


async def ask_all(server: LlamaServer, cases: Iterable[Case], replies: Replies, at_once: int) -> None:
    """Ask all cases that have no reply yet, each in all modes before the next one.

    at_once: number of cases asked at the same time.
    """
    left, measured = iter(cases), commit()
    provider = await local_provider("llamacpp:local")
    async with httpx2.AsyncClient(base_url=f"{server.url}/v1", timeout=PATIENCE, trust_env=False) as client:

        async def reply(case: Case, mode: str) -> Json:
            match mode:
                case "json" | "native":
                    return await ask_ours(provider, case, mode)
                case _:
                    return await ask_server(client, case)

        async def worker() -> None:
            for case in left:
                for mode in MODES:
                    if (case.id, mode) in replies.by_key:
                        continue
                    begun = time.monotonic()
                    try:
                        given = await reply(case, mode)
                    except ProviderError as error:
                        if error.kind == "connection":
                            raise
                        given = {"error": str(error)}
                    nothing = {"calls": [], "text": "", "is_cut": False, "error": "", "input_tokens": 0}
                    values = {**nothing, "output_tokens": 0, **given, "seconds": round(time.monotonic() - begun, 1)}
                    replies.add(Asked(setup=replies.setup, case=case.id, mode=mode, commit=measured, **values))
                print(f"{case.id}: asked", file=sys.stderr, flush=True)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(worker())
        finally:
            await provider.aclose()


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's method."""
    if not whole:
        return 0.0, 1.0
    share, spread = part / whole, _Z**2 / whole
    middle, half = share + spread / 2, _Z * sqrt(share * (1 - share) / whole + spread / whole / 4)
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def paired(first: Sequence[bool], second: Sequence[bool]) -> tuple[int, int, float, float, float]:
    """Compare two modes case by case.

    Returns in how many cases only the first and only the second is right; the ends of the 95 % interval of the
    difference of their shares, by Newcombe's score method for pairs; and the probability of such numbers if both were
    equally good, by the exact sign test.
    """
    whole, more = len(first), sum(one and not other for one, other in zip(first, second, strict=True))
    right, other_right = sum(first), sum(second)
    both, less = right - more, other_right - (right - more)
    neither = whole - both - more - less
    sizes = right * (whole - right) * other_right * (whole - other_right)
    correlation = (both * neither - more * less) / sqrt(sizes) if sizes else 0.0
    share, other_share = right / whole, other_right / whole
    (low, high), (other_low, other_high) = wilson(right, whole), wilson(other_right, whole)

    def half(own: float, others: float) -> float:
        return sqrt(max(0.0, own**2 - 2 * correlation * own * others + others**2))

    begin = share - other_share - half(share - low, other_high - other_share)
    end = share - other_share + half(high - share, other_share - other_low)
    tail = sum(comb(more + less, number) for number in range(min(more, less) + 1)) / 2 ** (more + less)
    return more, less, begin, end, min(1.0, 2 * tail)


def figures(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the tables of the cases that were asked in all modes."""
    modes = Counter(one.asked.case for one in verdicts)
    verdicts = [one for one in verdicts if modes[one.asked.case] == len(MODES)]
    if not verdicts:
        yield "No case was asked in all modes."
        return
    rows = list[list[object]]()
    for category in [*dict.fromkeys(one.category for one in verdicts), "all"]:
        for mode in MODES:
            found = [one for one in verdicts if one.asked.mode == mode and category in {one.category, "all"}]
            kinds = Counter(one.kind for one in found)
            low, high = wilson(kinds["right"], len(found))
            share = f"{100 * kinds['right'] / len(found):.0f}% ({100 * low:.0f} to {100 * high:.0f})"
            counts = [kinds[kind] for kind in ("right", "other", "invalid", "none")]
            tokens = [sum(one.asked.output_tokens for one in found) // len(found)]
            rows.append([category, mode, len(found), share, *counts, sum(one.reached for one in found), *tokens])
    head = ["category", "mode", "cases", "right, 95% interval", "right", "other", "invalid", "none", "reached"]
    yield table([*head, "tokens written"], rows)
    yield table(
        ["json against", "category", "only json right", "only the other", "difference, 95% interval", "p"],
        _compared(verdicts),
    )
    reasons = Counter((one.asked.mode, one.kind, one.reason) for one in verdicts if one.kind != "right")
    yield table(["mode", "kind", "reason", "cases"], [[*key, number] for key, number in sorted(reasons.items())])


def _compared(verdicts: Sequence[Verdict]) -> Iterator[list[object]]:
    for other in MODES[1:]:
        for category in [*dict.fromkeys(one.category for one in verdicts), "all"]:
            chosen = [one for one in verdicts if category in {one.category, "all"}]
            right = {(one.asked.case, one.asked.mode): one.kind == "right" for one in chosen}
            names = [*dict.fromkeys(one.asked.case for one in chosen)]
            columns = ([right[name, mode] for name in names] for mode in ("json", other))
            more, less, low, high, p = paired(*columns)
            difference = f"{100 * (more - less) / len(names):+.0f} ({100 * low:+.0f} to {100 * high:+.0f}) points"
            yield [other, category, more, less, difference, f"{p:.2g}"]


async def judge_all(board: Leaderboard, cases: Sequence[Case], replies: Replies) -> list[Verdict]:
    """Return the verdicts on all replies to some cases."""
    found = [(case, replies.by_key.get((case.id, mode))) for case in cases for mode in MODES]
    return [await judged(board, case, asked) for case, asked in found if asked]


def main() -> int:
    """Ask what has no reply yet, and print the figures."""
    given = _arguments()
    board = Leaderboard()
    cases = board.cases(given.cases)
    setup = f"{given.model.name}, context {given.context}, replies of {LONGEST} tokens; {PIN}; {SYSTEM}"
    try:
        replies = Replies(setup, given.json)
    except kept_lines.LinesUnreadable as error:
        sys.exit(f"functions: {error}")
    missing = [case for case in cases if any((case.id, mode) not in replies.by_key for mode in MODES)]
    print(heading("function calling", [PIN]), f"{setup}\n", sep="\n", flush=True)
    code = 0
    try:
        if missing and not given.figures:
            kept_lines.mend(given.json)
            settings = ServerSettings(str(given.model), given.context * given.at_once, slots=given.at_once)
            with llama_server(settings) as server, patch.dict(os.environ, server.environment):
                asyncio.run(ask_all(server, missing, replies, given.at_once))
    except KeyboardInterrupt:
        code = 130
    except (ServerFailed, RunSpecialistError, ExceptionGroup) as error:
        print(f"functions: {_line(error)}", file=sys.stderr)
        code = 1
    print("\n\n".join(figures(asyncio.run(judge_all(board, cases, replies)))))
    print("commits:", *sorted({asked.commit for asked in replies.by_key.values()}))
    return code


def _line(error: BaseException) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.gguf")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each reply, and ask only what it lacks")
    parser.add_argument("--cases", type=int, default=120, metavar="N", help="default: 120; at most 400")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="cases asked at the same time; default: 8")
    parser.add_argument("--context", type=int, default=4096, metavar="N", help="for each case; default: 4096 tokens")
    parser.add_argument("--figures", action="store_true", help="ask nothing; print the figures of the file")
    given = parser.parse_args()
    if not given.figures and not given.model.is_file():
        parser.error(f"no such file: {given.model}")
    if given.json and (given.json.is_dir() or not given.json.absolute().parent.is_dir()):
        parser.error(f"not a file: {given.json}")
    if min(given.cases, given.at_once) < 1:
        parser.error("--cases and --at-once must be at least 1")
    return given


if __name__ == "__main__":
    sys.exit(main())
