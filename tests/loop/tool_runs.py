"""Runs that call the tool `lookup` of a project or a program."""

from contextlib import asynccontextmanager

from run_specialist import Runner
from tests.scripted_provider import ScriptedProvider, calls

LOOKS = calls(("lookup", {"word": "owl"}))
ANSWER = calls(("respond", {"answer": "mice"}), first_id=99)
LOOKUP = ("def lookup(word: str) -> dict:", '    """Look up a word."""', "    return {'found': word}")


@asynccontextmanager
async def playing(*script, **options):
    """Give a runner with a script, which must have been played to its end."""
    provider = ScriptedProvider(script)
    async with Runner(provider=provider, **options) as runner:
        runner.script = provider
        yield runner
    provider.assert_used_up()
