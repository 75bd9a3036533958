"""The lines that commands print on standard error."""

import re

SUMMARY = re.compile(r"^[^ :]+: (answered|landed|partial|failed|aborted) · (\d+ of )?\d+ tool calls?\b.* · \d+\.\d s\b")


def lines_before_summary(stderr: str) -> list[str]:
    """Return all lines but the last, which must be the summary of a run."""
    *lines, last = stderr.splitlines()
    assert SUMMARY.search(last), last
    return lines
