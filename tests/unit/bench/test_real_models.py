"""The benchmark with real models: its scorer, its results and its table; no model is needed."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.local_models.command import QUESTIONS, TOP
from bench.local_models.leaked import has_leaked_call
from bench.local_models.results import SALVAGED, SILENT, Lap, Results
from bench.local_models.scorer import Notes, Question, mistakes, read_questions
from run_specialist.api.runner import Runner
from run_specialist.loop import evidence
from run_specialist.record.outcome import Evidence
from tests.scripted_provider import ScriptedProvider, calls

QUESTION = Question.of(
    {
        "id": "q1",
        "question": "How many owls are there?",
        "answerable": True,
        "facts": [{"fact": "12 owls", "answer_regex": r"\b12\b"}],
        "cite_groups": [["notes/owls.md", "notes/birds.md"]],
    }
)
UNKNOWN = replace(QUESTION, answerable=False, facts=(), cite_groups=())
NOTES = Notes(frozenset({"owls.md", "birds.md"}), "We count 12\nowls, see old.md.\n")
LAP = Lap("tiny, 4 s", "defaults", "chat", "abc")


@pytest.mark.parametrize(
    ("question", "answer", "wrong"),
    [
        (QUESTION, "12 owls (notes/owls.md:3)", []),
        (QUESTION, "12 owls, also in old.md, which birds.md replaces", []),
        (QUESTION, "112 owls, owls.md", ["fact missing: 12 owls"]),
        (QUESTION, "12 owls", ["no citation of owls.md or birds.md"]),
        (QUESTION, "12 owls, owls.md and newts.md", ["cites files that do not exist: newts.md"]),
        (UNKNOWN, "The notes say nothing about it.", []),
        (UNKNOWN, "They use Kubernetes.", ["does not say that the notes hold nothing"]),
    ],
)
def test_what_is_wrong_with_an_answer(question: Question, answer: str, wrong: list[str]):
    """Facts, citations, invented files and silent notes are checked, each with its own reason."""
    assert mistakes(question, answer, NOTES) == wrong


def test_our_own_questions_are_about_our_notes():
    """Every note that the questions of this project cite exists, and ids are unique."""
    questions, notes = read_questions(QUESTIONS), Notes.read(TOP / "thoughts")
    cited = [path for question in questions for group in question.cite_groups for path in group]
    assert cited
    assert [path for path in cited if not (TOP / path).is_file()] == []
    assert {Path(path).name for path in cited} <= notes.names
    assert len({question.id for question in questions}) == len(questions)


CALL = '{"name": "grep", "arguments": {"pattern": "owls"}}'


@pytest.mark.parametrize(
    "text",
    [
        f" {CALL}\n{CALL}\n",
        f"[{CALL}, {CALL}]",
        f"```json\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>",
        CALL.replace("arguments", "parameters"),
        '{"call": {"tool": "grep", "arguments": {}}}',
        '{"answer": "12", "evidence": []}',
    ],
)
def test_calls_written_as_text_are_recognised(text: str):
    """A text of nothing but calls of offered tools counts in every form that servers pass on, not among other words."""
    assert has_leaked_call(text)
    assert has_leaked_call(text, {"grep"})
    assert not has_leaked_call(CALL, {"read"})
    assert not has_leaked_call(f"I will call this: {text}")
    assert not has_leaked_call(f"{text} and more")


@pytest.mark.parametrize("text", ["", "12 owls", "[]", "{}", '{"name": "owl"}', '{"answer": "12"}', "[" * 100_000])
def test_other_answers_are_no_calls(text: str):
    """Prose, and JSON that calls nothing, are answers."""
    assert not has_leaked_call(text)


@pytest.fixture
async def outcome(tmp_path):
    """The outcome of a real run of a scripted model: 12 owls, with a quote that was not read."""
    (tmp_path / "owl.md").write_text("---\nname: owl\ndescription: Is owl\n---\nYou look.\n")
    answer = {"answer": "12 owls", "evidence": [{"source": "owls.md:1", "quote": "We count 12 owls"}]}
    script = [calls(("ls", {})), calls(("respond", answer), first_id=2)]
    async with Runner(root=tmp_path, dir=tmp_path, provider=ScriptedProvider(script), store="none") as runner:
        return await runner.run("owl", "How many?")


async def test_a_result_counts_quotes_and_mistakes(outcome):
    """Only verified quotes add to what is scored; the benchmark looks quotes up in the notes itself."""
    result = LAP.result(QUESTION, outcome, NOTES, seconds=3.04)
    assert (result.status, result.calls, result.turns, result.seconds) == ("answered", 1, 2, 3.0)
    assert (result.quotes, result.verified, result.in_notes) == (1, 0, 1)
    assert result.mistakes == ("no citation of owls.md or birds.md",)
    read = replace(outcome, evidence=(Evidence("owls.md:1", "We count 12 owls", verified=True),))
    assert LAP.result(QUESTION, read, NOTES, seconds=3).is_right


async def test_what_the_model_did_not_say_is_no_answer(outcome):
    """A salvaged answer, a failed run and a silent one have no answer, no quotes, and are not right."""
    right = replace(outcome, answer="12 owls, owls.md")
    assert LAP.result(QUESTION, right, NOTES, seconds=3).is_right
    salvaged = replace(right, answer=f"{SALVAGED} no answer. It goes on.]\n\n{right.answer}")
    for one in (salvaged, replace(right, status="failed"), replace(right, status="aborted")):
        result = LAP.result(QUESTION, one, NOTES, seconds=3)
        assert (result.is_right, result.quotes, result.answer) == (False, 0, "")
    silent = LAP.result(QUESTION, right, NOTES, seconds=3, in_time=False)
    assert (silent.status, silent.answer, silent.mistakes, silent.turns) == (SILENT, "", ("no answer",), 2)
    assert LAP.result(QUESTION, None, NOTES, seconds=3, in_time=False).status == SILENT
    assert evidence.salvage("no answer", "text", ()).startswith(SALVAGED)


async def test_results_are_kept_and_not_measured_again(outcome, tmp_path):
    """Each result is a line of the file; a line that was cut is dropped, and its question is missing again."""
    file = tmp_path / "results.jsonl"
    first = LAP.result(QUESTION, outcome, NOTES, seconds=3)
    second = replace(first, question="q2")
    results = Results(file)
    results.add(first)
    results.add(second)
    file.write_text(file.read_text()[:-20])
    again = Results(file)
    assert LAP.key(QUESTION) in again
    assert second.key not in again
    assert replace(LAP, variant="all").key(QUESTION) not in again
    again.add(second)
    assert Results(file).of(LAP.setup, ["defaults"]) == [first, second]
    assert Results(file).of("another setup", ["defaults"]) == Results(file).of(LAP.setup, ["all"]) == []
