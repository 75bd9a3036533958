"""Baselines: the file at a commit, an earlier eval, another file, or a result in JSON."""

import json

import pytest

from run_specialist.errors import UsageError
from run_specialist.evals import baseline
from run_specialist.evals.baseline import Baseline, find_baseline
from run_specialist.evals.comparison import as_json
from run_specialist.evals.plan import Variant
from run_specialist.specialist.registry import Registry
from tests.evals.compared_runs import result_of
from tests.evals.git_project import NEEDS_GIT, commit, git

OLD = "---\nname: finder\ndescription: finds\noutput_schema: ../shapes/answer.json\n---\nOld words.\n"
SHAPE = '{"type": "object", "properties": {"old": {"type": "string"}}}'


@pytest.fixture
def project(tmp_path):
    """A repository whose newest commit has other contents than the one before, and a changed work tree."""
    folder = tmp_path / "project"
    folder.mkdir()
    commit(folder, specialists__finder_DOT_md=OLD, shapes__answer_DOT_json=SHAPE)
    git(folder, "tag", "v1")
    commit(folder, specialists__finder_DOT_md=OLD.replace("Old", "New"), shapes__answer_DOT_json="{}")
    (folder / "specialists" / "finder.md").write_text("changed")
    return folder


@pytest.fixture
def find(project, tmp_path):
    """Return a function that finds a baseline of the specialist of the project."""

    def found(text):
        return find_baseline(text, project / "specialists" / "finder.md", "none", tmp_path / "kept")

    return found


@NEEDS_GIT
def test_e9_the_file_is_as_it_was_at_the_commit(find, project, tmp_path):
    """The file and its schema are copied; the work tree is untouched; the same content has the same path."""
    state = git(project, "status", "--porcelain")
    base = find("v1")
    file = Registry([]).find(str(base.path))
    assert (base.name, file.status, file.specialist.prompt.strip()) == ("v1", "ok", "Old words.")
    assert (base.path.parent.parent / "shapes" / "answer.json").read_text() == SHAPE
    assert find("HEAD~1").path == find(git(project, "rev-parse", "v1")).path == base.path
    assert find("HEAD").path != base.path
    assert find(git(project, "rev-parse", "v1")).name == git(project, "rev-parse", "v1")[:10]
    assert git(project, "status", "--porcelain") == state
    assert [one.name for one in tmp_path.rglob("*.tmp")] == []


@NEEDS_GIT
def test_a_file_can_have_had_another_path(find, project):
    """`REF:PATH` names it from the top of the repository; a link is not a regular file, and is not followed."""
    (project / "specialists" / "finder.md").rename(project / "specialists" / "renamed.md")
    (project / "specialists" / "link.md").symlink_to("/etc/passwd")
    commit(project)
    with pytest.raises(
        UsageError,
        match=r"finder.md cannot be read from commit \w{10} \(path '.*' does not exist .*; if it had another",
    ):
        find("HEAD")
    assert find("HEAD:specialists/renamed.md").path.read_text() == "changed"
    assert find("git:HEAD:specialists/link.md").path.read_text() == "/etc/passwd"


@NEEDS_GIT
def test_a_schema_of_a_copy_cannot_be_elsewhere(find, project, tmp_path):
    """The paths that a committed file names do not lead out of its copy, as they do not lead out of its project."""
    (tmp_path / "secret.json").write_text("{}")
    for path in ("../../secret.json", str(tmp_path / "secret.json")):
        commit(project, specialists__finder_DOT_md=OLD.replace("../shapes/answer.json", path))
        file = Registry([]).find(str(find("HEAD").path))
        assert [problem.key for problem in file.problems if problem.level == "error"] == ["output_schema"]


@pytest.mark.exhaustive(one_in=5)
@NEEDS_GIT
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nope", "baseline nope: is neither a file, nor a stored eval, nor a commit: no commit of "),
        ("--help", "baseline --help: is neither a file, "),
        ("", "baseline '': the name of a commit, an eval or a file is missing"),
        ("HEAD:none.md", r"baseline HEAD:none.md: none.md cannot be read from commit \w{10}"),
        ("none.md", "baseline none.md: no such file"),
        ("eval:eval-1", "baseline eval:eval-1: no eval with this id is stored"),
        ("\x1b[31m", r"baseline \S+: is neither a file"),
    ],
)
def test_e8_a_baseline_that_does_not_exist_is_one_line(find, project, text, part):
    """The place is the specialist's file."""
    with pytest.raises(UsageError, match=part) as raised:
        find(text)
    assert str(raised.value).startswith(f"{project}/specialists/finder.md:1:1: baseline ")
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


@NEEDS_GIT
def test_an_eval_is_found_before_a_commit(find, project, monkeypatch):
    """`git:` excludes the stored eval of that name."""
    git(project, "tag", "eval-1")
    stored = Baseline("eval-1", None, Variant("as it is", "a.md", "1"))
    monkeypatch.setattr(baseline, "earlier_eval", lambda *_: stored)
    assert find("eval-1") is find("eval:eval-1") is stored
    assert find("git:eval-1").path is not None


def test_a_result_in_json_is_read_again(tmp_path):
    """Its only variant that is not a baseline is compared; with several, the variant of the unchanged file."""
    result = result_of([0.0] * 3, [0.5] * 3, more={"b": [1.0] * 3})
    path = tmp_path / "result.json"
    path.write_text(json.dumps(as_json(result)))
    base = find_baseline(str(path), tmp_path / "finder.md", "none")
    assert (base.name, base.variant.name, len(base.runs)) == (path.name, "as it is", 3)
    assert [one.score for one in base.runs] == [0.5] * 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a":\n x}', r"r.json: is not a result of .*: 1:1: invalid JSON: .* line 2 column 2"),
        ("{}", "r.json: is not a result of .*: eval: field required"),
        ('{"eval": "e", "specialist": "s", "cases": [], "variants": [], "runs": []}', "must have one variant"),
    ],
)
def test_a_broken_result_is_one_line(tmp_path, text, part):
    """It names the first thing that is wrong."""
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=part) as raised:
        find_baseline(str(path), tmp_path / "finder.md", "none")
    assert "\n" not in str(raised.value)
