"""The search that precedes the first request: its best passages are sent with the question.

The call is counted, stored and shown like any other. The passages follow from its result alone, so that a replay finds
the same ones.
"""

import asyncio
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from run_specialist import prompts
from run_specialist.budget import Phase
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.ending import Ending
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import CallRecord, RunContext
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.providers.base import Choice
from run_specialist.providers.local_servers import prefix_of
from run_specialist.record.messages import Reply, Stop, ToolCall
from run_specialist.record.outcome import Status
from run_specialist.tools.files import ShownLine, shown_lines, word_counts
from run_specialist.tools.respond import Citation, Response
from run_specialist.tools.search import content_terms, stems

TOOL = "search"
MOST_PASSAGES = 5
# Maximum length of a passage [characters].
_LONGEST_PASSAGE = 400
LONGEST_SEARCH = 5.0
"""Timeout of the search, most of which is spent on the index [s]."""

# Maximum number of lines that the program adds to the quotes of a short reply.
_MOST_ADDED = 2
# Tools beside which the short request is possible.
_ONLY_READ = {"search", "grep", "glob", "read", "ls", "respond", "get_tool_response"}

_TOTAL = re.compile(r"best of (?:the passages of )?(\d+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"(])")
# Length above which a line is split into sentences [characters].
_LONG_LINE = 240
# Assumed number of passages that contain a word, if the search does not tell.
_FREQUENT = 10


class FirstSearch:
    """The first call of a new run, which the program makes; for a local model, the short request after it, too.

    The short request has its own system prompt and no tools. If its reply names lines by their numbers, the run is
    answered; otherwise the run begins with its own system prompt.
    """

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, checkpoint: Checkpoint) -> None:
        self._run, self._exchange, self._dispatcher, self._checkpoint = run, exchange, dispatcher, checkpoint
        self.is_short = False
        """Whether the short request is the next one, or its reply has not been acted upon."""
        # What a short reply refers to, and the first message of the run.
        self._lines: list[ShownLine] = []
        self._message = ""
        # The names of the question that occur in no file.
        self._unknown = ""

    async def begin(self) -> None:
        """Search for the question, and put the best passages into the first message; nothing if the run has one."""
        job, pending = self._run.job, self._run.job.resume_state.pending
        if pending is not None and pending.choice == Choice.SCHEMA and not pending.landing:
            # The reply to the short request has arrived, but was not acted upon.
            self._prepare(self._dispatcher.executed[0])
            self.is_short = True
        tool = job.opening.tools.get(TOOL)
        can_search = tool is not None and {"query", "limit"} <= {*tool.input_schema.get("properties", {})}
        is_off = job.settings.first_search != "on" or not can_search
        if is_off or job.resume_state.messages or self._run.account.budget.phase is Phase.SPENT:
            return
        call = ToolCall("first_search", TOOL, {"query": job.question, "limit": MOST_PASSAGES})
        try:
            (result,) = await self._dispatcher.run([call], 1, LONGEST_SEARCH)
        except asyncio.CancelledError:
            self._dispatcher.close([call])
            raise
        (record,) = self._dispatcher.executed
        if record.is_error:
            self._run.observers.warn(f"first_search: {record.text}; the run begins without it")
            return
        _, _, added = result.content.partition("\n".join(record.lines))
        short = self._prepare(record, added.strip("\n"))
        self._exchange.has_passages = True
        if self.may_be_short():
            number = {"type": "integer", "enum": list(range(1, len(self._lines) + 1))}
            properties = {"quotes": {"type": "array", "items": number, "maxItems": 4}, "answer": {"type": "string"}}
            schema = {"type": "object", "properties": properties, "additionalProperties": False}
            self._exchange.begin_short(prompts.SHORT, short, {**schema, "required": [*properties]})
            self.is_short = True
        else:
            self._exchange.transcript.say(self._message)

    def may_be_short(self) -> bool:
        """Return whether the answer may consist of lines of the passages, and the model is a local one."""
        job = self._run.job
        is_plain = job.answer_schema is None and job.settings.evidence != "off" and job.settings.offline != "refuse"
        is_local = prefix_of(job.provider.model) is not None and job.opening.tool_calls == "json"
        can_answer = bool(self._lines) and not self._unknown
        return can_answer and is_plain and is_local and {*job.opening.tools.names} <= _ONLY_READ

    def ending(self, status: Status, response: Response) -> Ending:
        """Return how a run ends with an answer: as `partial` if names of its question occur in no file.

        Small models answer such questions nevertheless.
        """
        if not self._unknown or prefix_of(self._run.job.provider.model) is None:
            return Ending(status, response)
        gaps = [*response.gaps, f"{self._unknown}: in no file"]
        return Ending("partial", response.model_copy(update={"gaps": gaps}), f"weak match: {self._unknown} in no file")

    def _prepare(self, record: CallRecord, added: str = "") -> str:
        """Make the first message from the result of the search; return that of the short request.

        added: lines below the result, such as the countdown.
        """
        question, absent = self._run.job.question, word_counts(record.text)[1]
        names = (word for word in absent.split(", ") if not (word.islower() or question.lstrip().startswith(word)))
        self._unknown = ", ".join(word for word in names if word != "…")
        whole, numbered = [], []
        for heading, lines in passages(record.text, question):
            whole.append("\n".join(f"{path}:{number}: {text}" for path, number, text in (*heading, *lines)))
            texts = [f"[{place}] {line[2]}" for place, line in enumerate(lines, len(self._lines) + 1)]
            title = "".join(f" ({line[2].lstrip('# ')})" for line in heading)
            numbered.append("\n".join([f"{lines[0][0]}{title}", *texts]))
            self._lines += lines
        found = "\n\n".join([prompts.FOUND, *whole]) if whole else ""
        self._message = prompts.with_passages(found, absent, added, question)
        return prompts.with_passages("\n\n".join(numbered), absent, "", question)

    def response(self, reply: Reply) -> Response | None:
        """Return the answer in the reply to the short request, with its lines as evidence; None without any."""
        try:
            given = json.loads(reply.text)
            answer, numbers = str(given["answer"]), dict.fromkeys(given["quotes"])
            chosen = [self._lines[number - 1] for number in numbers if number > 0]
        except (ValueError, TypeError, LookupError, RecursionError):
            return None
        says_nothing = not answer.strip() or prompts.SAYS_NOTHING.rstrip(".") in answer
        if reply.stop is not Stop.ANSWERED or not chosen or says_nothing:
            return None
        # Lines for the words of the answer that neither the quotes nor the question contain.
        known = stems(" ".join([self._run.job.question, *(text for _, _, text in chosen)]))
        missing = stems(" ".join(content_terms(answer))) - known
        for _ in range(_MOST_ADDED):
            best = max(self._lines, key=lambda line: len(missing & stems(line[2])))
            if missing & stems(best[2]):
                chosen.append(best)
                missing -= stems(best[2])
        evidence = [Citation(source=f"{path}:{number}", quote=text) for path, number, text in chosen]
        return Response(answer=answer, evidence=evidence)

    def leave_short(self, reply: Reply | None = None) -> bool:
        """Begin the conversation of the run after the short request; return False if that is over.

        reply: the reply to it; None if there is none.
        """
        if not self.is_short:
            return False
        self.is_short = False
        if reply is not None and reply.stop is not Stop.REFUSED:
            self._exchange.enter(reply, ())
        self._run.observers.record(self._checkpoint.new_record())
        self._exchange.restart(self._message)
        return True


