"""Scripted specialists: each run gets its own script, selected by the prompt in the specialist's file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from run_specialist.providers.base import Capabilities, Opening, Watch
from tests.scripted_provider import Line, OffScript, ScriptedProvider


class ScriptedSpecialists:
    """A provider that opens each conversation with the next script of its specialist."""

    model = "scripted"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=64_000)

    def __init__(self, **scripts: Sequence[Sequence[Line]]) -> None:
        """Set the scripts of the runs by specialist (`_` means `-`), in the order in which the runs begin."""
        self._waiting: Mapping[str, list[ScriptedProvider]] = {
            name.replace("_", "-"): [ScriptedProvider(script) for script in runs] for name, runs in scripts.items()
        }
        self.played: dict[str, list[ScriptedProvider]] = {name: [] for name in self._waiting}
        """The conversations by specialist, in the order in which they began."""

    def open(self, opening: Opening, watch: Watch | None = None) -> ScriptedProvider:
        """Start the next conversation of the specialist that the system prompt names."""
        name = opening.system.split(".")[0].removeprefix("You are ")
        if not self._waiting.get(name):
            raise OffScript(f"{name} was not to be asked")
        provider = self._waiting[name].pop(0)
        self.played[name].append(provider)
        return provider.open(opening, watch)

    def cost(self, usage):
        """Return the cost of a request [USD], as scripted providers do."""
        return usage.total_tokens / 100_000

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def assert_used_up(self) -> None:
        """Raise OffScript if a script was not used up."""
        if any(self._waiting.values()):
            raise OffScript(f"never asked: {[name for name, left in self._waiting.items() if left]}")
        for providers in self.played.values():
            for provider in providers:
                provider.assert_used_up()


def write(folder: Path, name: str, *lines: str) -> Path:
    """Write a specialist's file whose prompt names it, so that the cast can select its script.

    Its description is `NAME looks.`
    """
    path = folder / "specialists" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    head = "\n".join(("---", f"name: {name}", f"description: {name} looks.", "tools: []", *lines, "---"))
    path.write_text(f"{head}\nYou are {name}.\n", encoding="utf-8")
    return path
