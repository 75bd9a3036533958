"""The settings that follow from the length of the model's context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import PRESETS
from run_specialist.providers.base import Capabilities
from run_specialist.spawning.spawner import CHARACTERS_PER_TOKEN, fit_to_context
from run_specialist.specialist.fields import Specialist
from tests.loop_jobs import job
from tests.scripted_provider import ScriptedProvider

FRONT = 6_000


def fit(context, reply=None, front=FRONT, note="", **settings):
    """Fit the settings of a specialist, and return the result."""
    reply = reply or max((context or 4) // 4, 1)
    specialist = Specialist(name="s", description="d", prompt="p", **settings)
    return fit_to_context(
        specialist, Capabilities(True, reply, context_tokens=context, context_note=note), lambda: front
    )


def test_without_a_known_length_nothing_changes():
    """The settings are the same object, and the length of the prompt is not even calculated."""
    specialist = Specialist(name="s", description="d", prompt="p")
    fitted = fit_to_context(specialist, Capabilities(True, 9), lambda: pytest.fail("calculated"))
    assert (fitted.settings is specialist, fitted.turn_chars, fitted.warnings) == (True, None, ())


def test_the_shares_of_8192_tokens():
    """The worked example of docs/models.md."""
    fitted = fit(8192)
    settings = fitted.settings
    assert (settings.tool_result_limit, fitted.turn_chars) == (4144, 6216)
    assert (settings.summarize_at, settings.context_target, settings.summary_limit) == (5108, 4072, 518)
    assert fitted.warnings == ()


@given(
    context=st.integers(256, 2**25),
    front=st.integers(0, 50_000),
    calls=st.integers(1, 200),
)
def test_prompt_results_and_reply_fit_into_any_context(context, front, calls):
    """Right before a summary would be made, the next request and its reply still fit, at three characters a token.

    That holds wherever the prompt leaves room at all, and for turns whose results are not at their minimum.
    """
    reply = min(32_000, max(context // 4, 1))
    front_tokens = -(-front // CHARACTERS_PER_TOKEN)
    room = context - reply - front_tokens
    fitted = fit(context, reply, front)
    summarize_at = fitted.settings.summarize_at
    limit = fitted.settings.tool_result_limit
    one = job(ScriptedProvider([]), tool_result_limit=limit, turn_chars=fitted.turn_chars)
    turn = one.result_chars(calls) * calls
    assert one.result_chars(calls) <= 20_000
    if room < 800 or one.result_chars(calls) == 200:
        return
    assert one.result_chars(1) / CHARACTERS_PER_TOKEN <= room / 3
    assert turn / CHARACTERS_PER_TOKEN <= room / 2
    # The transcript counts four characters as a token; only the last turn is an estimate, the rest is as reported.
    underestimated = turn / CHARACTERS_PER_TOKEN - turn / 4
    assert summarize_at + underestimated + reply <= context + 1
    # After a summary, the newest turn is all that is left beside it.
    assert front_tokens + fitted.settings.summary_limit + turn / CHARACTERS_PER_TOKEN + reply <= context + 1


@pytest.mark.parametrize("limit", [500, 12_000, 20_000])
def test_an_explicit_result_limit_wins_and_warns_if_it_cannot_fit(limit):
    """A result of the chosen length passes whole; above what the context holds, a warning says how much that is."""
    fitted = fit(8192, tool_result_limit=limit)
    assert fitted.settings.tool_result_limit == limit
    assert fitted.turn_chars == max(6216, limit)
    assert len(fitted.warnings) == (limit > 12_432)
    if fitted.warnings:
        assert "tool_result_limit: a result of 20,000 characters does not fit" in fitted.warnings[0]
        assert "holds about 12,432 characters" in fitted.warnings[0]


@pytest.mark.parametrize("at", [None, 3000, 6145])
def test_an_explicit_summarize_at_wins(at):
    """`none` turns summaries off even in a small context."""
    fitted = fit(8192, summarize_at=at)
    assert (fitted.settings.summarize_at, fitted.settings.context_target) == (at, None)


def test_a_preset_suits_any_model_and_does_not_win():
    """`finalize` summarizes at 150,000 tokens, which a small context never holds; the file's own value stays."""
    fitted = fit(8192, preset="finalize", **PRESETS["finalize"])
    assert (fitted.settings.summarize_at, fitted.warnings) == (5108, ())
    assert fit(8192, preset="finalize", **{**PRESETS["finalize"], "summarize_at": 3000}).settings.summarize_at == 3000
