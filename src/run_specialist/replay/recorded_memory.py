"""Restore the notes with which a recorded run began, because the run itself may have changed them."""

from dataclasses import replace

from run_specialist import prompts
from run_specialist.replay.cassette import Cassette
from run_specialist.replay.recorded_tools import stand_ins
from run_specialist.spawning.prompt_texts import AddedText
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.memory.memory_tool import NAME
from run_specialist.tools.memory.note_names import MAIN


def with_recorded_memory(environment: RunEnvironment, settings: Specialist, cassette: Cassette) -> RunEnvironment:
    """Return an environment with the notes of a recorded prompt instead of the current ones, and a stand-in tool.

    Neither needs trust, because the tool is not run. Without the key the environment stays unchanged, so that the
    removal of the notes counts as a difference.
    """
    if settings.memory is None:
        return environment
    setup, now, texts = cassette.setup, environment.memory.text, environment.prompt_texts
    recorded = prompts.notes_in(setup.system, MAIN)
    kept = tuple(one for one in texts.texts if one is not now)
    tools = stand_ins([one for one in setup.tools if one["name"] == NAME], cassette.calls)
    memory = replace(environment.memory, tool=environment.memory.tool or next(iter(tools), None))
    texts = replace(texts, texts=(*kept, AddedText(MAIN, recorded)) if recorded else kept)
    return replace(environment, memory=memory, prompt_texts=texts)
