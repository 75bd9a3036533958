"""The section on editors of docs/specialist-files.md: the modeline may stay."""

from pathlib import Path

import yaml

from run_specialist.specialist.loader import load_text
from tests.docs.markdown import FILES, blocks

(MODELINE,) = (text for text in blocks(FILES, "yaml") if "$schema=" in text)


def test_the_modeline_may_stay_in_a_specialist_file():
    """A file whose front matter begins with the modeline has no problem, and the values of the example."""
    file = load_text(f"---\n{MODELINE}description: d\n---\nYou find dates.\n", Path("release-dater.md"))
    assert (file.problems, file.tool_calls_limit) == ((), yaml.safe_load(MODELINE)["tool_calls_limit"])
