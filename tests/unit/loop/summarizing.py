"""A pass of the summarizer with scripted replies."""

from run_specialist.loop.summarizer import Summarizer, Summary
from run_specialist.record.messages import Message, Usage
from run_specialist.tools.archive import Archive
from tests.scripted_provider import Line, ScriptedProvider

SIZE = 1_000
"""Size of the transcripts that is passed to the summarizer [tokens]."""


async def ask_once(conversation, request):
    """Send a request without retrying it."""
    return await conversation.ask(request)


async def one_pass(
    script: list[Line], said: list[Message], archive: Archive | None = None, paid: list[Usage] | None = None, **settings
) -> tuple[Summary, ScriptedProvider]:
    """Run a pass that summarizes as much as possible, and check that the whole script was used.

    paid: Collects the usage of each request.
    """
    provider = ScriptedProvider(script)
    settings = {"summarize_at": 400, "context_target": 0, "summary_limit": 100, **settings}
    done = await Summarizer(provider, Archive() if archive is None else archive, **settings).summarize(
        said, SIZE, [].append if paid is None else paid.append, ask_once
    )
    provider.assert_used_up()
    assert done is not None
    return done, provider


def request_text(provider: ScriptedProvider, at: int = 0) -> str:
    """Return the text of a request."""
    (message,) = provider.requests[at].messages
    return message.content[0]["text"]
