"""Requests of a pass that fail, are cut off or are cancelled."""

import asyncio

import pytest

from run_specialist.errors import ProviderError
from run_specialist.loop.summarizer import Summarizer
from run_specialist.record.messages import Stop
from run_specialist.tools.archive import Archive
from tests.scripted_provider import ScriptedProvider, says
from tests.transcripts import history, turn
from tests.unit.loop.summarizing import SIZE, ask_once, one_pass, request_text

pytestmark = pytest.mark.anyio


async def test_s2_7_markers_outlast_merging_and_later_passes():
    """Markers are neither sent to the model nor cut in merging and later passes, even if space is short."""
    first, _ = await one_pass([ProviderError("down"), says("n" * 600), says("m" * 200)], history(3, size=600))
    assert first.summary.split("\n\n")[0] == "m" * 200
    assert "[not summarised: search (call_1); the reason: down;" in first.summary
    said = [*first.history, *turn(("call_9", "9"))]
    second, provider = await one_pass([says("o" * 300), says("both")], said)
    assert "not summarised" not in "".join(request_text(provider, at) for at in range(2))
    assert second.summary.split("\n\n")[0] == "both"
    assert second.summary.count("[not summarised: search (call_1);") == 1


async def test_s2_7_truncated_notes_are_used_and_marked():
    """Notes that were cut off are used and marked."""
    done, _ = await one_pass([says("notes", Stop.TRUNCATED)], history(2))
    assert done.summary == "notes\n[truncated]"


class BlockingProvider:
    """A provider whose replies wait until they are released."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.provider = provider
        self.capabilities = provider.capabilities
        self.under_way = self.most = 0
        self.busy, self.go = asyncio.Event(), asyncio.Event()

    def open(self, opening, watch=None):
        """Start a conversation."""
        self.provider.open(opening, watch)
        return self

    async def ask(self, request):
        """Wait to be released, then return the next scripted reply."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == 3:
            self.busy.set()
        await self.go.wait()
        self.under_way -= 1
        return await self.provider.ask(request)


async def test_a_cancelled_pass_changes_nothing():
    """A cancelled pass propagates the cancellation and archives nothing."""
    held, archive = BlockingProvider(ScriptedProvider([])), Archive()
    summarising = asyncio.create_task(
        Summarizer(held, archive, 400, 0, 100).summarize(history(6, size=600), SIZE, [].append, ask_once)
    )
    await asyncio.wait_for(held.busy.wait(), 10)
    summarising.cancel()
    with pytest.raises(asyncio.CancelledError):
        await summarising
    assert [*archive] == []
