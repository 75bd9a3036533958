"""Answers on standard output, and the order of the items."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.batch.answer_file import AnswerStream
from run_specialist.errors import UsageError
from tests.unit.batch.item_sources import done


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


def test_a_stream_of_another_encoding():
    """Characters that it does not have are escaped."""
    raw = io.BytesIO()
    with AnswerStream(io.TextIOWrapper(raw, encoding="ascii", write_through=True)) as answers:
        answers.write(done(1, "ünï😀"))
        assert json.loads(raw.getvalue().decode("ascii"))["input"] == "ünï😀"


class Broken(io.StringIO):
    """A stream that fails."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text):
        """Fail."""
        self.tries += 1
        raise self.error


def test_a_full_disk_is_one_line():
    """And nothing else is written at the exit."""
    stream = Broken(OSError(28, "No space left on device"))

    def write():
        with AnswerStream(stream, ordered=True) as answers:
            answers.write(done(2))
            answers.write(done(1))

    with pytest.raises(UsageError, match="standard output cannot be written: No space left on device"):
        write()
    assert stream.tries == 1
