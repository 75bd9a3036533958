"""Files, folders and streams of answers; no row is lost on a full disk or when a process dies."""

import csv
import io
import json
import os
import resource
import stat
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch import answer_file
from run_specialist.batch.answer_file import (
    AnswerFile,
    AnswerFolder,
    AnswerStream,
    cells_of,
    guarded_cell,
    parse_row,
    row_line,
    stored_rows,
    unguarded_cell,
)
from run_specialist.batch.item import Done, Item
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Evidence
from tests.unit.batch.item_sources import INPUTS, done, rows

NAMES = ["a.csv", "a.jsonl"]


def read(path) -> list[dict[str, str]]:
    """Return the rows of either format as cells."""
    if path.suffix != ".csv":
        return [cells_of(row) for row in rows(path)]
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: unguarded_cell(cell) for name, cell in row.items()} for row in csv.DictReader(file, strict=True)]


def numbers(path) -> list[int]:
    """Return the numbers of the rows."""
    return [int(row["number"]) for row in read(path)]


def write(path, ended, *, whole=True, ordered=False) -> None:
    """Write the rows of a call."""
    with AnswerFile(path, ordered=ordered) as answers:
        for one in ended:
            answers.write(one)
        if whole:
            answers.finish()


def left(folder) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(entry.name for entry in folder.iterdir())


def test_a_row_is_on_the_disk_as_soon_as_it_is_written(tmp_path):
    """In the file beside, as JSON Lines in both formats; the old file stays until the end."""
    for name in NAMES:
        write(tmp_path / name, [done(1, "old")])
        with AnswerFile(tmp_path / name) as answers:
            answers.write(done(2, "new"))
            assert answers.part == tmp_path / f"{name}.part"
            assert [row["number"] for row in rows(answers.part)] == [2]
            assert numbers(tmp_path / name) == [1]
            answers.write(done(1, "old"))
            answers.finish()
        assert numbers(tmp_path / name) == [2, 1]


