"""One run as a page: what was asked and answered, what it rests on, and where budget, time and tokens went."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from run_specialist.budget import units
from run_specialist.store.stored import StoredRun
from run_specialist.views.page import chart_geometry, formats
from run_specialist.views.page.answer_section import answer, facts, status
from run_specialist.views.page.axis import axis
from run_specialist.views.page.budget_chart import budget
from run_specialist.views.page.calls import turns
from run_specialist.views.page.child_runs import Below, asked, children, spent
from run_specialist.views.page.marks import marks
from run_specialist.views.page.quotes import holders
from run_specialist.views.page.requests import requests
from run_specialist.views.page.setup import setup
from run_specialist.views.page.timeline import timeline

NOBODY: Below = MappingProxyType({})

_WRITTEN_BY = {
    **{name: getattr(formats, name) for name in ("clock", "counted", "lasted", "moment", "pretty", "stamp", "ticks")},
    **{name: getattr(chart_geometry, name) for name in ("path", "percent")},
    "dollars": units.dollars,
}


def data(run: StoredRun, below: Below = NOBODY) -> Mapping[str, Any]:
    """Return everything that the page shows, as JSON values; moments within the run are its working time [s].

    below: the runs that it asked, and those that they asked.
    """
    working = axis(run)
    between = marks(run, working)
    holding = holders(run)
    others = asked(run, below)
    said = turns(run, working, between, holding, {one.call.number: one.child.run_id for one in others if one.call})
    used = budget(run, working, spent(run, others))
    return {
        "run_id": run.run_id,
        "parent_id": run.parent_id,
        "specialist": run.specialist,
        "model": run.model,
        "question": run.question,
        "status": run.status,
        "status_words": status(run),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "seconds": working.seconds,
        "facts": facts(run, used["kinds"]),
        "answer": answer(run, said, holding),
        "children": children(run, others, below),
        "budget": used,
        "timeline": timeline(run, working, between),
        "requests": requests(run, working),
        "turns": said,
        "after": [mark for mark in between if not said or mark["before"] > said[-1]["number"]],
        "setup": setup(run),
    }


def report(run: StoredRun, below: Below = NOBODY) -> str:
    """Return the page: one HTML document that asks for nothing else, with all text from outside escaped.

    below: as in `data`.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only who wants a page pays for it
    from markupsafe import Markup  # noqa: PLC0415 - likewise

    def seen(value: object) -> object:
        return formats.legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=seen)
    page.filters |= _WRITTEN_BY
    style, script = _part("report.css"), _part("report.js")
    parts = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - our own files
    return page.from_string(_part("report.html.j2")).render(data(run, below), **parts, policy=_policy(style, script))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return what the page may do: show itself in this style, run this script, and reach nobody."""
    allowed = {"style-src": style, "script-src": script}
    parts = [f"{name} 'sha256-{_digest(text)}'" for name, text in allowed.items()]
    return "; ".join(["default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
