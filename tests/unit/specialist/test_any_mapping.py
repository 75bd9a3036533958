"""Any values under known keys load as a specialist or give errors that name them, and never crash.

The environment variable EXAMPLES sets how many mappings are tried.
"""

from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.specialist.fields import json_schema
from run_specialist.specialist.loader import SpecialistFile, load_text
from tests.plugins.tiers import examples

PATH = Path("agent.md")
KEYS = sorted(json_schema()["properties"])
EXAMPLES = examples(40)

# fmt: off
WORDS = st.sampled_from(
    ["none", "auto", "force", "order", "sonnet", "read, grep", "Read", "10m", "5", "0.5", "true",
     "", " ", "\u00e9\u2028", "*"]
)
# fmt: on
NUMBERS = st.sampled_from([0, 1, 30, -1, 10**12, 0.5, 1.0, 2.5, -0.1, float("inf"), float("nan"), True, False, None])
SIMPLE = WORDS | NUMBERS | st.text(max_size=12)
NAMES = st.sampled_from(["Read", "grep", "from", "style", "*", "", " ", "\u00e9\u2028", "one two"])
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SPELT = {"odd": lambda key: key, "hyphens": lambda key: key.replace("_", "-"), "upper": str.upper}
MAPPINGS = st.dictionaries(
    st.sampled_from(KEYS)
    | st.builds(lambda key, how: SPELT[how](key), st.sampled_from(KEYS), st.sampled_from([*SPELT])),
    VALUES,
    max_size=6,
)


def loaded(mapping: dict[str, object], body: str = "You look.") -> SpecialistFile:
    """Load a file whose front matter is a mapping written as YAML."""
    return load_text(f"---\n{yaml.safe_dump(mapping, allow_unicode=True)}---\n{body}\n", PATH)


@settings(max_examples=EXAMPLES)
@given(MAPPINGS)
def test_any_mapping_loads_or_gives_errors_with_a_line(mapping):
    """Loading is deterministic, errors name a line within the file, and strict mode refuses warnings."""
    file, again = loaded(mapping), loaded(mapping)
    assert file == again
    assert file.name
    assert file.description
    levels = {problem.level for problem in file.problems}
    assert (file.specialist is None) == ("error" in levels) == (file.status == "error")
    assert (file.strict().specialist is None) == bool(levels & {"error", "warning"})
    lines = len(yaml.safe_dump(mapping, allow_unicode=True).splitlines()) + 4
    for problem in file.problems:
        assert 1 <= problem.line <= lines
        assert problem.text.isprintable()
        assert str(problem).startswith(f"agent.md:{problem.line}:{problem.column}: ")
