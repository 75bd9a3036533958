"""Summarise and archive what a plan says: ask for notes on each chunk, make one summary of them, rebuild."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from run_specialist import prompts
from run_specialist.errors import ProviderError
from run_specialist.loop.compaction.plan import CHARACTERS_A_TOKEN, Plan, estimate, packed, plan, tokens
from run_specialist.loop.observing import telemetry
from run_specialist.providers.base import Choice, Opening, Provider, Request
from run_specialist.record.messages import Message, Stop, Usage
from run_specialist.tools.archive import Archive
from run_specialist.tools.base import Toolset

SUMMARY_LIMIT = 4_000
"""The most that a summary takes unless the file says otherwise [tokens]."""
SHARE_OF_TARGET = 2
"""By default it takes no more than this part of what is aimed at."""
CHUNK = 40_000
"""What goes into one request at most: notes on more would be thin, and a small context must hold it [tokens]."""
ROOM_TO_THINK = 4_000
"""A reply may hold so much beside the notes, because many models think first, and pay for it from the same purse."""
PARALLEL = 3
"""Requests under way at once."""
MOST_MERGES = 3
"""Rounds in which notes are merged before they are cut."""
WORDS_A_TOKEN = 0.6
LEAST_WORDS = 50
BETWEEN = "\n\n"
CUT = f"\n{prompts.TRUNCATED}"


@dataclass(frozen=True, slots=True)
class Summary:
    """What one pass made of a transcript."""

    history: list[Message]
    """The transcript to go on with; messages that did not change are the same objects."""
    summary: str
    archived: int
    """How many outputs left the transcript."""
    tokens_before: int
    tokens_after: int
    """Estimate of the next request."""
    warnings: list[str]


class Summarizer:
    """Shortens the transcript of one run, as often as it grows too long."""

    def __init__(
        self,
        provider: Provider,
        archive: Archive,
        summarize_at: int | None,
        context_target: int | None = None,
        summary_limit: int | None = None,
    ) -> None:
        """Take the model that writes the notes, and the place where the outputs stay readable.

        summarize_at: what the transcript grows to before a pass; None = what it has when there is one [tokens].
        context_target: what it should come down to; None = half of that [tokens].
        summary_limit: of the whole summary; None = 4,000, in a small context half of the target [tokens].
        """
        self._provider = provider
        self._archive = archive
        self._summarize_at = summarize_at
        self._context_target = context_target
        self._summary_limit = summary_limit
        self._missed_before = False

    async def summarise(
        self, history: Sequence[Message], tokens_before: int, pay: Callable[[Usage], None]
    ) -> Summary | None:
        """Summarise the oldest turns; None when there is nothing that could be.

        tokens_before: of the next request if nothing is done.
        pay: called with the usage of each request as it is answered.
        """
        full = tokens_before if self._summarize_at is None else self._summarize_at
        target = full // 2 if self._context_target is None else self._context_target
        small = min(SUMMARY_LIMIT, max(target // SHARE_OF_TARGET, 1))
        limit = small if self._summary_limit is None else self._summary_limit
        chunk_size = min(CHUNK, max(full // 2, 1))
        found = plan(history, size=tokens_before, target=target, summary_limit=limit, chunk_size=chunk_size)
        if found is None:
            return None
        notes = _Notes(self._provider, found.question, limit, max(chunk_size, 2 * limit), pay)
        summary = await notes.on(found)
        for pair in found.archived:
            # What was skipped, or ran before a resumption, the archive has not seen.
            if pair.call.id not in self._archive:
                self._archive.add(pair.call.id, pair.result)
        rebuilt = found.rebuild(summary)
        tokens_after = max(tokens_before - estimate(None, history), 0) + estimate(None, rebuilt)
        if tokens_after > target and not self._missed_before:
            self._missed_before = True
            notes.warnings.append(
                f"summarising left about {tokens_after} tokens of context, and context_target is {target}"
            )
        return Summary(rebuilt, summary, len(found.archived), tokens_before, tokens_after, notes.warnings)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What came of one request."""

    text: str
    problem: str = ""
    """Why there is no text."""


