"""Checks of `agents`: each listed specialist exists, can be run, and does not lead back in a cycle."""

from pathlib import Path

import pytest

from run_specialist.errors import SpecialistUnusable
from run_specialist.specialist import registry as agent_graph
from run_specialist.specialist.loader import load_text
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve


def file(name, *agents, lines=(), folder="/s"):
    """Return a specialist's file that lists others as agents."""
    listed = [f"agents: [{', '.join(agents)}]"] if agents else []
    head = "\n".join(("---", f"name: {name}", f"description: Is {name}.", *lines, *listed, "---"))
    return load_text(f"{head}\nYou answer.\n", Path(folder, f"{name}.md"))


def problems_of(*files, further=()):
    """Return the problems of each file by its name, each as level and text."""
    found = agent_graph.check(files, lambda: further)
    return {one.name: [(problem.level, problem.text) for problem in one.problems] for one in found}


def test_existing_agents_cause_no_problem():
    """Agents are found by name, file stem or in any case, also in more distant folders."""
    other = load_text("---\nname: Toad\ndescription: Is.\n---\nYou answer.\n", Path("/s/toads.md"))
    assert problems_of(file("a", "b", "TOAD", "toads"), file("b"), further=[other])["a"] == []


def test_an_unknown_agent_is_a_warning_with_a_suggestion():
    """An unknown agent gives one warning per name, with a suggestion if a similar name exists."""
    (checked, _) = agent_graph.check([file("a", "fact-chekcer", "zebra", "zebra"), file("fact-checker")])
    assert [str(problem) for problem in checked.problems] == [
        "/s/a.md:4:1: agents: no specialist named fact-chekcer; did you mean fact-checker?",
        "/s/a.md:4:1: agents: no specialist named zebra",
    ]
    assert checked.status == "warning"
    assert checked.specialist is not None


def test_an_unusable_agent_is_a_warning_with_the_reason():
    """The warning for an unusable agent contains that agent's own error and its place."""
    said = problems_of(file("a", "b"), file("b", lines=["tool_calls_limit: many"]))
    assert said["a"] == [
        (
            "warning",
            "b cannot be run: /s/b.md:4:19: tool_calls_limit: must be an integer of at least 0, or none, got many",
        )
    ]


CIRCLE = "calls form a cycle: {}; remove one of these names"


def test_a_cycle_is_an_error_in_each_of_its_files():
    """Each file in a cycle gets an error with the path from itself; files that lead into it get a warning."""
    said = problems_of(file("a", "b"), file("b", "c", "d"), file("c", "a"), file("d"), file("e", "a"))
    assert said["a"] == [("error", CIRCLE.format("a -> b -> c -> a"))]
    assert said["b"] == [("error", CIRCLE.format("b -> c -> a -> b"))]
    assert said["c"] == [("error", CIRCLE.format("c -> a -> b -> c"))]
    assert said["d"] == []
    assert said["e"] == [("warning", "a cannot be run: it is part of a cycle")]


def test_a_file_that_lists_itself_is_a_cycle():
    """A file that lists itself is the smallest cycle."""
    assert problems_of(file("a", "a"))["a"] == [("error", CIRCLE.format("a -> a"))]


def test_a_cycle_through_a_more_distant_file_is_reported():
    """A cycle through a more distant file is reported for the checked file only."""
    said = problems_of(file("a", "b"), further=[file("b", "a", folder="/far")])
    assert list(said) == ["a"]
    assert said["a"][0] == ("error", CIRCLE.format("a -> b -> a"))


def test_an_agent_may_be_given_as_a_path(tmp_path):
    """An agent may be given as a path, as elsewhere; a missing file is reported."""
    (tmp_path / "b.md").write_text("---\nname: b\ndescription: Is b.\n---\nYou answer.\n")
    assert problems_of(file("a", str(tmp_path / "b.md")))["a"] == []
    assert problems_of(file("a", str(tmp_path / "c.md")))["a"][0][1].startswith("no specialist named ")


def test_the_number_of_warnings_is_limited():
    """The number of warnings is limited, so a damaged file does not fill the screen."""
    said = problems_of(file("a", *(f"nobody{number}" for number in range(300))))["a"]
    assert len(said) == agent_graph.MAX_REPORTED + 1
    assert said[-1] == ("warning", "290 more names that cannot be called")


@pytest.fixture
def folder(tmp_path):
    """Create a folder with a cycle of two files and one separate file."""
    for one in (file("a", "b"), file("b", "a"), file("c")):
        listed = f"agents: [{', '.join(one.specialist.agents)}]\n" if one.specialist.agents else ""
        (tmp_path / f"{one.name}.md").write_text(
            f"---\nname: {one.name}\ndescription: Is.\n{listed}---\nYou answer.\n", encoding="utf-8"
        )
    return tmp_path


@pytest.mark.parametrize("by_path", [False, True])
def test_a_file_in_a_cycle_is_refused(folder, by_path):
    """A file in a cycle is refused by name and by path; the folder's other files can be run."""
    registry = Registry([folder])
    for name, other in (("a", "b"), ("b", "a")):
        found = registry.find(str(folder / f"{name}.md") if by_path else name)
        with pytest.raises(SpecialistUnusable, match=rf"{name}\.md:4:1: agents: .*: {name} -> {other} -> {name};"):
            resolve(found, {})
    resolve(registry.find("c"), {})


def ring(size):
    """Return files of which each lists the next one, and the last lists the first."""
    return [file(f"n{number}", f"n{(number + 1) % size}") for number in range(size)]


@pytest.mark.exhaustive
def test_long_chains_are_checked_without_recursion():
    """A ring and a chain of 2,000 files and a fully connected team are checked without recursion."""
    assert {text[:21] for said in problems_of(*ring(2_000)).values() for _, text in said} == {"calls form a cycle: n"}
    chain = problems_of(*(file(f"n{number}", f"n{number + 1}") for number in range(2_000)))
    assert chain["n1999"] == [("warning", "no specialist named n2000; did you mean n200 or n1200 or n1000?")]
    team = problems_of(*(file(f"n{number}", *(f"n{other}" for other in range(90))) for number in range(90)))
    assert all(said[0][0] == "error" for said in team.values())


def test_the_example_of_the_docs_is_without_a_problem():
    """The example in docs/own-tools.md lists packaged specialists and has no problems."""
    root = Path(__file__).parents[3]
    examples = (root / "docs/own-tools.md").read_text(encoding="utf-8").split("```markdown\n")[1:]
    (example,) = (text.split("```")[0] for text in examples if "name: release-editor" in text)
    loaded = load_text(example, Path("release-editor.md"))
    (checked,) = agent_graph.check([loaded], Registry([root / "specialists"]).files)
    assert (checked.specialist.agents, checked.problems) == (("thoughts-analyzer", "fact-checker"), ())
