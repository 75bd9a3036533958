"""Shorten a transcript: request notes on each chunk of a plan, merge them into one summary, archive the outputs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from run_specialist.errors import ProviderError
from run_specialist.loop import observing
from run_specialist.loop.compaction import CHARACTERS_PER_TOKEN, CompactionPlan, estimate, packed, plan, tokens
from run_specialist.loop.retries import Ask
from run_specialist.prompts import NOT_SUMMARIZED, SYSTEM_PROMPT, TRUNCATED, not_summarized, to_merge, to_summarize
from run_specialist.providers.base import Choice, Opening, Provider, Request
from run_specialist.record.messages import Message, Stop, Usage
from run_specialist.tools.archive import Archive
from run_specialist.tools.base import Toolset

SUMMARY_LIMIT = 4_000
"""Default maximum size of a summary [tokens]."""
# By default a summary takes at most one part in this many of the target.
_SHARE_OF_TARGET = 2
# Maximum input of one request for notes: more would give thin notes and not fit a small context [tokens].
_CHUNK_SIZE = 40_000
# Output allowed in addition to the notes, because many models think first, within the same `max_tokens` [tokens].
_REASONING_TOKENS = 4_000
MAX_CONCURRENT_REQUESTS = 3
# Rounds in which notes are merged before they are cut.
_MAX_MERGE_ROUNDS = 3
WORDS_PER_TOKEN = 0.6
MIN_WORDS = 50
SEPARATOR = "\n\n"
CUT_MARK = f"\n{TRUNCATED}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of one pass."""

    history: list[Message]
    """The shortened transcript; unchanged messages are the same objects."""
    summary: str
    archived: int
    """Outputs removed from the transcript and archived."""
    tokens_after: int
    """Estimated size of the next request."""
    warnings: list[str]