@dataclass
class _Notes:
    """The notes of one pass in the making."""

    provider: Provider
    question: str
    limit: int
    """Of all of them together [tokens]."""
    chunk_size: int
    """What goes into one request; two whole sets of notes at least [tokens]."""
    pay: Callable[[Usage], None]
    """Gets that of each request as it is answered."""
    warnings: list[str] = field(default_factory=list)

    async def on(self, found: Plan) -> str:
        """Return the summary: the earlier one and the notes on each chunk, in one, and what has no notes."""
        earlier, gaps = _apart(found.earlier)
        words = self._words(len(found.chunks) + bool(earlier))
        texts = (BETWEEN.join(unit.text for unit in chunk) for chunk in found.chunks)
        told = await self._ask_all([prompts.to_summarise(self.question, text, words) for text in texts])
        for chunk, one in zip(found.chunks, told, strict=True):
            if one.problem:
                calls = [f"{call.name} ({call.id})" for unit in chunk for call in unit.calls]
                gaps.append(prompts.not_summarised(calls, one.problem))
                self.warnings.append(f"a part of the context could not be summarised: {one.problem}")
        notes = [text for text in (earlier, *(one.text for one in told)) if text]
        # What says that something is missing is neither merged nor cut, but it must not crowd out the notes.
        room = max(self.limit - _size(gaps), self.limit // 2)
        return BETWEEN.join([*self._cut(await self._merged(notes, room), room), *gaps])

    async def _merged(self, notes: list[str], limit: int) -> list[str]:
        """Merge notes until they fit; a round that does not shorten them is the last."""
        for _ in range(MOST_MERGES):
            size = _size(notes)
            if size <= limit:
                break
            groups = packed(notes, lambda text: tokens(len(text)), self.chunk_size)
            words = self._words(len(groups))
            told = await self._ask_all(
                [prompts.to_merge(self.question, BETWEEN.join(group), words) for group in groups]
            )
            self.warnings += [f"notes could not be merged: {one.problem}" for one in told if one.problem]
            merged = [
                text
                for group, one in zip(groups, told, strict=True)
                for text in (group if one.problem else (one.text,))
            ]
            if _size(merged) >= size:
                break
            notes = merged
        return notes

    async def _ask_all(self, texts: Sequence[str]) -> list[_Pieces]:
        gate = asyncio.Semaphore(PARALLEL)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(text, gate)) for text in texts]
        return [task.result() for task in tasks]

    async def _ask(self, text: str, gate: asyncio.Semaphore) -> _Pieces:
        conversation = self.provider.open(Opening(prompts.SUMMARY, Toolset([])))
        room = min(self.limit + ROOM_TO_THINK, self.provider.capabilities.max_output_tokens)
        async with gate:
            try:
                with telemetry.chat(self.provider, room) as span:
                    reply = await conversation.ask(Request([Message.user(text)], Choice.AUTO, room))
                    guess = Usage(tokens(len(prompts.SUMMARY) + len(text)), 0, 0, tokens(len(reply.text)))
                    usage = reply.usage if reply.usage.total_tokens else guess
                    span.replied(reply, usage)
            except ProviderError as error:
                return _Pieces("", " ".join(str(error).split()))
            except Exception as error:  # noqa: BLE001 - the run can go on without these notes, whatever it was
                return _Pieces("", repr(error))
        self.pay(usage)
        if reply.stop is Stop.REFUSED:
            return _Pieces("", f"the model refused ({reply.reason})")
        if not reply.text:
            return _Pieces("", "the model wrote nothing")
        return _Pieces(reply.text + (CUT if reply.stop is Stop.TRUNCATED else ""))

    def _words(self, sets: int) -> int:
        """Return how long each of so many sets of notes may be."""
        return max(int(self.limit * WORDS_A_TOKEN / sets), LEAST_WORDS)

    def _cut(self, notes: list[str], limit: int) -> list[str]:
        """Cut what is still too long, each set of notes alike."""
        if _size(notes) <= limit:
            return notes
        self.warnings.append("a summary was longer than summary_limit and was cut")
        each = limit * CHARACTERS_A_TOKEN // len(notes) - len(BETWEEN)
        return [text if len(text) <= each else f"{text[: max(each - len(CUT), 0)]}{CUT}" for text in notes]


def _size(notes: Sequence[str]) -> int:
    return tokens(len(BETWEEN.join(notes)))


def _apart(summary: str) -> tuple[str, list[str]]:
    """Part an earlier summary from its lines on what could not be summarised."""
    lines = summary.split("\n")
    gaps = [line for line in lines if line.startswith(prompts.NOT_SUMMARISED)]
    return "\n".join(line for line in lines if line not in gaps).strip(), gaps
