"""Files of answers: written as items end, replaced at the end."""

import csv
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch import answer_file
from run_specialist.batch.answer_file import AnswerFile, cells_of, unguarded_cell
from run_specialist.errors import UsageError
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