def passages(result: str, question: str) -> Iterator[tuple[Sequence[ShownLine], Sequence[ShownLine]]]:
    """Yield the heading, if any, and the consecutive lines that match best, of each passage in a search result."""
    weights = _weights(result, question)
    for block in result.split("\n\n"):
        lines = list(shown_lines(block))
        heading = [line for line in lines[:1] if line[2].startswith("#") and lines[1:]]
        units = list(_units(lines[len(heading) :]))
        # A window is consecutive lines that fit, or one line.
        windows = [units[begin:end] for begin, end in combinations(range(len(units) + 1), 2)]
        fitting = [one for one in windows if len(one) == 1 or sum(len(line[2]) + 1 for line in one) <= _LONGEST_PASSAGE]
        if fitting:
            yield heading, max(fitting, key=lambda lines: (_value(lines, weights), len(lines)))


def _weights(result: str, question: str) -> Mapping[str, float]:
    """Return the rarity of each stem of the question, from the counts below a search result."""
    counts, _ = word_counts(result)
    total = _TOTAL.search(result)
    size = int(total[1]) if total else _FREQUENT
    rarity = {term: math.log(1 + size / counts.get(term, _FREQUENT)) for term in content_terms(question)}
    return {stem: rarity[term] for term in rarity for stem in stems(term)}


def _units(lines: Iterable[ShownLine]) -> Iterable[ShownLine]:
    """Yield short lines whole, and the sentences of long ones, each cut to the length of a passage."""
    for path, number, text in lines:
        for part in _SENTENCE_END.split(text) if len(text) > _LONG_LINE else [text]:
            cut = part[:_LONGEST_PASSAGE]
            yield path, number, part if part == cut else cut.rpartition(" ")[0] or cut


def _value(lines: Sequence[ShownLine], weights: Mapping[str, float]) -> float:
    found = [stem for _, _, text in lines for stem in stems(text) & weights.keys()]
    return sum(weights[stem] for stem in {*found}) + 0.05 * sum(weights[stem] for stem in found)
