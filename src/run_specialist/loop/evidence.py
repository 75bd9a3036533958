"""Check the quotes of an answer against the results of the run, and decide which answers are returned to the model."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from run_specialist.budget import Kind
from run_specialist.loop.job import CallRecord, Job
from run_specialist.loop.support import support_of
from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Child, Evidence, Support
from run_specialist.specialist.tool_names import GET_TOOL_RESPONSE, RESPOND
from run_specialist.tools.files import shown_lines, unclipped
from run_specialist.tools.respond import MOST_EVIDENCE, PLACE, Citation, Response

# Maximum length of one result in a salvaged answer [characters].
_SALVAGED_RESULT = 600
SALVAGED_TOTAL = 6_000
"""Maximum length of all results in a salvaged answer [characters]."""
_SALVAGED = "[No finished answer: "
# Maximum length of the line that shows a call [characters].
_LABEL_LENGTH = 200
GATHERED_QUOTE = 400
"""Maximum length of the quote taken from one result when there is no answer [characters]."""

_NOTICE = re.compile(r"^\[[^\] \n]* .*\]$", re.MULTILINE)
# Replaces a notice, so that no quote matches across it; a lone surrogate, which no valid text contains.
_GAP = "\ud800"
_LINE_PREFIX = re.compile(r"^(?:[^\n:]+:\d+[:-] ?|[ \t]*\d+\t)", re.MULTILINE)
_RESULT = re.compile(r"^\[(r\d+) .*\]$", re.MULTILINE)
MOST_LINES = 20
"""Maximum number of lines that a reference quotes."""


def check(
    claims: Iterable[tuple[str, str]], executed: Sequence[CallRecord], proven: Iterable[str] = ()
) -> tuple[Evidence, ...]:
    """Search the results of successful calls for each quote, ignoring differences in white space.

    claims: pairs of source and quote, as the model gave them.
    proven: further texts known to be in a source, such as the verified quotes of children.
    """
    claims = tuple(claims)
    # Folding all results takes as long as a request.
    if not claims:
        return ()
    texts = [*(call.text for call in executed if not call.is_error), *proven]
    results = [form for text in texts for form in forms(text)]
    return tuple(Evidence(source, quote, verified=is_in(results, quote)) for source, quote in claims)


def forms(text: str) -> tuple[str, str]:
    """Return the forms of a result that are searched for a quote: with and without line prefixes."""
    # Without the line prefixes that tools add, a quote over several lines is found. Notices of tools, in brackets,
    # may repeat the model's arguments and are not evidence.
    without_notices = _NOTICE.sub(_GAP, text)
    return _fold(without_notices), _fold(_LINE_PREFIX.sub("", without_notices))


def is_in(results: Iterable[str], quote: str) -> bool:
    """Return True if one of the results contains the quote.

    results: the `forms` of each result.
    """
    folded = _fold(_NOTICE.sub(_GAP, quote))
    return bool(folded.strip(f"{_GAP} ")) and any(folded in result for result in results)


def gathered(executed: Sequence[CallRecord]) -> tuple[Evidence, ...]:
    """Return the beginning of each result as evidence, for a run without an answer."""
    return tuple(Evidence(label(call.call), call.text[:GATHERED_QUOTE], verified=True) for call in _useful(executed))


def salvage(why: str, text: str, executed: Sequence[CallRecord]) -> str:
    """Build an answer from the model's last text and the results; empty if there is neither.

    why: the reason for the missing answer, in one clause.
    """
    parts, characters_left = [], SALVAGED_TOTAL
    # Newest first: if not all results fit, the newest are the most likely to bear on the answer.
    for call in reversed(_useful(executed)):
        part = f"{label(call.call)}\n{_excerpt(call.text, _SALVAGED_RESULT)}"
        if len(part) > characters_left:
            break
        parts.append(part)
        characters_left -= len(part)
    if not text and not parts:
        return ""
    head = f"{_SALVAGED}{why}. This is what was gathered until then.]"
    return "\n\n".join(part for part in (head, text, *parts) if part)


def is_salvaged(answer: str) -> bool:
    """Return whether an answer was built by `salvage`; it contains unchanged results, which are not Markdown."""
    return answer.startswith(_SALVAGED)


def _useful(executed: Sequence[CallRecord]) -> list[CallRecord]:
    return [call for call in executed if not call.is_error and call.text.strip()]


def label(call: ToolCall) -> str:
    """Return the call on one line, as the source of its result."""
    return _excerpt(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}", _LABEL_LENGTH)


def _excerpt(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 2] + " …"


def _fold(text: str) -> str:
    return " ".join(text.split())


# Look up the quotes of an answer in the results that the run read, and enforce `evidence: require`.
#
# Which quotes count: those in `evidence` of `respond`, and under `require` also those in the `evidence` of an answer
# with a schema. Where they count as found: in the results of the run's own calls, and in the verified quotes of its
# children.

QUOTE_NOT_FOUND = "quote not found in the tool results"
NOT_SHOWN = "no result showed these lines"
NOTHING_READ = "nothing was read: the answer came without a tool call and without a quote"


def quotes(
    job: Job, response: Response, executed: Sequence[CallRecord], children: Iterable[Child]
) -> tuple[Evidence, ...]:
    """Return the quotes of an answer, each looked up in the results, unless the policy is `off`.

    executed: the calls that count as read.
    """
    claims = tuple(_claims(job, response))
    if job.settings.evidence == "off":
        return tuple(Evidence(source, quote, verified=None) for source, quote in claims)
    by_children, own = proven(children), own_calls(job, executed)
    filled: list[Evidence | None] = [None] * len(claims)
    if any(source and not quote for source, quote in claims):
        shown, of_children = lines_shown(own), {one.source: one for one in by_children}
        filled = [None if quote else _filled(source, shown) or of_children.get(source) for source, quote in claims]
    given = [claim for claim, one in zip(claims, filled, strict=True) if one is None]
    checked = iter(check(given, own, [*(quote.quote for quote in by_children), *job.proven]))
    return tuple(one or next(checked) for one in filled)


Lines = dict[str, dict[int, str]]
"""Lines that results showed, by path and number."""


def lines_shown(executed: Iterable[CallRecord]) -> Lines:
    """Return the numbered lines in the results of successful calls; of a long line, the longest part.

    The path of a line is that of its file, or the name of its result, such as `r3`.
    """
    shown: Lines = {}
    for call in executed:
        text, name, path = call.text, call.call.name, None
        if name == "read":
            path = str((call.call.arguments or {}).get("path", "")).removeprefix("./")
        elif name not in {"search", "grep"}:
            found = _RESULT.search(text)
            path, text = (found[1], text[found.end() :]) if found else ("", "")
        for of_line, number, line in () if call.is_error else shown_lines(text, path, around=name == "grep"):
            lines = shown.setdefault(of_line, {})
            lines[number] = max(lines.get(number, ""), unclipped(line), key=len)
    return shown


def _filled(source: str, shown: Lines) -> Evidence | None:
    """Return the lines to which a source without a quote refers; None if they were not shown."""
    if (place := PLACE.fullmatch(source.strip())) is None:
        return None
    path, first, last = place[1].removeprefix("./"), int(place[2]), int(place[3] or place[2])
    # A base name is enough if it is unique.
    paths = [path] if path in shown else [one for one in shown if one.endswith(f"/{path}")]
    if len(paths) != 1:
        return None
    lines = shown[paths[0]]
    wanted = sorted(number for number in lines if first <= number <= last)[:MOST_LINES]
    # A quote has no gaps: it ends before the first line that was not shown.
    wanted = [number for at, number in enumerate(wanted) if number - wanted[0] == at]
    quote = "\n".join(lines[number] for number in wanted)
    to = f"-{wanted[-1]}" if len(wanted) > 1 else ""
    return Evidence(f"{paths[0]}:{wanted[0]}{to}", quote, verified=True) if quote.strip() else None


def support(job: Job, response: Response, checked: tuple[Evidence, ...]) -> tuple[Support, ...]:
    """Return what bears out the sentences of an answer; none for quotes without a model, and for JSON values."""
    if response.output is not None or not job.provider.capabilities.is_language_model:
        return ()
    return support_of(response.answer, checked, "\n".join([job.question, *job.further]))


def own_calls(job: Job, executed: Iterable[CallRecord]) -> list[CallRecord]:
    """Return the calls whose text is evidence; the text of a child is not."""
    return [call for call in executed if not job.opening.tools.runs_child(call.call.name)]


def proven(children: Iterable[Child]) -> list[Evidence]:
    """Return the quotes that children have read themselves."""
    return [quote for child in children for quote in child.evidence if quote.verified]


def warnings(job: Job, response: Response | None, checked: Sequence[Evidence], calls: int) -> list[str]:
    """Return a warning for each quote that was not found, or one if nothing was read at all.

    response: the model's answer; None if it is salvaged.
    calls: tool calls that were run.
    """
    not_found = []
    for quote in checked:
        if quote.verified is False:
            source = f"{quote.source}: " if quote.source else ""
            lost = f"{QUOTE_NOT_FOUND}: {source}{quote.quote!r}"
            not_found.append(lost if quote.quote else f"{NOT_SHOWN}: {quote.source}")
    could_read = job.budget[Kind.TOOL_CALLS].limit != 0 and set(job.opening.tools.names) - {RESPOND, GET_TOOL_RESPONSE}
    if response is not None and not (checked or response.question) and calls == 0 and could_read:
        not_found.append(NOTHING_READ)
    return not_found


def _claims(job: Job, response: Response) -> Iterator[tuple[str, str]]:
    """Yield source and quote of each piece of evidence."""
    claims = list(response.evidence)
    if job.settings.evidence == "require" and isinstance(response.output, Mapping):
        items = response.output.get("evidence")
        parsed = map(Citation.parse, items if isinstance(items, list) else ())
        claims += [claim for claim in parsed if claim and claim not in response.evidence][:MOST_EVIDENCE]
    for claim in claims:
        yield claim.source, claim.quote


class ReturnReason(StrEnum):
    """Why an answer was returned to the model."""

    TOO_EARLY = "too_early"
    """The same turn contained calls whose results it could not take into account."""
    WITHOUT_QUOTE = "without_quote"
    """None of its quotes was found in the results."""
    NOT_BORNE_OUT = "not_borne_out"
    """Its evidence lacks facts of its sentences."""


MARKS = {
    ReturnReason.TOO_EARLY: "[given before the results of the last calls were read]",
    ReturnReason.WITHOUT_QUOTE: "[no quote of this answer was found in what was read]",
    ReturnReason.NOT_BORNE_OUT: "[its evidence does not bear out every sentence of this answer]",
}
"""The line that is appended to a returned answer if no other answer followed."""


class ReturnedAnswers:
    """Records why answers were returned, even across an interruption of the run."""

    def __init__(self, job: Job) -> None:
        """Start with the reasons from before the run was resumed; a follow-up question clears them."""
        snapshot, note = job.resume_state.snapshot, job.resume_note
        is_new_question = note is not None and note.question is not None
        self._schema = job.answer_schema
        self.reasons: tuple[str, ...] = () if is_new_question else snapshot.returned
        self.newest: Mapping[str, Any] | None = None if is_new_question else snapshot.returned_answer
        """The newest returned answer, as the input of `respond`."""

    def add(self, why: ReturnReason, response: Response) -> None:
        """Record a returned answer; an empty one is not kept."""
        self.reasons = (*self.reasons, why)
        if response.answer.strip():
            self.newest = response.model_dump()

    @property
    def newest_marked(self) -> Response | None:
        """The newest returned answer, marked with the reason; None if there is none."""
        if self.newest is None:
            return None
        response = Response.parse(self.newest, self._schema)
        marks = [MARKS[why] for why in ReturnReason if why in self.reasons[-1:]]
        return response.model_copy(update={"answer": "\n".join([response.answer.rstrip(), *marks])})
