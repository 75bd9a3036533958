"""Laps of the benchmark with real models, with simulated APIs in the place of the model's server."""

import json
from contextlib import contextmanager

import pytest

from bench.local_models.command import main
from tests.wire.chat import ChatSimulator
from tests.wire.chat.replies import answers, calls

RIGHT = {"answer": "12 owls, see owls.md", "evidence": [{"source": "owls.md:1", "quote": "We count 12 owls."}]}
QUESTIONS = [
    {
        "id": name,
        "question": "How many?",
        "answerable": True,
        "facts": [{"fact": "12", "answer_regex": "12"}],
        "cite_groups": [["thoughts/owls.md"]],
    }
    for name in ("one", "two")
]


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command against servers that are started in order, and returns its output."""
    (tmp_path / "thoughts").mkdir()
    (tmp_path / "thoughts" / "owls.md").write_text("We count 12 owls.\n")
    (tmp_path / "questions.json").write_text(json.dumps({"questions": QUESTIONS}))
    (tmp_path / "plain.md").write_text("---\ndescription: Answers.\n---\nAnswer.\n")
    (tmp_path / "tiny.gguf").write_text("")
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "none")

    def run(environments, *flags):
        left = list(environments)

        @contextmanager
        def serve(settings):
            assert settings.model == str(tmp_path / "tiny.gguf")
            yield type("Server", (), {"environment": left.pop(0)})

        monkeypatch.setattr("bench.local_models.lap.llama_server", serve)
        folders = ("--questions", str(tmp_path), "--root", str(tmp_path), "--specialist", str(tmp_path / "plain.md"))
        code = main([str(tmp_path / "tiny.gguf"), *folders, "--json", str(tmp_path / "all.jsonl"), *flags])
        assert left == []
        return code, capsys.readouterr()

    return run


@pytest.mark.exhaustive
def test_a_lap_asks_each_question_once(bench):
    """Each question is asked through the chosen API, and a second run asks only those without a result."""
    with ChatSimulator([calls("grep", {"pattern": "owls"}), calls("respond", RIGHT)]) as api:
        code, told = bench([{"OPENAI_BASE_URL": api.base_url}], "--api", "chat", "--only", "one")
        assert (code, len(api.requests)) == (0, 2)
        assert "one defaults chat: answered, 1 calls, 2 requests" in told.out
        assert "1 of 1 quotes verified, right" in told.out
    with ChatSimulator([answers("12 owls")]) as api:
        _, told = bench([{"OPENAI_BASE_URL": api.base_url}], "--api", "chat")
        assert len(api.requests) == 1
    row = told.out.splitlines()[-1]
    assert row.startswith("| defaults | chat | 2 | 1 | 1 | 1 | 0 | answered 2 | - | 1 |")
    code, told = bench([], "--api", "chat")
    assert (code, told.out.splitlines()[-1]) == (0, row)
