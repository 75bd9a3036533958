"""The benchmark of the countdown: notes, replies that are kept, what counts, and tables; no model is needed."""

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace

from bench import countdown
from bench.countdown import DRAWS, LIMITS, WAYS, KeptReplies, Result, figures, judged, questions
from run_specialist.record.messages import Usage
from tests.scripted_provider import ScriptedProvider, calls


def test_every_key_of_a_question_can_be_found():
    """The notes that a question names, and those they name in turn, contain exactly its keys, the best one last."""
    for question in questions(24):
        found, paths = set(), re.findall(r"[\w-]+\.md", question.text)
        while paths:
            text = question.notes[paths.pop()]
            found |= set(re.findall(r"K-\d{4}", text))
            paths += re.findall(r"[\w-]+\.md", text)
        assert found == set(question.keys)
        years = {re.search(r"K-\d{4}", text)[0]: re.search(r"in (\d{4})", text)[1] for text in question.notes.values()}
        is_chain = "This is the last door." in question.notes[[*question.notes][-1]]
        best = (
            re.search(r"K-\d{4}", [*question.notes.values()][-1])[0] if is_chain else max(years, key=years.__getitem__)
        )
        assert best == question.keys[-1]
    assert questions(3) == questions(24)[:3]


def reader(question):
    """Return a provider that reads the first note of a question, and then responds with the first key."""
    first = re.findall(r"[\w-]+\.md", question.text)[0]
    return ScriptedProvider(
        [
            calls(("read", {"path": first})),
            calls(("respond", {"answer": {"key": question.keys[0]}, "evidence": []}), first_id=2),
        ]
    )


def test_a_reply_is_asked_for_once(tmp_path, monkeypatch):
    """A second start asks for nothing that is kept; a torn last line is asked again; what is counted is right."""
    monkeypatch.setattr(countdown, "LIMITS", (2,))
    monkeypatch.setattr(countdown, "WAYS", {"none": WAYS["none"]})
    question, file = questions(2)[1], tmp_path / "kept.replies"
    found = []

    def ask(scripted):
        kept = KeptReplies(scripted, "a setup", file)
        asyncio.run(countdown.ask_all(kept, [question], {}, lambda **values: found.append(values)))

    first = reader(question)
    ask(first)
    first.assert_used_up()
    ask(ScriptedProvider([]))
    whole = file.read_text()
    file.write_text(whole[:-20])
    again = reader(question)
    again._script.pop(0)
    ask(again)
    again.assert_used_up()
    assert file.read_text() == whole
    assert found[0] == found[1] == found[2]
    assert {name: found[0][name] for name in ("score", "reached", "calls", "landing", "status")} == {
        "score": 0.5, "reached": 0.5, "calls": 1, "landing": "", "status": "answered"
    }  # fmt: skip


RESULT = Result("m", "abc", 0, "none", 2, score=0.5, reached=0.75, calls=2, landing="schema", status="landed",
                input_tokens=900, output_tokens=100)  # fmt: skip


def test_the_tables_compare_each_way_with_the_default():
    """Only questions that were asked in all ways count; a constant difference has an interval without width."""
    found = [
        replace(RESULT, question=number, way=way, limit=limit, score=0.25 if way == "start" else 0.5)
        for number in range(3) for way in WAYS for limit in LIMITS
    ]  # fmt: skip
    text = "\n".join(figures([*found, replace(RESULT, question=7)]))
    assert "| start | 5 | 25% | 75% | 0 of 3 | 2.0 | 0 of 3 | 1,000 |" in text
    assert "| half | 2, 3, 5, 8 | 50% | 75% | 0 of 12 | 2.0 | 0 of 12 | 1,000 |" in text
    assert re.search(r"\| start \|( -25\.0 \(-25\.0 to -25\.0\) \|){5}", text)
    assert "3 questions. Commits: abc." in text
    assert [*figures([RESULT])] == ["No question was asked in all ways."]
    assert DRAWS >= 1000


def outcome(answer, status="landed"):
    """Return what is read of an outcome."""
    return SimpleNamespace(status=status, answer=answer, landing=None, usage=Usage(9, 0, 0, 1),
                           tool_calls=SimpleNamespace(used=2))  # fmt: skip


def test_only_one_key_that_the_model_names_has_a_score():
    """Several keys, an invented one, and a key that the program took from the results score nothing."""
    question = questions(3)[2]
    first, second, best = question.keys
    for answer, status, score in (
        (f"It is {best}.", "landed", 1),
        (second, "answered", 2 / 3),
        (f"{first} or {best}", "landed", 0),
        ("K-0000", "landed", 0),
        (best, "partial", 0),
    ):
        found = judged(question, outcome(answer, status), {first, second})
        assert (found["score"], found["reached"]) == (score, 2 / 3)
