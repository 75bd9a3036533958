"""Built-in tools that only some files get: those that ask for them, if the user allows it and this machine can."""

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
    """A tool that can reach outside of the root, change something, or run something."""

    name: str
    keys: tuple[str, ...]
    """Keys that say what it may do; a change of one of them needs trust again."""
    action: Callable[[Specialist], str]
    """Returns a description of its use for the user who must allow it, such as `fetch pages of example.com`."""
    make: Callable[[Specialist, Path], Tool]
    """Returns the tool of one run, whose file tools may read the folder."""
    lacking: Callable[[Specialist, Path], str] = _nothing
    """Returns why it cannot be offered here, with what to do about it, in one clause; empty if it can."""
    is_asked_for: Callable[[Specialist], bool] | None = None
    """Whether a file asks for it; None if a file does so by naming it in `tools`."""

    def is_wanted(self, settings: Specialist) -> bool:
        """Return whether a file asks for the tool and does not disallow it; a pattern such as `*` does not ask."""
        if self.is_asked_for is not None:
            return self.is_asked_for(settings)
        return names_tool(settings.tools, self.name) and not removes_tool(settings.disallowed_tools, self.name)
