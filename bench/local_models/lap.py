"""Ask the questions of one lap: one variant through one API of a server that is started for it."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from bench.local_models.results import Lap, Result
from bench.local_models.scorer import Notes, Question
from bench.local_models.variants import Variant
from run_specialist.api.runner import Runner
from run_specialist.record.outcome import Outcome
from tests.local.llama_server import ServerSettings, llama_server

MODELS = {"messages": "local", "chat": "openai:local", "local": "llamacpp:local"}
"""Model names that select each API; `local` is chat completions of a server that is known to be local."""
SPECIALISTS = Path(__file__).parents[2] / "specialists"


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings shared by all laps."""

    name: str
    """The setup in the results."""
    server: ServerSettings
    specialist: str
    root: Path
    limit: int
    """`tool_calls_limit` [tool calls]."""
    result_limit: int
    """`tool_result_limit`; reading a long result takes a small machine minutes [characters]."""
    seconds: float
    """Time for one question, after which it counts as silent [s]."""
    notes: Notes
    """The notes below the root, for the scorer."""


def lap(
    setting: Setting,
    variant: Variant,
    common: Lap,
    questions: Sequence[Question],
    done: Callable[[Result], None],
) -> None:
    """Ask the questions one after the other.

    common: names the variant, the API and the setup in the results.
    done: called with each result immediately.
    """
    left = list(questions)
    with variant.applied():
        while left:
            # A server may continue to write an abandoned reply, so it is replaced after a silent question.
            with _server(setting.server):
                while left:
                    result, in_time = asyncio.run(_ask(setting, variant, common, left.pop(0)))
                    done(result)
                    if not in_time:
                        break


@contextmanager
def _server(settings: ServerSettings) -> Iterator[None]:
    """Run a server that both APIs of this process are directed to."""
    with ExitStack() as stack:
        server = stack.enter_context(llama_server(settings))
        stack.enter_context(patch.dict(os.environ, server.environment))
        yield


async def _ask(setting: Setting, variant: Variant, common: Lap, question: Question) -> tuple[Result, bool]:
    """Return the result of a question, and whether it came in time."""
    settings = {"tool_calls_limit": setting.limit, "tool_result_limit": setting.result_limit, **variant.settings}
    outcome: Outcome | None = None
    in_time, begun = True, time.monotonic()
    # A new runner for each question, as with the command: it remembers nothing of the endpoint.
    async with Runner(root=setting.root, dir=SPECIALISTS, model=MODELS[common.api], store="none") as runner:
        run = await runner.prepare(setting.specialist, question.text, **settings)
        try:
            async with asyncio.timeout(setting.seconds):
                outcome = await run.outcome()
        except TimeoutError:
            outcome, in_time = run.ended, False
    seconds = time.monotonic() - begun
    return common.result(question, outcome, setting.notes, seconds=seconds, in_time=in_time), in_time
