"""Read the items of `specialists map` from a file, from standard input, or from the files that match a glob."""

import sys
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_specialist.batch.item import InputRecord, Item, keyed
from run_specialist.batch.items.checking import check
from run_specialist.batch.items.file_items import files_source
from run_specialist.batch.items.question_template import Template, asked
from run_specialist.batch.items.reading import STDIN, source_of
from run_specialist.cli.batch.map_options import ItemOptions
from run_specialist.cli.console import fail, is_terminal, say

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.items.source import Source


@dataclass(frozen=True)
class MapRequest:
    """A specialist, the items, and the question about each of them."""

    name: str
    source: "Source"
    given: Iterable[InputRecord]
    """The checked items; they have a length if they can be read more than once."""
    template: Template | None

    @classmethod
    def of(cls, items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "MapRequest":
        """Return the checked items; exit, or raise UsageError, if no question can be asked about them."""
        source = _source(items, each, runner, name)
        template = None if each.question is None else Template(each.question)
        return cls(name, source, check(source, template), template)

    @property
    def count(self) -> int | None:
        """The number of items; None if they can be read only once."""
        return len(self.given) if isinstance(self.given, Sized) else None

    def items(self) -> Iterator[Item]:
        """Yield the items with their questions."""
        return keyed(asked(self.given, self.template))


def _source(items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "Source":
    """Return the source of the items; exit if the options leave it open or name two.

    Raises UsageError if the source cannot be read.
    """
    if each.files is not None:
        if items is not None:
            fail("ITEMS and --files cannot be combined; use one of them, and quotes around the glob")
        if each.format_ is not None:
            fail("--format is about ITEMS; it cannot be combined with --files")
        specialist = runner.registry.find(name).specialist
        return files_source(each.files, runner.root, (specialist and specialist.paths) or ())
    if items is None:
        fail("there are no items; name a file, `-` for standard input, or use --files 'docs/*.md'")
    if items == STDIN and is_terminal(sys.stdin):
        say("type one item per line, then press Ctrl-D on an empty line")
    return source_of(items, each.format_)
