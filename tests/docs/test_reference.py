"""docs/reference.md is what docs/make_reference.py writes, and it leaves nothing out."""

import importlib.util
import re

from run_specialist.specialist.fields import Specialist
from tests.docs.markdown import FILES, ROOT, page, table

SPEC = importlib.util.spec_from_file_location("make_reference", ROOT / "docs/make_reference.py")
GENERATOR = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GENERATOR)
PAGE = page("reference")


def test_the_reference_is_current():
    """After a change of a command or a key, `python docs/make_reference.py` was run."""
    assert GENERATOR.page() == PAGE, "run: uv run python docs/make_reference.py"


def test_every_command_has_its_section_with_all_options():
    """Each command has a heading, and each of its options is named below it or among the shared ones."""
    shared = PAGE.split("\n## Commands\n")[0]
    for name, command in GENERATOR.commands():
        (below,) = re.findall(rf"^### {name}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
        names = [parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"]
        missing = [one for one in names if not re.search(rf"`{one}\b", below)]
        if "All shared options but" in below:
            missing = [one for one in missing if f"`{one}" not in shared]
        assert set(missing) <= {"--help", "--install-completion", "--show-completion"}, name


def test_every_key_says_what_it_means():
    """No key of a specialist file is without a text, and the guide leads with eight of them."""
    (section,) = re.findall(r"^## Keys of a specialist file\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^- `(\w+)`: (.*)$", section, re.MULTILINE))
    assert set(rows) == set(Specialist.model_fields) - {"path", "prompt"}
    assert all(re.fullmatch(r"\S.*\.( \[.*\])?", text) for text in rows.values())
    first = [row[0].strip("`") for row in table(FILES, "# Write a specialist")]
    assert len(first) == 8
    assert set(first) <= set(rows)
