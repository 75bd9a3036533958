"""A run that may change files, without a model: its tools, called as the loop calls them, and what they report."""

import asyncio
import shutil
import subprocess
from pathlib import Path

from run_specialist.budget import Budget
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Context
from run_specialist.tools.edit import Patch, WorkingCopy, editing_offers
from run_specialist.tools.files import file_tools


class Log:
    """Keeps what tools report, and stores their records."""

    def __init__(self) -> None:
        self.events, self.records = [], []
        self.works = True
        """Whether the store can be written."""
        self.before_storing = lambda: None

    def notify(self, event) -> None:
        """Keep an event."""
        self.events.append(event)

    @property
    def is_stored(self) -> bool:
        """Whether there is a store."""
        return True

    async def stored(self, record) -> bool:
        """Keep a record, unless the store does not work."""
        self.before_storing()
        await asyncio.sleep(0)
        if self.works:
            self.records.append(record)
        return self.works


class EditingRun:
    """The tools of one run."""

    def __init__(self, root: Path, *writable: str, dry_run: bool = False, closed: tuple[Path, ...] = ()) -> None:
        """Offer all file tools, `edit` and `write` below a root."""
        self.root, self.log = root, Log()
        self.patch = Patch() if dry_run else None
        copy = WorkingCopy(root, self.patch, lambda: closed)
        settings = Specialist(name="x", description="x", prompt="x", tools=("edit", "write"), writable=writable)
        tools = [offer.make(settings, root) for offer in editing_offers(copy)]
        self.tools = {tool.name: tool for tool in (*file_tools(root, copy=copy), *tools)}

    async def calling(self, name: str, **arguments) -> str:
        """Call a tool, and return the text of its result."""
        context = Context("run", "call_1", Budget(()), 60.0, log=self.log)
        return (await self.tools[name].call(arguments, context)).text

    def call(self, name: str, **arguments) -> str:
        """Call a tool, and return the text of its result."""
        return asyncio.run(self.calling(name, **arguments))


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def apply_patch(folder: Path, patch: str) -> None:
    """Let git apply a patch to the files of a folder."""
    command = [str(shutil.which("git")), "apply"]
    subprocess.run(command, cwd=folder, input=patch.encode(), check=True, capture_output=True)
