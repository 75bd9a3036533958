"""Files that collect measurements: what is kept, mended and refused."""

import pytest

from bench import kept_lines


def test_lines_are_kept_and_a_torn_one_is_dropped(tmp_path):
    """Reading leaves a torn line alone; once it is removed, the next line follows. A text may hold any character."""
    file = tmp_path / "kept.jsonl"
    values = [{"setup": "a\u2028b\x85c\nd"}, {"setup": "é"}]
    for one in values:
        kept_lines.append(file, one)
    whole = file.read_text()
    file.write_text(whole[:-3])
    assert kept_lines.read(file, "setup", dict) == values[:1]
    assert file.read_text() == whole[:-3]
    kept_lines.mend(file)
    kept_lines.append(file, values[1])
    assert file.read_text() == whole
    assert kept_lines.read(file, "setup", dict) == values
    assert kept_lines.read(tmp_path / "none", "setup", dict) == kept_lines.read(None, "setup", dict) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("my notes", "kept.jsonl: not a file of this benchmark"),
        ('{"a": 1}', "kept.jsonl: not a file of this benchmark"),
        ('{"setup": 1}\nx\n', "kept.jsonl:2: not a line of this benchmark"),
        ("{}\n", "kept.jsonl:1: not a line of this benchmark"),
    ],
)
def test_another_file_is_refused_and_stays(tmp_path, text, why):
    """A file of something else is one clear line, and is not mended."""
    file = tmp_path / "kept.jsonl"
    file.write_text(text)
    with pytest.raises(kept_lines.LinesUnreadable, match=why):
        kept_lines.read(file, "setup", lambda line: line["setup"])
    assert file.read_text() == text