@pytest.mark.parametrize("name", NAMES)
def test_an_early_end_keeps_the_rows_that_were_not_replaced(tmp_path, name):
    """A row is replaced by one of the same run, or of the same input at the same place."""
    old = [done(1, {"f": "a"}, answer="old"), done(2, {"f": "b"}, answer="old"), done(3, {"g": "-x"}, answer="old")]
    write(tmp_path / name, old)
    new = [done(7, {"f": "b"}, run_id="b1-2", answer="new"), done(1, {"f": "a"}, run_id="other", answer="new")]
    write(tmp_path / name, new, whole=False)
    found = [(row["number"], row["answer"], row.get("f"), row.get("g")) for row in read(tmp_path / name)]
    missing = "" if name == "a.csv" else None
    assert found == [("3", "old", missing, "-x"), ("7", "new", "b", missing), ("1", "new", "a", missing)]
    assert left(tmp_path) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_crashed_call_is_recovered(tmp_path, name):
    """Its rows are added by the next call before anything else; a torn last row is left out."""
    write(tmp_path / name, [done(1, "a", answer="old"), done(2, "b", answer="old")])
    with AnswerFile(tmp_path / name) as answers:
        answers.write(done(2, "b", answer="new"))
        answers.write(done(3, "c"))
        crashed = answers.part.read_bytes()
    write(tmp_path / name, [done(1, "a", answer="old"), done(2, "b", answer="old")])
    (tmp_path / f"{name}.part").write_bytes(crashed + crashed[:40])
    (tmp_path / f"{name}.new").write_bytes(b"half of a fi")
    with AnswerFile(tmp_path / name) as answers:
        found = [(row["number"], row["answer"]) for row in read(tmp_path / name)]
        assert found == [("1", "old"), ("2", "new"), ("3", "So.")]
        assert answers.part.read_bytes() == b""
    assert left(tmp_path) == [name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content",
    [
        b"name,age\nx,3\n",
        b"\xff\xfe\x00",
        b'number,state\r\n"1',
        b"number,state,answer,evidence,verified,gaps,calls,cost_usd,seconds,run_id,error\r\nx\r\n",
    ],
)
def test_another_file_is_never_overwritten(tmp_path, name, content):
    """Only a file of answers is replaced."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="is not a row of answers; the file is not overwritten"):
        AnswerFile(tmp_path / name)
    assert (tmp_path / name).read_bytes() == content
    assert left(tmp_path) == [name]


def test_paths_that_cannot_be_written(tmp_path):
    """One line each, before anything is sent."""
    (tmp_path / "items.jsonl").write_text('"a"\n')
    (tmp_path / "link.jsonl").symlink_to("items.jsonl")
    os.mkfifo(tmp_path / "pipe")
    for path, reason in [
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / "missing" / "a.jsonl", "missing does not exist; create it first"),
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path / "a.xlsx", "use the suffix .jsonl or .csv"),
        (tmp_path / "link.jsonl", "is the file with the items"),
        (tmp_path / ("x" * 252), "cannot be written: File name too long"),
    ]:
        with pytest.raises(UsageError) as raised:
            AnswerFile(path, items=tmp_path / "items.jsonl")
        assert reason in str(raised.value)
        assert "\n" not in str(raised.value)


def test_two_calls_cannot_write_one_file(tmp_path):
    """The second one is refused, and takes nothing away from the first."""
    path = tmp_path / "a.jsonl"
    with AnswerFile(path) as answers:
        answers.write(done(1))
        with pytest.raises(UsageError, match=r"a\.jsonl is being written by another process"):
            AnswerFile(path)
        answers.write(done(2))
    assert numbers(path) == [1, 2]


def test_a_file_that_another_process_has_just_renamed_is_not_used(tmp_path, monkeypatch):
    """Between the opening of the file beside and its lock, the other call may have ended."""
    path = tmp_path / "a.jsonl"
    real, renamed = answer_file._lock, []

    def lock(descriptor):
        if not renamed:
            (tmp_path / "a.jsonl.part").replace(tmp_path / "elsewhere")
            renamed.append(True)
        real(descriptor)

    monkeypatch.setattr(answer_file, "_lock", lock)
    write(path, [done(1)])
    assert numbers(path) == [1]
    assert (tmp_path / "elsewhere").read_bytes() == b""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("whole", [True, False])
def test_permissions_and_links_are_kept(tmp_path, name, whole):
    """The target of a symlink is replaced, with its permissions."""
    target = tmp_path / "target"
    write(target.with_suffix(".csv" if name == "a.csv" else ""), [done(1)])
    target = target.with_suffix(".csv" if name == "a.csv" else "")
    target.chmod(0o640)
    (tmp_path / name).symlink_to(target.name)
    write(tmp_path / name, [done(2)], whole=whole)
    assert (tmp_path / name).is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert 2 in numbers(target)


def test_a_link_in_the_place_of_the_other_file_is_not_followed(tmp_path):
    """Someone else's link must not choose which file is emptied."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a.jsonl.part").symlink_to("victim")
    with pytest.raises(UsageError, match=r"a\.jsonl cannot be written: "):
        AnswerFile(tmp_path / "a.jsonl")
    assert (tmp_path / "victim").read_text() == "precious"


ENDED = st.lists(st.tuples(st.integers(1, 6), INPUTS, st.text(max_size=8)), max_size=5, unique_by=lambda one: one[0])


@given(ENDED, ENDED, st.booleans(), st.booleans(), st.sampled_from(NAMES))
def test_what_is_written_reads_back(tmp_path_factory, first, second, whole, ordered, name):
    """After any two calls, the file has the newest row of each run, and the next call can read it."""
    path = tmp_path_factory.mktemp("rows") / name
    old, new = ([done(number, value, answer=answer) for number, value, answer in call] for call in (first, second))
    write(path, old)
    write(path, new, whole=whole, ordered=ordered)
    newest = {one.number: one for one in (new if whole and new else [*old, *new])}
    found = read(path) if path.exists() else []
    order = [int(row["number"]) for row in found]
    assert sorted(order) == sorted(newest)
    assert not (ordered and new) or order == sorted(order)
    for row in found:
        expected = cells_of(newest[int(row["number"])].as_row())
        # UTF-8 has no halves of surrogate pairs, and a table has the columns of all inputs.
        known = {column: cell.encode("utf-8", "replace").decode() for column, cell in expected.items()}
        assert {column: cell for column, cell in row.items() if cell} == {
            column: cell for column, cell in (known if name == "a.csv" else expected).items() if cell
        }
    write(path, [], whole=False)