@dataclass
class Summarizer:
    """Shortens the transcript of one run each time it grows too long."""

    provider: Provider
    """The model that writes the notes."""
    archive: Archive
    """Keeps the outputs."""
    summarize_at: int | None
    """Size at which a pass starts; None = its size when the context is full [tokens]."""
    context_target: int | None = None
    """Size to reduce the transcript to; None = half of `summarize_at` [tokens]."""
    summary_limit: int | None = None
    """Maximum size of the summary; None = 4,000, or half of a smaller target [tokens]."""
    _has_missed_target: bool = False

    async def summarize(
        self, history: Sequence[Message], tokens_before: int, pay: Callable[[Usage], None], ask: Ask
    ) -> Summary | None:
        """Summarize the oldest turns; None if there is nothing to summarize.

        tokens_before: size of the next request without summarizing.
        pay: called with the usage of each request once it is answered.
        """
        full = tokens_before if self.summarize_at is None else self.summarize_at
        target = full // 2 if self.context_target is None else self.context_target
        default_limit = min(SUMMARY_LIMIT, max(target // _SHARE_OF_TARGET, 1))
        limit = default_limit if self.summary_limit is None else self.summary_limit
        chunk_size = min(_CHUNK_SIZE, max(full // 2, 1))
        planned = plan(history, size=tokens_before, target=target, summary_limit=limit, chunk_size=chunk_size)
        if planned is None:
            return None
        notes = _NoteTaker(self.provider, planned.question, limit, max(chunk_size, 2 * limit), pay, ask)
        summary = await notes.on(planned)
        for pair in planned.archived:
            # The archive lacks the results of skipped calls, and of calls before the run was resumed.
            if pair.call.id not in self.archive:
                self.archive.add(pair.call.id, pair.result)
        rebuilt = planned.rebuild(summary)
        tokens_after = max(tokens_before - estimate(history), 0) + estimate(rebuilt)
        if tokens_after > target and not self._has_missed_target:
            self._has_missed_target = True
            notes.warnings.append(
                f"after summarizing, the context still has about {tokens_after} tokens; context_target is {target}"
            )
        return Summary(rebuilt, summary, len(planned.archived), tokens_after, notes.warnings)


@dataclass
class _NoteTaker:
    """Requests the notes of one pass, and merges them."""

    provider: Provider
    question: str
    # Maximum size of all notes together [tokens].
    limit: int
    # Maximum input of one request; at least two complete sets of notes [tokens].
    chunk_size: int
    # Called with the usage of each request once it is answered.
    pay: Callable[[Usage], None]
    # Sends each request.
    ask: Ask
    warnings: list[str] = field(default_factory=list)

    async def on(self, planned: CompactionPlan) -> str:
        """Return the summary: the earlier notes and those on each chunk, then a line for each chunk without notes."""
        # An earlier summary: its notes, and its lines on results that could not be summarized.
        lines = planned.earlier.split("\n")
        gaps = [line for line in lines if line.startswith(NOT_SUMMARIZED)]
        earlier = "\n".join(line for line in lines if line not in gaps).strip()
        words = self._words_per_set(len(planned.chunks) + bool(earlier))
        texts = (SEPARATOR.join(unit.text for unit in chunk) for chunk in planned.chunks)
        answers = await self._ask_all([to_summarize(self.question, text, words) for text in texts])
        for chunk, (_, problem) in zip(planned.chunks, answers, strict=True):
            if problem:
                calls = [f"{call.name} ({call.id})" for unit in chunk for call in unit.calls]
                gaps.append(not_summarized(calls, problem))
                self.warnings.append(f"a part of the context could not be summarized: {problem}")
        notes = [text for text in (earlier, *(text for text, _ in answers)) if text]
        # The lines on missing notes are neither merged nor cut, but at least half of the limit is left for the notes.
        limit = max(self.limit - _size(gaps), self.limit // 2)
        return SEPARATOR.join([*self._cut(await self._merged(notes, limit), limit), *gaps])

    async def _merged(self, notes: list[str], limit: int) -> list[str]:
        """Merge notes until they fit; stop after a round that does not shorten them."""
        for _ in range(_MAX_MERGE_ROUNDS):
            size = _size(notes)
            if size <= limit:
                break
            groups = packed(notes, lambda text: tokens(len(text)), self.chunk_size)
            words = self._words_per_set(len(groups))
            answers = await self._ask_all([to_merge(self.question, SEPARATOR.join(group), words) for group in groups])
            self.warnings += [f"notes could not be merged: {problem}" for _, problem in answers if problem]
            merged: list[str] = []
            for group, (new, problem) in zip(groups, answers, strict=True):
                merged += group if problem else [new]
            if _size(merged) >= size:
                break
            notes = merged
        return notes

    async def _ask_all(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        gate = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(text, gate)) for text in texts]
        return [task.result() for task in tasks]

    async def _ask(self, text: str, gate: asyncio.Semaphore) -> tuple[str, str]:
        """Return the notes that a model writes, or else why there are none."""
        conversation = self.provider.open(Opening(SYSTEM_PROMPT, Toolset([])))
        max_tokens = min(self.limit + _REASONING_TOKENS, self.provider.capabilities.max_output_tokens)
        async with gate:
            try:
                with observing.chat(self.provider, max_tokens) as span:
                    request = Request([Message.user(text)], Choice.AUTO, max_tokens)
                    reply = await self.ask(conversation, request)
                    estimated = Usage(tokens(len(SYSTEM_PROMPT) + len(text)), 0, 0, tokens(len(reply.text)))
                    usage = reply.usage if reply.usage.total_tokens else estimated
                    span.replied(reply, usage)
            except ProviderError as error:
                return "", " ".join(str(error).split())
            except Exception as error:  # noqa: BLE001 - the run can continue without these notes
                return "", repr(error)
        self.pay(usage)
        if reply.stop is Stop.REFUSED:
            return "", f"the model refused ({reply.reason})"
        if not reply.text:
            return "", "the model wrote nothing"
        return reply.text + (CUT_MARK if reply.stop is Stop.TRUNCATED else ""), ""

    def _words_per_set(self, sets: int) -> int:
        """Return the maximum length of each set of notes [words].

        sets: of notes that share the limit.
        """
        return max(int(self.limit * WORDS_PER_TOKEN / sets), MIN_WORDS)

    def _cut(self, notes: list[str], limit: int) -> list[str]:
        """Cut each set of notes to the same length if together they exceed the limit."""
        if _size(notes) <= limit:
            return notes
        self.warnings.append("a summary was longer than summary_limit and was cut")
        each = limit * CHARACTERS_PER_TOKEN // len(notes) - len(SEPARATOR)
        return [text if len(text) <= each else f"{text[: max(each - len(CUT_MARK), 0)]}{CUT_MARK}" for text in notes]


def _size(notes: Sequence[str]) -> int:
    return tokens(len(SEPARATOR.join(notes)))
