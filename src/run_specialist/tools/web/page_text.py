"""Turn a downloaded page into lines of text, in a process that ends with its timeout or with the run."""

import sys
from collections.abc import Sequence
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.files import search_process
from run_specialist.tools.web.downloads import Download

SECONDS = 20.0
"""Timeout of the conversion of a page [s]."""

_EXTRACTING = Path(__file__).with_name("extracting.py")
_NOT_TEXT = 3
"""Exit code of that script for a page that is not text."""


def text_of(page: Download) -> Sequence[str]:
    """Return the lines of a page.

    Raises ToolError for a page that is not text, or that cannot be converted in time.
    """
    command = [sys.executable, "-P", str(_EXTRACTING), page.url, page.media_type, page.charset or ""]
    try:
        found, code = search_process.run(command, Path("/"), SECONDS, page.body)
    except (OSError, ValueError) as error:
        raise ToolError(f"{page.url} cannot be converted to text: {error}") from None
    if code == _NOT_TEXT:
        raise ToolError(f"{page.url} is {page.media_type or 'binary'}; only pages of text can be read")
    if code != 0:
        why = f"it takes more than {SECONDS:.0f} seconds" if code is None else "its HTML cannot be parsed"
        raise ToolError(f"{page.url} cannot be converted to text: {why}")
    return found.decode("utf-8", "replace").split("\n") if found else ()
