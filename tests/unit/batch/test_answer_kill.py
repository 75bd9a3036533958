"""A process that dies while it writes answers loses no row, wherever it dies."""

import json
import subprocess
import sys
from itertools import product

import pytest

from run_specialist.batch.answer_file import AnswerFile, stored_rows
from tests.unit.batch.item_sources import done
from tests.unit.batch.test_answer_file import NAMES, left, numbers, write

PLACES = [
    ("write", "half"),
    ("write", 1),
    ("open", 0),
    ("open", 1),
    ("fsync", 0),
    ("fsync", 1),
    ("chmod", 0),
    ("replace", 0),
    ("replace", 1),
    ("unlink", 0),
    ("unlink", 1),
]
"""A call of the system, and whether the process dies before it, in the middle, or after it."""
CASES = [*product(NAMES, [True, False], [True, False], PLACES)]
# Each case dies in a process of its own, which is forked from one that has imported everything.
DYING = """
import json, os, sys
from pathlib import Path
from run_specialist.batch.answer_file import AnswerFile
from tests.unit.batch.item_sources import done

OWNERS = {"write": os, "fsync": os, "open": Path, "replace": Path, "unlink": Path, "chmod": os}

def die_at(name, when):
    real = getattr(OWNERS[name], name)

    def dying(*given, **named):
        if when == "half":
            real(given[0], bytes(given[1])[:50])
        elif when:
            real(*given, **named)
        os._exit(9)

    setattr(OWNERS[name], name, dying)

for path, whole, ordered, (name, when) in json.load(sys.stdin):
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        continue
    answers = AnswerFile(Path(path), ordered=ordered)
    answers.write(done(2))
    answers.write(done(4))
    die_at(name, when)
    answers.write(done(5))
    answers.finish() if whole else answers.__exit__(None, None, None)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def died(tmp_path_factory):
    """Let a process die in every case; return the file and the exit code of each."""
    paths = [tmp_path_factory.mktemp("dies") / name for name, *_ in CASES]
    for path in paths:
        write(path, [done(1), done(2), done(3)])
    cases = json.dumps([[str(path), *case[1:]] for path, case in zip(paths, CASES, strict=True)])
    ended = subprocess.run([sys.executable, "-c", DYING], input=cases, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return list(zip(paths, map(int, ended.stdout.split()), strict=True))


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(map(str, case)) for case in CASES])
def test_no_row_is_lost(died, number):
    """The file can be read at every moment, and the next call has every row that was written."""
    path, code = died[number]
    name, whole, ordered, (place, when) = CASES[number]
    renamed = whole and not ordered and name == "a.jsonl"
    # A file that is renamed is not copied and deleted.
    assert code == (0 if renamed and place in {"open", "unlink"} else 9)
    written = {2, 4} if when == "half" else {2, 4, 5}
    part = path.with_name(f"{name}.part")
    beside = {int(row.cells["number"]) for row in stored_rows(part)} if part.exists() else set()
    now = set(numbers(path))
    assert now | beside >= written
    # The old rows are there until all new ones are.
    assert now >= {1, 2, 3} or (whole and now == {2, 4, 5})
    with AnswerFile(path):
        pass
    assert set(numbers(path)) == now | beside
    assert left(path.parent) == [name]
