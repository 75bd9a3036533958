"""The report of a run that changed its model."""

from dataclasses import replace

import pytest

from run_specialist.loop.run import Run
from run_specialist.record.messages import Usage
from run_specialist.views.report import data, report
from tests.journals import Notebook, stored
from tests.loop.scripted_chains import GONE, chained
from tests.loop.stored_replies import ANSWER, looks
from tests.loop_jobs import job

pytestmark = pytest.mark.anyio


async def test_m_2_the_report_says_which_model_answered_what():
    """The models, the change between the turns, and why the cache was not read."""
    cached = replace(looks(1), usage=Usage(10, 0, 5_000, 5))
    later = replace(looks(2), usage=Usage(10, 0, 5_000, 5))
    last = replace(ANSWER, usage=Usage(10, 5_000, 0, 5))
    chain, _ = chained([cached, GONE], [later, last])
    notebook = Notebook()
    await Run(job(chain), journal=notebook).outcome()
    run = stored(notebook.records)
    found = data(run)
    assert [(one["model"], one["turns"]) for one in found["models"]] == [("a", 1), ("b", 2)]
    (mark,) = [one for one in found["timeline"]["marks"] if one["kind"] == "changed"]
    assert (mark["before"], mark["words"]) == (2, "Continues with b")
    assert mark["text"].startswith("a cannot answer: the API answered 404")
    assert found["requests"]["sentences"][0] == "Turn 1 was requested from a: 5,015 tokens, $0.05."
    (lost,) = found["requests"]["losses"]
    assert "it went to another model" in lost["words"]
    assert "a, then b" in report(run)
