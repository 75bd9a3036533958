"""Read the cases of the Berkeley function calling leaderboard, and check calls by its own checker."""

import importlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from bench.judges.packages import installed

PIN = "bfcl-eval==2026.3.23"
CATEGORIES = {"simple": "simple_python", "multiple": "multiple"}
"""Names of the data sets by category: one function is offered, or several of which one is right."""
# What the converter and the checker import but do not need: the handlers of all vendors' models, the parsers of Java
# and JavaScript (tree_sitter), helpers for files (filelock) and for repeated requests (tenacity).
_STUBS = (
    "bfcl_eval.constants.model_config",
    "bfcl_eval.model_handler.parser.java_parser",
    "bfcl_eval.model_handler.parser.js_parser",
    "bfcl_eval.utils",
    "tenacity",
)
_MODEL = "judged"
_GOLDEN = (math.sqrt(5) - 1) / 2

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the functions that are offered, and the calls that are right."""

    id: str
    category: str
    question: str
    tools: Sequence[Json]
    """The functions as the chat completions API takes them, converted by the package."""
    functions: Sequence[Json]
    """The functions as the data has them, for the checker."""
    answer: Sequence[Json]


def sample(size: int, count: int) -> list[int]:
    """Return `count` different places below `size`, in an order in which each beginning is spread evenly.

    The step is about 0.618 of the size and has no common divisor with it.
    """
    step = next(step for step in range(max(1, round(size * _GOLDEN)), 2 * size) if math.gcd(step, size) == 1)
    return [number * step % size for number in range(min(count, size))]


class Leaderboard:
    """The data and the checker of the package."""

    def __init__(self) -> None:
        """Fetch the package on first use, and import converter and checker with stubs for what they do not need."""
        folder = installed(PIN)
        self._data = folder / "bfcl_eval/data"
        sys.path.append(str(folder))
        for name in _STUBS:
            sys.modules[name] = _Stub(name)
        # The names of functions have `_` in place of `.`, as for the vendors' models.
        model = SimpleNamespace(underscore_to_dot=True)
        sys.modules["bfcl_eval.constants.model_config"].__dict__["MODEL_CONFIG_MAPPING"] = {_MODEL: model}
        self._handler = importlib.import_module("bfcl_eval.model_handler.utils")
        self._checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")

    def cases(self, count: int) -> list[Case]:
        """Return `count` cases, taken in turn from the samples of all categories."""
        samples = [self._category(name, -(-count // len(CATEGORIES))) for name in CATEGORIES]
        return [case for turn in zip(*samples, strict=False) for case in turn][:count]

    def _category(self, category: str, count: int) -> Iterator[Case]:
        path = self._data / f"BFCL_v4_{CATEGORIES[category]}.json"
        lines, answers = _lines(path), _lines(path.parent / "possible_answer" / path.name)
        style, types = self._handler.ModelStyle.OPENAI_COMPLETIONS, self._handler.GORILLA_TO_OPENAPI
        for place in sample(len(lines), count):
            line, answer = lines[place], answers[place]
            assert line["id"] == answer["id"]  # noqa: S101 - the files have the same order
            ((message,),) = line["question"]
            tools = self._handler.convert_to_tool(line["function"], types, style)
            yield Case(line["id"], category, message["content"], tools, line["function"], answer["ground_truth"])

    def mistake(self, case: Case, calls: Sequence[Mapping[str, Any]]) -> str:
        """Return the kind of the first mistake in some calls; empty if they are right.

        calls: each has a `name` and `arguments`, an object.
        """
        python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
        written = [{call["name"]: call["arguments"]} for call in calls]
        verdict = self._checker.ast_checker(
            case.functions, written, case.answer, python, CATEGORIES[case.category], _MODEL
        )
        return "" if verdict["valid"] else str(verdict["error_type"])


class _Stub(ModuleType):
    """A module in which every name is a function that returns its argument."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: lambda function: function


def _lines(path: Path) -> list[Json]:
    with path.open(encoding="utf-8") as lines:
        return [*map(json.loads, lines)]
