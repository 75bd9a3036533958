"""Ask questions about public repositories offline, and count the answers that quote the function.

    uv run --no-sync python bench/code_answers/score.py FOLDER

FOLDER contains a checkout of each repository in `questions.json`, named as there, at the commit given there.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

QUESTIONS = Path(__file__).with_name("questions.json")
PROSE = (".md", ".rst", ".txt", ".yaml")
GRADES = ("first", "function", "file", "other code", "prose only", "nothing")
"""The function is quoted, first or at all; its file is quoted; other files with code; only prose; no quote."""


def ask(root: Path, question: str) -> dict[str, Any]:
    """Return the outcome of an offline run."""
    flags = ["--model", "offline", "--json", "--store", "none", "--root", str(root)]
    command = [str(Path(sys.executable).with_name("run-specialist")), "codebase-analyst", question, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def grade(evidence: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    """Return one of `GRADES`.

    expected: path, first and last line of each function that answers the question.
    """
    hits = []
    for item in evidence:
        path, _, line = item["source"].rpartition(":")
        first, last = int(line), int(line) + item["quote"].count("\n")
        hits.append(any(path == one["path"] and first <= one["last"] and last >= one["first"] for one in expected))
    paths = [item["source"].rpartition(":")[0] for item in evidence]
    if any(hits):
        return "first" if hits[0] else "function"
    if any(one["path"] in paths for one in expected):
        return "file"
    if not paths:
        return "nothing"
    return "prose only" if all(path.endswith(PROSE) for path in paths) else "other code"


def main(folder: Path) -> None:
    """Print the grade of each answer, and a table of the sets of questions."""
    counts: dict[str, Counter[str]] = {}
    for question in json.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]:
        root = folder / question["id"].rpartition("-")[0]
        graded = grade(ask(root, question["question"])["evidence"], question["expected"])
        counts.setdefault(question["set"], Counter())[graded] += 1
        print(f"{question['id']:14} {graded:11} {question['question']}")
    for name, graded_counts in counts.items():
        total = graded_counts.total()
        print(f"{name}: {total} questions;", ", ".join(f"{kind} {graded_counts[kind]}" for kind in GRADES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
