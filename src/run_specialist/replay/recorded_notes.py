"""The notes of a specialist as a recorded run began with them, because the run itself may have changed them since."""

from dataclasses import replace

from run_specialist import prompts
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.tools.memory.note_names import MAIN


def with_recorded_notes(environment: RunEnvironment, system: str) -> RunEnvironment:
    """Return an environment with the notes that a recorded system prompt has, in place of those of today.

    An environment without notes stays as it is, so that a specialist that no longer has any is a difference.
    """
    now, recorded = environment.memory.text, prompts.notes_in(system, MAIN)
    if now is None or not recorded:
        return environment
    texts = environment.prompt_texts
    kept = tuple(replace(one, text=recorded) if one is now else one for one in texts.texts)
    return replace(environment, prompt_texts=replace(texts, texts=kept))
