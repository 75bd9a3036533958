"""Fuzz the parser of specialist files: any bytes give a specialist, or an error with its position."""

import json
from pathlib import Path

import atheris
import harness

with atheris.instrument_imports(include=["run_specialist.specialist", "yaml", "frontmatter"]):
    from run_specialist.errors import RunSpecialistError
    from run_specialist.specialist.fields import ALIASES, CANONICAL, INERT
    from run_specialist.specialist.loader import load_text
    from run_specialist.specialist.settings import resolve, settings_of

FILE = Path("agent.md")
_ENDS = (b"\r\n", b"\r", b"\n")
_SYNTAX = (
    *("---\n", "...\n", "\n", "\r", "\r\n", "\t", ": ", "- ", " #", "! ", "&a ", "*a", "<<: ", "|\n", ">-\n", "? "),
    *("[", "]", "{", "}", '"', "'", "\\n", "\\u0000", "<example>", "</example>", "\ufeff", "\0", "\u2028", "\x85"),
    *("!!python/object:os.system ", "!!binary ", "!!set ", "0x1F", "1e9", "1_000", ".inf", "nan", "2020-01-01", "yes"),
    *("none", "null", "true", "30", "-5", "2.5", "10m", "90s", "Read", "Bash(ls *), Agent(a, b)", "mcp__a__*", "../"),
    *('{"type": "object"}', "type: object", "command: ls", "url: http://x", "from: 0.5", "style: budget", "$ref: '#'"),
)


def one(data: bytes) -> None:
    """Load one file and check the invariants of the result."""
    file = load_text(data, FILE)
    assert file.name
    assert file.description
    assert (file.specialist is None) == (file.status == "error"), file
    # An upper bound: in UTF-16 only every second byte can be part of a line end.
    lines = sum(data.count(end) for end in _ENDS) + 1
    for problem in file.problems:
        assert 1 <= problem.line <= lines, problem
        assert problem.column >= 1, problem
        assert str(problem).isprintable(), problem
    json.dumps(file.as_json())
    if file.specialist is None:
        return
    try:
        settings = settings_of(resolve(file, {}))
    except RunSpecialistError:
        return
    assert all(setting.shown.isprintable() for setting in settings)
    json.dumps([setting.as_json() for setting in settings])


if __name__ == "__main__":
    keys = [f"\n{key}: " for key in (*CANONICAL, *ALIASES, *sorted(INERT))]
    harness.run("front_matter", one, [*_SYNTAX, *keys], Path(__file__).parents[1] / "specialists")
