"""HTML report of one run: question, answer, evidence, budget, timeline and tokens."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from run_specialist.budget import units
from run_specialist.store.stored import StoredRun
from run_specialist.views.html_page import HtmlPage
from run_specialist.views.page import chart_geometry, formats
from run_specialist.views.page.answer_section import answer, facts, status
from run_specialist.views.page.asked_models import models
from run_specialist.views.page.axis import axis
from run_specialist.views.page.budget_chart import budget
from run_specialist.views.page.calls import turns
from run_specialist.views.page.changed_files import file_changes
from run_specialist.views.page.child_runs import Descendants, child_runs, children, spent
from run_specialist.views.page.marks import marks
from run_specialist.views.page.quotes import holders
from run_specialist.views.page.requests import requests
from run_specialist.views.page.setup import setup
from run_specialist.views.page.side_by_side import NO_KIN, RelatedRuns, comparison, copied
from run_specialist.views.page.timeline import timeline

NO_DESCENDANTS: Descendants = MappingProxyType({})


def _answer_html(answer: Mapping[str, Any]) -> str:
    from run_specialist.views.page.answer_html import answer_html  # noqa: PLC0415 - only the HTML report needs it

    return answer_html(answer)


_FILTERS = {
    **{name: getattr(formats, name) for name in ("clock", "counted", "lasted", "moment", "pretty", "stamp", "ticks")},
    **{name: getattr(chart_geometry, name) for name in ("path", "percent")},
    "dollars": units.dollars,
    "answer_html": _answer_html,
}
_PAGE = HtmlPage("report", _FILTERS)


def data(run: StoredRun, descendants: Descendants = NO_DESCENDANTS, kin: RelatedRuns = NO_KIN) -> Mapping[str, Any]:
    """Return the data of the report as JSON values; times within the run are working time [s].

    descendants: the child runs and their child runs, by id.
    kin: the runs that it is compared with.
    """
    working = axis(run)
    marks_between = marks(run, working)
    sources = holders(run)
    direct = child_runs(run, descendants)
    child_ids = {one.call.number: one.child.run_id for one in direct if one.call}
    replies = turns(run, working, marks_between, sources, child_ids)
    usage = budget(run, working, spent(run, direct))
    return {
        "run_id": run.run_id,
        "parent_id": run.parent_id,
        "forked_from": run.forked_from,
        "forked_at": run.forked_at,
        "specialist": run.specialist,
        "model": run.model,
        "models": models(run),
        "question": run.question,
        "status": run.status,
        "status_words": status(run),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "seconds": working.seconds,
        "facts": facts(run, usage["kinds"]),
        "answer": answer(run, replies, sources),
        "changes": file_changes(run, descendants),
        "copied": copied(run),
        "comparison": comparison(run, kin),
        "children": children(run, direct, descendants),
        "budget": usage,
        "timeline": timeline(run, working, marks_between),
        "requests": requests(run, working),
        "turns": replies,
        "after": [mark for mark in marks_between if not replies or mark["before"] > replies[-1]["number"]],
        "setup": setup(run),
    }


def report(run: StoredRun, descendants: Descendants = NO_DESCENDANTS, kin: RelatedRuns = NO_KIN) -> str:
    """Return the report as one self-contained HTML document; all untrusted text is escaped.

    descendants: the child runs and their child runs, by id.
    kin: the runs that it is compared with.
    """
    return _PAGE.render(data(run, descendants, kin))
