"""Command line of the benchmark with real models."""

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import report
from bench.kept_lines import LinesUnreadable
from bench.local_models.lap import MODELS, Setting, lap
from bench.local_models.results import Lap, Result, Results
from bench.local_models.scorer import Notes, Question, QuestionsUnreadable, read_questions
from bench.local_models.table import mixed, table
from bench.local_models.variants import VARIANTS, NotHere, Variant
from run_specialist.errors import RunSpecialistError
from tests.local.llama_server import ServerFailed, ServerSettings

TOP = Path(__file__).parents[2]
QUESTIONS = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Ask the questions, print a line for each and the table, and return the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        questions = _chosen(read_questions(given.questions), given.only)
        results = Results(given.json)
    except (QuestionsUnreadable, LinesUnreadable) as error:
        parser.error(str(error))
    setting = _setting(given)
    variants = [variant for name in given.variant or ["defaults"] if _is_here(variant := VARIANTS[name])]
    apis = ["messages", "chat"] if given.api == "both" else [given.api]
    print(f"{report.machine()}\n\n{setting.name}\n", flush=True)
    try:
        _laps(setting, variants, apis, questions, results)
    except (ServerFailed, RunSpecialistError) as error:
        print(f"real_models: {error}", file=sys.stderr)
        return 1
    finally:
        names, ids = {variant.name for variant in variants}, {question.id for question in questions}
        shown = [each for each in results.of(setting.name, names) if each.api in apis and each.question in ids]
        print("\n" + "\n\n".join(part for part in (table(shown), mixed(shown)) if part), flush=True)
    return 0


def _laps(
    setting: Setting, variants: Sequence[Variant], apis: Sequence[str], questions: Sequence[Question], results: Results
) -> None:
    def done(result: Result) -> None:
        results.add(result)
        print(result.line(), flush=True)

    commit = report.commit()
    for variant in variants:
        for api in apis:
            common = Lap(setting.name, variant.name, api, commit)
            missing = [question for question in questions if common.key(question) not in results]
            lap(setting, variant, common, missing, done)


def _is_here(variant: Variant) -> bool:
    try:
        variant.check()
    except NotHere as reason:
        print(f"{variant.name}: skipped: {reason}", flush=True)
        return False
    return True


def _chosen(questions: list[Question], ids: list[str] | None) -> list[Question]:
    known = [question.id for question in questions]
    for each in ids or ():
        if each not in known:
            raise QuestionsUnreadable(f"--only: no question {each}; there are {', '.join(known)}")
    return [question for question in questions if not ids or question.id in ids]


def _setting(given: argparse.Namespace) -> Setting:
    template = given.chat_template.read_text(encoding="utf-8") if given.chat_template else None
    server = ServerSettings(str(given.model), given.context, template, temperature=given.temperature)
    root = given.root.absolute()
    return Setting(
        _name(given), server, given.specialist, root, given.limit, given.result_limit, given.seconds, Notes.read(root)
    )


def _name(given: argparse.Namespace) -> str:
    """Return everything that must be the same for results to be comparable, on one line."""
    template = "its own template"
    if given.chat_template:
        template = f"{given.chat_template.name} {hashlib.sha256(given.chat_template.read_bytes()).hexdigest()[:8]}"
    return (
        f"{given.model.name}, {template}, context {given.context}, temperature {given.temperature:g}; "
        f"{given.specialist}, limit {given.limit}, results of {given.result_limit} characters, "
        f"{given.seconds:g} s a question; "
        f"questions of {given.questions.resolve().name}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/real_models.py", description="Ask real, small models on this machine.")
    parser.add_argument("model", type=_file, metavar="MODEL.gguf")
    parser.add_argument(
        "--questions", type=_folder, default=QUESTIONS, metavar="DIR", help="folder with questions.json; default: ours"
    )
    parser.add_argument("--root", type=_folder, default=TOP, metavar="DIR", help="notes; default: this repository")
    parser.add_argument("--api", choices=[*MODELS, "both"], default="local")
    parser.add_argument("--only", action="append", metavar="ID", help="ask only this question; repeatable")
    parser.add_argument(
        "--variant",
        nargs="+",
        choices=list(VARIANTS),
        metavar="NAME",
        help=f"{', '.join(VARIANTS)}; default: defaults",
    )
    parser.add_argument("--specialist", default="thoughts-analyzer", metavar="NAME")
    parser.add_argument("--chat-template", type=_file, metavar="FILE", help="Jinja; default: the model's own")
    parser.add_argument("--context", type=_at_least(512), default=16_384, metavar="N", help="tokens; default: 16384")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="default: 0")
    parser.add_argument(
        "--result-limit", type=_at_least(1), default=3000, metavar="N", help="characters of a result; default: 3000"
    )
    parser.add_argument("--limit", type=_at_least(0), default=6, metavar="N", help="tool calls; default: 6")
    parser.add_argument("--seconds", type=_at_least(1), default=240, metavar="N", help="for a question; default: 240")
    parser.add_argument("--json", type=_writable, metavar="FILE", help="append results, and skip those it has")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text}")
        return int(text)

    return number


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return Path(text)


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {text}")
    return Path(text)


def _writable(text: str) -> Path:
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {Path(text).parent}")
    return Path(text)