@given(st.text(), INPUTS)
def test_a_row_reads_back(answer, given_input):
    """Any answer, also one with control characters and halves of surrogate pairs, is one line of UTF-8."""
    one = done(3, given_input, answer=answer)
    line = row_line(one)
    assert line.count(b"\n") == 1
    assert line.decode().rstrip("\n").isprintable()
    assert parse_row(line) == json.loads(json.dumps(one.as_row()))


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        *((text, f"'{text}") for text in ("@SUM(A1)", "-x", "-5+1")),
        *((text, text) for text in ("+1.5e-7", "-1,5", "plain = text")),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("\t=1", "'\t=1"),
        ("＝1+1", "'＝1+1"),
        ("-5", "-5"),
        ("'tis", "'tis"),
        ("'=x", "''=x"),
        ("0''", "0''"),
        ("", ""),
    ],
)
def test_formulas_are_guarded(text, cell):
    """They are prefixed with an apostrophe; numbers and other texts stay unchanged."""
    assert guarded_cell(text) == cell
    assert unguarded_cell(cell) == text


@given(st.text(max_size=6) | st.text("'=+-@\t\r\n＝＋－＠1.,e", max_size=6))
def test_guarded_cells_read_back(text):
    """Every text survives, and no cell begins like a formula unless it is a number."""
    assert unguarded_cell(guarded_cell(text)) == text
    assert guarded_cell(text)[:1] not in {"=", "@", "\t", "\r", "\n"}


def test_the_cells_of_an_outcome():
    """Counts instead of lists, and empty cells for unknown values."""
    quotes = (Evidence("a:1", "q", verified=True), Evidence("a:2", "r", verified=False), Evidence("a:3", "s", None))
    one = done(7, {"path": "a.md", "n": [1]}, evidence=quotes, gaps=("x", "y"), cost_usd=0.01, duration_s=1.26)
    assert cells_of(one.as_row()) == {
        "number": "7",
        "path": "a.md",
        "n": "[1]",
        "state": "landed",
        "answer": "So.",
        "evidence": "3",
        "verified": "1",
        "gaps": "x; y",
        "calls": "3",
        "cost_usd": "0.01",
        "seconds": "1.3",
        "run_id": "b1-7",
        "error": "",
    }
    failed = Done(Item(2, "text", "Why?", "k"), "", error="no such file", without_run="failed")
    cells = cells_of(failed.as_row())
    assert (cells["item"], cells["state"], cells["error"]) == ("text", "failed", "no such file")
    assert [cells[column] for column in ("answer", "evidence", "verified", "calls", "cost_usd", "run_id")] == [""] * 6


