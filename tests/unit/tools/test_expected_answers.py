"""Files with the cases of an eval are closed by name unless `paths` names them."""

import pytest

from run_specialist.errors import ToolError
from run_specialist.tools.secret_files import holds_cases

CLOSED = ["a.evals.yaml", "specialists/A.Evals.YML", "evals/evals.json", "skills/x/evals/EVALS.json"]
OPEN = [
    "evals.yaml",
    "docs/evals.md",
    "evals.json",
    "devals/evals.json",
    "evals/other.json",
    "a.evals.yaml.md",
    "a.evals",
]


@pytest.mark.parametrize("path", CLOSED)
def test_names_of_case_files_are_closed(path):
    """The names that `specialists eval` looks for are closed at any depth and in any case."""
    assert holds_cases(path)


@pytest.mark.parametrize("path", OPEN)
def test_similar_names_stay_open(path):
    """Similar names stay open."""
    assert not holds_cases(path)


def test_no_tool_shows_an_expected_answer(call, write):
    """No tool finds the question of a case, and reading its file is refused with the reason and the remedy."""
    write({"specialists/a.evals.yaml": "needle", "skills/evals/evals.json": "needle", "x.md": "needle"})
    assert call("grep", pattern="needle") == "x.md:1: needle"
    assert call("glob", pattern="**") == "x.md"
    assert "1 best of 1" in call("search", query="needle")
    with pytest.raises(ToolError, match="is closed: it holds the expected answers of an eval; `paths` in"):
        call("read", path="specialists/a.evals.yaml")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("paths", "opened"),
    [
        (["a.evals.yaml"], ["a.evals.yaml"]),
        (["*.evals.yaml"], ["a.evals.yaml"]),
        (["skills/evals/evals.json"], ["skills/evals/evals.json"]),
        (["*.yaml"], []),
        (["skills/"], []),
        (["."], ["x.md"]),
    ],
    ids=" ".join,
)
def test_paths_open_case_files_only_by_name(call, write, paths, opened):
    """An entry of `paths` that names the file makes it visible; one that merely matches does not."""
    write(dict.fromkeys(("a.evals.yaml", "skills/evals/evals.json", "x.md"), "needle"))
    found = call("grep", paths=tuple(paths), pattern="needle").splitlines()
    assert [line.split(":")[0] for line in found if line.endswith(": needle")] == opened
