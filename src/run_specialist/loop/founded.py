"""Look up the quotes of an answer in the results that the run read, and enforce `evidence: require`.

Which quotes count: those in `evidence` of `respond`, and under `require` also those in the `evidence` of an answer with
a schema. Where they count as found: in the results of the run's own calls, and in the verified quotes of its children.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from run_specialist.budget.budget import Kind
from run_specialist.loop import evidence
from run_specialist.loop.executed import CallRecord
from run_specialist.loop.job import Job
from run_specialist.record.outcome import Child, Evidence
from run_specialist.tools.archive import NAME as ARCHIVE
from run_specialist.tools.respond import MOST_EVIDENCE, Citation, Response
from run_specialist.tools.respond import NAME as RESPOND

QUOTE_NOT_FOUND = "quote not found in the tool results"
NOT_FOUNDED = "no quote of the answer was found in what was read: {}"
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
    known = [*(quote.quote for quote in proven(children)), *job.proven]
    return evidence.check(claims, own_calls(job, executed), known)


def own_calls(job: Job, executed: Iterable[CallRecord]) -> list[CallRecord]:
    """Return the calls whose text is evidence; the text of a child is not."""
    return [call for call in executed if not job.opening.tools.runs_child(call.call.name)]


def proven(children: Iterable[Child]) -> list[Evidence]:
    """Return the quotes that children have read themselves."""
    return [quote for child in children for quote in child.evidence if quote.verified]


def is_founded(response: Response, checked: Sequence[Evidence], executed: Sequence[CallRecord]) -> bool:
    """Return whether an answer has a verified quote, or states after a call what was not found.

    checked: its quotes.
    """
    return any(quote.verified for quote in checked) or bool(response.gaps and executed)


def are_all_verified(checked: Sequence[Evidence]) -> bool:
    """Return whether there are quotes, and all of them were found."""
    return bool(checked) and all(quote.verified for quote in checked)


def count(checked: Sequence[Evidence]) -> str:
    """Return the number of verified quotes as text, such as `2 of 3 quotes found`."""
    return f"{sum(bool(quote.verified) for quote in checked)} of {len(checked)} quotes found"


def warnings(job: Job, response: Response | None, checked: Sequence[Evidence], calls: int) -> list[str]:
    """Return a warning for each quote that was not found, or one if nothing was read at all.

    response: the model's answer; None if it is salvaged.
    calls: tool calls that were run.
    """
    not_found = [
        f"{QUOTE_NOT_FOUND}: {f'{quote.source}: ' if quote.source else ''}{quote.quote!r}"
        for quote in checked
        if quote.verified is False
    ]
    is_blind = response is not None and not checked and calls == 0 and _could_read(job)
    return [*not_found, *([NOTHING_READ] if is_blind else [])]


def _could_read(job: Job) -> bool:
    return job.budget[Kind.TOOL_CALLS].limit != 0 and bool(set(job.opening.tools.names) - {RESPOND, ARCHIVE})


def _claims(job: Job, response: Response) -> Iterator[tuple[str, str]]:
    """Yield source and quote of each piece of evidence."""
    claims = list(response.evidence)
    if job.settings.evidence == "require" and isinstance(response.output, Mapping):
        items = response.output.get("evidence")
        parsed = map(Citation.parse, items if isinstance(items, list) else ())
        claims += [claim for claim in parsed if claim and claim not in response.evidence][:MOST_EVIDENCE]
    for claim in claims:
        yield claim.source, claim.quote
