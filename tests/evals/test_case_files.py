"""Files with cases: what they may contain, and one line with the place of each error."""

import json

import pytest
import yaml
from jsonschema import Draft202012Validator

from run_specialist.errors import UsageError
from run_specialist.evals.cases import case_schema, load_cases, new_cases
from run_specialist.evals.evaluators import make

WHOLE = """\
evaluators: [QuotesVerified]
cases:
- name: owls
  inputs: What do owls eat?
  expected_output: Mice.
  evaluators:
  - Contains: mice
  - OutputMatches: {kind: owl}
  - MaxToolCalls: 3
- inputs: {question: "And toads?", settings: {tool_calls_limit: 2}}
"""


def no_judge(name):
    """Refuse every judge but one."""
    if name != "answer-judge":
        raise UsageError(f"no specialist named {name}")


@pytest.fixture
def errors(tmp_path):
    """Return a function that loads a file and returns the lines of its errors, without its folder."""

    def errors_of(text):
        path = tmp_path / "a.evals.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError) as caught:
            load_cases(path, no_judge)
        return [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).split("\n")]

    return errors_of


def test_a_whole_file_is_read(tmp_path):
    """Names, questions, settings, and the evaluators of the case before those of the file."""
    (tmp_path / "a.evals.yaml").write_text(WHOLE)
    owls, toads = load_cases(tmp_path / "a.evals.yaml", no_judge)
    assert (owls.name, owls.question, owls.expected_output) == ("owls", "What do owls eat?", "Mice.")
    assert [type(one).__name__ for one in owls.evaluators] == [
        "Contains",
        "OutputMatches",
        "MaxToolCalls",
        "QuotesVerified",
    ]
    assert (toads.name, toads.question, toads.settings) == ("case 2", "And toads?", {"tool_calls_limit": 2})
    assert toads.evaluators == (make("QuotesVerified"),)
    assert toads.where.endswith("a.evals.yaml:10:3")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "a.evals.yaml:1:1: has no cases; expected `cases:` with a list"),
        ("- a", "a.evals.yaml:1:1: has no cases; expected `cases:` with a list"),
        ("cases: []", "a.evals.yaml:1:8: has no cases; expected `cases:` with a list"),
        ("cases:\n- a: [", "a.evals.yaml:2:7: did not find"),
        ("case:\n- inputs: a", "a.evals.yaml:1:1: case: unknown key of the file; did you mean cases?"),
        ("cases:\n- name: a", "a.evals.yaml:2:3: inputs: a has no question; expected `inputs: TEXT`"),
        (
            "cases:\n- inputs: a\n  evaluator: []",
            "a.evals.yaml:3:3: evaluator: unknown key of case 1; did you mean evaluators?",
        ),
        (
            "cases:\n- inputs: a\n  evaluators:\n  - QuoteVerified",
            "a.evals.yaml:4:5: QuoteVerified: unknown evaluator; did you mean QuotesVerified?",
        ),
        (
            "cases:\n- inputs: a\n  evaluators:\n  - Regex: '['",
            "a.evals.yaml:4:5: Regex: '[' is not a regular expression: unterminated character set at position 0",
        ),
        (
            "cases:\n- inputs: a\n  evaluators:\n  - Judge: {specialist: nobody, rubric: b}",
            "a.evals.yaml:4:5: Judge: no specialist named nobody",
        ),
        (
            "cases:\n- inputs: {question: a, settings: {tool_call_limit: 3}}",
            "a.evals.yaml:2:36: settings: unknown setting: tool_call_limit; did you mean tool_calls_limit?",
        ),
        ("cases:\n- {inputs: a, name: b}\n- {inputs: c, name: b}", "a.evals.yaml:3:21: name: two cases are named b"),
        ("cases:\n- inputs: a\n  inputs: b", "a.evals.yaml:3:3: the key inputs occurs twice"),
        ("cases:\n\t- inputs: a", "a.evals.yaml:2:1: a tab cannot indent a line; use spaces"),
        ("cases:\n- inputs: a\n  evaluators: [Judge]", "a.evals.yaml:3:16: Judge: rubric: field required"),
        (
            "cases:\n- inputs: a\n  evaluators: [Gap: {holes: 1}]",
            "a.evals.yaml:3:16: Gap: holes: unexpected keyword argument",
        ),
    ],
)
def test_e8_an_error_has_its_place(errors, text, line):
    """One line per error, `file:line:column: key: what is wrong`."""
    assert errors(text)[0].startswith(line)


