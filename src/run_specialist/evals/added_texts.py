"""Check whether a stored run would get the same prompt today: skills, project instructions, and notes."""

from typing import TYPE_CHECKING

from run_specialist.errors import UsageError
from run_specialist.evals.past_evals import StoredRuns
from run_specialist.spawning.agent_memory import MemoryRequest, agent_memory
from run_specialist.spawning.prompt_texts import PromptTexts, read_texts
from run_specialist.tools.threads import in_thread

if TYPE_CHECKING:
    from run_specialist.api.run_maker import RunRequest
    from run_specialist.api.runner import Runner


async def has_same_texts(asked: "RunRequest", known: StoredRuns, run_id: str, runner: "Runner") -> bool:
    """Return whether a run would get the texts of its stored prompt; True if the run is not stored."""
    settings = asked.settings
    if not (settings.skills or settings.project_instructions or settings.memory):
        return True
    run = known.load(run_id)
    if run is None:
        return True
    try:
        texts = await in_thread(lambda: _texts(asked, runner))
    except UsageError:
        # A skill is missing: a new run says so.
        return False
    return str(run.frozen.get("system", "")).startswith(texts.added_to(settings.prompt))


def _texts(asked: "RunRequest", runner: "Runner") -> PromptTexts:
    file, settings, trust = asked.file, asked.settings, runner.environments.trust
    wanted = MemoryRequest(runner.secrets, origins=asked.origins)
    memory = agent_memory(file, settings, runner.root, trust, wanted)
    return read_texts(file, settings, runner.root, trust, asked.origins).followed_by(memory.text)
