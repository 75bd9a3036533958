"""Files of answers on a disk without room."""

import resource

import pytest

from run_specialist.batch.answer_file import AnswerFile
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import done
from tests.unit.batch.test_answer_file import left, numbers, write


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