def test_e8_all_errors_are_reported_at_once(errors):
    """An author sees every error of a file in one go, in the order of the file."""
    lines = errors("cases:\n- inputs: ''\n- inputs: a\n  evaluators: [Nothing, {Status: never}]\n")
    assert [line.split(":")[1] for line in lines] == ["2", "4", "4"]


def test_a_file_that_repeats_itself_cannot_fill_the_memory(monkeypatch, errors):
    """A few lines of YAML that refer to one another stand for more values than anybody writes."""
    monkeypatch.setattr("run_specialist.specialist.positions.MOST_CASE_VALUES", 5_000)
    text = "\n".join(["a0: &a0 [1, 1, 1, 1]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 8))])
    assert "more than 5,000 values" in errors(text)[0]


@pytest.mark.parametrize("name", ["LLMJudge", "GEval"])
def test_evaluators_that_call_a_model_themselves_are_refused(errors, name):
    """Their requests would be in no limit, bill or store; neither the reader nor the schema knows them."""
    text = f"cases:\n- inputs: Why?\n  evaluators:\n  - {name}: it is right\n"
    assert errors(text)[0].startswith(f"a.evals.yaml:4:5: {name}: unknown evaluator; ")
    assert [*Draft202012Validator(case_schema()).iter_errors(yaml.safe_load(text))]
    assert f"spec_{name}" not in json.dumps(case_schema())


def test_the_schema_knows_the_evaluators_of_this_package():
    """An editor accepts a whole file, and marks a misspelt evaluator."""
    validator = Draft202012Validator(case_schema())
    assert [*validator.iter_errors(yaml.safe_load(WHOLE))] == []
    assert [*validator.iter_errors({"cases": [{"inputs": "a", "evaluators": ["QuoteVerified"]}]})]
    assert [*validator.iter_errors({"cases": [{"inputs": "a", "evaluators": [{"CallsUnder": "x"}]}]})]


def test_a_first_set_comes_from_answered_runs(tmp_path):
    """Questions once, newest first; verified quotes are expected again; a set that was written can be read."""
    quote = {"source": "notes/owls.md:3", "quote": "Owls eat\nmice.", "verified": True}
    other = {"source": "notes/toads.md:1-2", "quote": "Toads", "verified": False}
    answered = {"status": "answered", "answer": "Mice.\nAt night.", "evidence": [quote, other], "gaps": []}
    past = [
        ("What do owls eat?", answered),
        ("What do owls eat?", {**answered, "evidence": []}),
        ("And zebras?", {**answered, "evidence": [], "gaps": ["nothing on zebras"]}),
        ("Broken?", {**answered, "status": "failed"}),
    ]
    path = tmp_path / "a.evals.yaml"
    path.write_text(new_cases("owls", past))
    first, second = load_cases(path, no_judge)
    assert (first.question, first.expected_output) == ("What do owls eat?", None)
    assert [str(one) for one in first.evaluators] == [
        "CitesPath(paths='notes/owls.md')",
        "Contains(texts='Owls eat mice.')",
        "QuotesVerified()",
    ]
    assert [type(one).__name__ for one in second.evaluators] == ["Gap"]
    with pytest.raises(UsageError, match="no stored runs of owls with an answer"):
        new_cases("owls", past[3:])
