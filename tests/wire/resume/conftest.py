"""Endpoints on either API for runs that are resumed."""

import pytest

from tests.wire.resumed_requests import CHAT, MESSAGES, Endpoint


@pytest.fixture(params=[MESSAGES, f"{MESSAGES}-stream", CHAT, f"{CHAT}-stream"])
def endpoint(request, messages_api, chat_api, tmp_path):
    """Return a function that starts an endpoint on either API, streamed or not, with one script for all processes."""
    kind, _, stream = request.param.partition("-")

    def start(make_script, **options):
        made = Endpoint(kind, None, tmp_path, bool(stream), **options)
        made.api = (messages_api if kind == MESSAGES else chat_api)(make_script(made.say))
        return made

    return start


@pytest.fixture(params=["json", "stream"])
def messages_endpoint(request, messages_api, tmp_path):
    """Return a function that starts an endpoint on the Messages API, with and without streaming."""

    def start(script, **options):
        return Endpoint(MESSAGES, messages_api(script), tmp_path, request.param == "stream", **options)

    return start
