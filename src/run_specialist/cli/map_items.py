"""The items of `specialists map`: from a file, standard input, or the files that match a glob."""

import sys
from typing import TYPE_CHECKING

from run_specialist.cli.console import fail, is_terminal, say
from run_specialist.cli.map_options import ItemOptions

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.source import Source


def source_of_items(items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "Source":
    """Return where the items come from; exit if it is not clear.

    Raises UsageError if they cannot be read.
    """
    from run_specialist.batch.file_items import files_source  # noqa: PLC0415 - fast `--help`
    from run_specialist.batch.reading import STDIN, source_of  # noqa: PLC0415 - as above

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
