"""Built-in tools that are offered on request: if the file asks, the user allows it, and this machine supports it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import names_tool, removes_tool
from run_specialist.tools.base import Tool


def _nothing(_settings: Specialist, _root: Path) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that can reach outside the root, change something, or run something."""

    name: str
    keys: tuple[str, ...]
    """Keys that determine what it may do; changing one of them requires trust again."""
    action: Callable[[Specialist], str]
    """Returns a description of its use for the user who must allow it, such as `fetch pages of example.com`."""
    make: Callable[[Specialist, Path], Tool]
    """Returns the tool of one run, given the folder that its file tools may read."""
    lacking: Callable[[Specialist, Path], str] = _nothing
    """Returns why it cannot be offered here, with what to do about it, in one clause; empty if it can."""
    is_asked_for: Callable[[Specialist], bool] | None = None
    """Whether a file asks for it; None if naming it in `tools` is what asks for it."""

    def is_wanted(self, settings: Specialist) -> bool:
        """Return whether a file asks for the tool and does not disallow it; a pattern such as `*` does not ask."""
        if self.is_asked_for is not None:
            return self.is_asked_for(settings)
        return names_tool(settings.tools, self.name) and not removes_tool(settings.disallowed_tools, self.name)
