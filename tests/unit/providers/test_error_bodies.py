"""What an error of an API is: each status, each named error and each exception has one kind of failure."""

from typing import get_args

import pytest

from run_specialist import errors
from run_specialist.errors import ProviderError, ProviderErrorKind, Unavailable
from run_specialist.providers.errors import KINDS, NAMES, kind_of, passing_status
from run_specialist.record.outcome import ErrorKind

ALL = set(get_args(ProviderErrorKind))


def named(name, message="odd"):
    """Return the body of an error with a code."""
    return {"error": {"type": "invalid_request_error", "code": name, "message": message}}


def test_every_status_has_a_kind():
    """Each status of an error has a kind, that of the table if it is there; unknown ones go by their class."""
    kinds = {status: kind_of(status, None) for status in range(400, 600)}
    assert set(kinds.values()) <= ALL
    assert {status: kinds[status] for status in KINDS} == KINDS
    others = {kind for status, kind in kinds.items() if status not in KINDS and status < 500}
    assert others == {"invalid_request"}
    assert {kind for status, kind in kinds.items() if status not in KINDS and status >= 500} == {"server_error"}


def test_every_kind_has_a_cause():
    """Each kind follows from a status, a name, or an exception of its own; those of a run are two more."""
    by_class = {kind.default_kind for kind in subclasses(ProviderError)}
    assert {*KINDS.values(), *(kind for kind, _ in NAMES.values()), *by_class} == ALL
    assert set(get_args(ErrorKind)) == ALL | {"store_lost", "internal"}


def subclasses(kind):
    """Return a class and all below it."""
    return {kind, *(one for below in kind.__subclasses__() for one in subclasses(below))}


def test_every_exception_has_a_kind():
    """Each exception of a provider has a kind without being given one, and keeps the one that it is given."""
    made = {one.__name__: one("odd").kind for one in subclasses(ProviderError) if one.__module__ == errors.__name__}
    assert made == {
        "ProviderError": "server_error",
        "Unavailable": "connection",
        "ChoiceRefused": "invalid_request",
        "ForcingRefused": "invalid_request",
        "SchemaRefused": "invalid_request",
        "ContextExceeded": "context_exceeded",
    }
    assert Unavailable("busy", status=500).kind == "server_error"
    assert Unavailable("busy", status=429, kind="rate_limited", wait=3).as_final("given up").kind == "rate_limited"


@pytest.mark.parametrize("status", [400, 403, 404, 429, 503])
@pytest.mark.parametrize(
    "name", sorted(name for name, (kind, _) in NAMES.items() if kind in {"quota", "model_missing"})
)
def test_a_named_cause_is_more_specific_than_the_status(status, name):
    """An exhausted quota and a missing model are recognized by their name under any status."""
    assert kind_of(status, named(name)) == NAMES[name][0]
    assert kind_of(status, named(name)["error"]) == NAMES[name][0]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_without_a_status_decides(name):
    """In the body of a successful response the code decides, else the type."""
    assert kind_of(200, named(name)) == kind_of(None, {"error": {"type": name}}) == NAMES[name][0]


def test_errors_that_pass_in_a_stream_have_a_kind_of_their_own():
    """Each error that may pass in the middle of a stream has a kind, and an exhausted quota does not pass."""
    temporary = [name for name, (_, status) in NAMES.items() if status]
    assert {kind_of(None, {"type": name}) for name in temporary} == {"overloaded", "rate_limited", "server_error"}
    assert passing_status({"type": "insufficient_quota", "code": 429}) is None
    assert (
        passing_status({"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}) is None
    )


CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
SPENT = "You have reached your API usage limits: your organization has crossed its monthly API usage threshold."


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, named("", CREDIT), "quota"),
        (
            400,
            named("", "You have reached your specified API usage limits. You will regain access on 2026-12-01."),
            "quota",
        ),
        (400, named("", "You have reached your specified workspace API usage limits."), "quota"),
        (429, {"error": {"type": "rate_limit_error", "message": SPENT}}, "quota"),
        (403, {"error": {"message": "Key limit exceeded (monthly limit).", "code": 403}}, "quota"),
        (401, named("", CREDIT), "credentials"),
        (500, named("", CREDIT), "server_error"),
        (429, {"error": {"type": "rate_limit_error", "message": "This would exceed your rate limit."}}, "rate_limited"),
        (429, [{"error": {"code": 429, "message": "You exceeded your current quota", "status": "X"}}], "rate_limited"),
        (None, {"error": {"code": 503, "message": "busy"}}, "overloaded"),
        (200, {"error": {"code": 302}}, "server_error"),
        (200, {"error": {"details": ["odd"], "type": "brand_new"}}, "server_error"),
        (None, "odd", "server_error"),
    ],
)
def test_kinds_of_errors_as_servers_send_them(status, body, kind):
    """The messages that alone tell an exhausted quota count under the statuses that are used for it."""
    assert kind_of(status, body) == kind


@pytest.mark.parametrize(("wait", "told"), [(None, None), (0.25, 0.25), (1e9, 1e9), (float("inf"), None)])
def test_the_wait_of_a_server_is_kept_unless_it_is_infinite(wait, told):
    """The requested wait stays with the failure after the last attempt; an infinite wait is not a JSON number."""
    assert Unavailable("busy", wait=wait).as_final().retry_after == told
    assert ProviderError("busy", retry_after=wait).retry_after == told
