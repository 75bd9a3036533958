"""Objects of a request are freed without the garbage collector, which with a thousand children would run too late."""

import asyncio
import gc

import httpx2
import pytest

from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.anthropic import make_client as messages_client
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.providers.openai_chat import make_client as chat_client
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.replies import says as chat_says
from tests.wire.simulator.replies import says

pytestmark = pytest.mark.anyio

GENERATORS = 10
"""More than the SDKs nest when they read a stream."""


@pytest.fixture
def no_collector():
    """Disable the garbage collector, so that only unreferenced objects are freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.exhaustive
@pytest.mark.parametrize("watch", [None, lambda delta: None], ids=["json", "stream"])
@pytest.mark.parametrize("kind", ["messages", "chat"])
@pytest.mark.usefixtures("no_collector")
async def test_objects_of_a_request_are_freed_without_the_collector(messages_api, chat_api, kind, watch):
    """Neither the SDKs' objects nor the sent bytes outlive their request."""
    if kind == "messages":
        client = messages_client(base_url=messages_api([says("fine")] * 3).base_url, api_key="test")
        provider = AnthropicProvider("haiku", client)
    else:
        client = chat_client(base_url=chat_api([chat_says("fine")] * 3).base_url, api_key="test")
        provider = ChatProvider("some-model", client)
    async with client:
        for _ in range(3):
            assert (await outcome_of(job(provider, 9), watch=watch)).answer == "fine"
        # The event loop closes the nested generators of a stream one after another, each in a turn of its own.
        for _ in range(GENERATORS):
            await asyncio.sleep(0)
        left = [one for one in gc.get_objects() if isinstance(one, httpx2.Request | httpx2.Response)]
        assert left == []