@pytest.fixture
def limited():
    """Limit the size of the files that this process writes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_row_that_does_not_fit_is_not_written_in_part(tmp_path, limited):
    """The error is one line, and the rows before it are in the file."""
    path = tmp_path / "a.jsonl"
    with AnswerFile(path) as answers:
        answers.write(done(1))
        size = answers.part.stat().st_size
        limited(size + 100)
        with pytest.raises(UsageError, match=r"a\.jsonl cannot be written: File too large; .* to write it again"):
            answers.write(done(2))
        assert answers.part.stat().st_size == size
        limited(resource.RLIM_INFINITY)
    assert numbers(path) == [1]
    write(path, [done(1), done(2)])
    assert numbers(path) == [1, 2]


@pytest.mark.parametrize("whole", [True, False])
def test_without_room_for_the_new_file_the_rows_stay_beside(tmp_path, limited, whole):
    """The error names the other file, the old one is complete, and the next call adds the rows."""
    path = tmp_path / "a.csv"
    write(path, [done(1, "old")])
    answers = AnswerFile(path)
    answers.write(done(2))
    limited(10)
    with pytest.raises(UsageError, match=r"; the rows of this call are in .*a\.csv\.part"):
        answers.finish() if whole else answers.__exit__(None, None, None)
    limited(resource.RLIM_INFINITY)
    assert numbers(path) == [1]
    assert left(tmp_path) == ["a.csv", "a.csv.part"]
    write(path, [], whole=False)
    assert numbers(path) == [1, 2]


def test_each_answer_is_a_file(tmp_path):
    """With its input, state, answer, quotes and gaps."""
    quotes = (Evidence("a.md:3", "one\ntwo", verified=True), Evidence("b.md:1", "x", None))
    folder = AnswerFolder(tmp_path / "answers")
    path = folder.add(done(3, {"path": "docs/How it Works.md", "n": 2}, evidence=quotes, gaps=("the\ndate",)))
    assert path.name == "00003-docs-how-it-works-md.md"
    assert path.read_text() == (
        "# Item 3: docs/How it Works.md\n\nState: landed  \nRun: b1-3\n\n"
        "## Input\n\n- path: docs/How it Works.md\n- n: 2\n\n## Answer\n\nSo.\n\n"
        "## Quotes\n\n> one\n> two\n>\n> a.md:3 (found in what was read)\n\n> x\n>\n> b.md:1 (not looked up)\n\n"
        "## Gaps\n\n- the date\n"
    )


def test_the_index_and_the_question(tmp_path):
    """All answers by number, the counts, and the question that was asked."""
    folder = AnswerFolder(tmp_path)
    for number in (2, 1):
        folder.add(done(number, f"Text {number}", status="answered"))
    folder.add(done(3, "Text 3", status="failed"))
    question = folder.finish("owls", "What does {item} say?\nWhy?")
    index = (tmp_path / "index.md").read_text()
    assert index == (
        "# 3 answers of the specialist owls\n\n2 answered, 1 failed\n\n"
        "The question about each item was:\n\n> What does {item} say?\n> Why?\n\n"
        "- [00001-text-1.md](00001-text-1.md): answered: Text 1\n"
        "- [00002-text-2.md](00002-text-2.md): answered: Text 2\n"
        "- [00003-text-3.md](00003-text-3.md): failed: Text 3\n"
    )
    assert "3 answers of the specialist `owls`" in question
    assert "2 answered, 1 failed" in question
    assert "> What does {item} say?" in question
    assert "Bring the answers together into one" in question
    assert "Each item was its own question.\n\nBring" in folder.finish("owls", None)


def test_files_of_an_earlier_call_are_replaced(tmp_path):
    """Other files are not touched, and other users cannot read the folder."""
    AnswerFolder(tmp_path / "answers").add(done(1, "old"))
    (tmp_path / "answers" / "mine.md").touch()
    AnswerFolder(tmp_path / "answers").add(done(1, "new"))
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == ["00001-new.md", "mine.md"]
    assert stat.S_IMODE((tmp_path / "answers").stat().st_mode) == 0o700


@given(INPUTS, st.text(max_size=30))
def test_any_input_and_answer(tmp_path_factory, given_input, answer):
    """The name is plain, and the file is text."""
    folder = AnswerFolder(tmp_path_factory.mktemp("answers"))
    path = folder.add(done(12345678, given_input, answer=answer))
    folder.finish("owls", "?")
    assert path.name.isascii()
    assert path.name.startswith("12345678-")
    assert len(path.name) <= 60
    assert path.parent == folder.folder
    assert b"\0" not in path.read_bytes()
    assert (folder.folder / "index.md").read_text().count("\n- [") == 1


# A process that dies while it writes answers loses no row, wherever it dies.
PLACES = [("write", "half"), ("write", 1), ("chmod", 0), *product(("open", "fsync", "replace", "unlink"), (0, 1))]
"""A call of the system, and whether the process dies before it, in the middle, or after it."""
WAYS = [("a.csv", False, False), ("a.jsonl", True, True)]
"""Name of the file, whether the call comes to its end, and whether the rows are in order."""
CASES = [(*way, place) for way, place in product(WAYS, PLACES)]
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


@pytest.mark.exhaustive
def test_no_row_is_lost(tmp_path):
    """The file can be read at every moment, and the next call has every row that was written."""
    paths = [tmp_path / str(number) / name for number, (name, *_) in enumerate(CASES)]
    for path in paths:
        path.parent.mkdir()
        write(path, [done(1), done(2), done(3)])
    cases = json.dumps([[str(path), *case[1:]] for path, case in zip(paths, CASES, strict=True)])
    ended = subprocess.run([sys.executable, "-c", DYING], input=cases, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    for case, path, code in zip(CASES, paths, map(int, ended.stdout.split()), strict=True):
        name, whole, _, (_, when) = case
        check_rows(path, code, name, whole, when)


def check_rows(path, code, name, whole, when):
    """Check the file of a process that has died, and that the next call has its rows."""
    assert code == 9
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


@given(st.permutations([*range(1, 9)]), st.integers(0, 8))
def test_rows_wait_only_for_those_before_them(order, ended):
    """Each row comes as soon as all with smaller numbers have; the rest comes at the end, in order."""
    stream = io.StringIO()

    def written():
        return [json.loads(line)["number"] for line in stream.getvalue().splitlines()]

    with AnswerStream(stream, ordered=True) as answers:
        for count, number in enumerate(order[:ended], 1):
            answers.write(done(number))
            first_missing = next(n for n in range(1, 10) if n not in order[:count])
            assert written() == [*range(1, first_missing)]
    assert written() == sorted(order[:ended])
