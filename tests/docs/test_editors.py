"""docs/editors.md matches what `specialists schema --install` writes."""

import re
from pathlib import Path

import yaml

from run_specialist.cli.editor_settings import FILES, KEYS, SCHEMA, SETTINGS
from run_specialist.specialist.loader import load_text
from tests.docs.markdown import ROOT, blocks, table

TEXT = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")


def test_the_written_files_are_documented():
    """The table has both files, and the entry with the files that it covers."""
    rows = {row[0].strip("`"): row[1] for row in table(TEXT, "# Editors")}
    assert set(rows) == {SCHEMA, SETTINGS}
    assert re.findall("`([^`]+)`", rows[SETTINGS]) == [KEYS[0], *FILES]


def test_the_snippets_name_the_installed_schema():
    """The configuration of remark and the modeline name the file that is written."""
    (remark,) = re.findall(r"^```js \.remarkrc\.mjs\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert f"{{'{KEYS[1]}': ['./{FILES[0]}']}}" in remark
    (modeline,) = blocks(TEXT, "yaml")
    assert modeline.splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA}"


def test_the_modeline_may_stay_in_a_specialist_file():
    """A file whose front matter begins with the modeline has no problem, and the values of the example."""
    (front,) = blocks(TEXT, "yaml")
    file = load_text(f"---\n{front}description: d\n---\nYou find dates.\n", Path("release-dater.md"))
    assert (file.problems, file.tool_calls_limit) == ((), yaml.safe_load(front)["tool_calls_limit"])
