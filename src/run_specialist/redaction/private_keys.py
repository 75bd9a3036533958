"""Mask private keys in PEM, OpenSSH, PGP and PuTTY format, complete or in part.

Lines in the body of a key have 64 characters in PEM (Source: RFC 7468), 70 in OpenSSH.
"""

import re
from collections.abc import Iterable, Iterator

from run_specialist.redaction.line_numbers import NUMBERED
from run_specialist.redaction.mask import MASK, TextSpan, masked

BEGIN = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
END = re.compile(r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PUTTY = re.compile(r"Private-Lines: (\d{1,4})\b")
_OPEN, _CLOSE = r"""[ \t>#*|"'+]{0,24}""", r"""[ \t\r"',;+)\\]{0,12}"""
_BREAK = re.compile(r"\r?\n|\\r\\n|\\n")
"""Matches a line break, also escaped as in JSON."""
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID)\b[^\n\\]{0,200}"
_BODY = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{12,}}={{0,3}}|{_HEADER}|=[A-Za-z0-9+/]{{4}}|){_CLOSE}")
# The last line may be short, but it must not be a lowercase word.
_LAST = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>(?=[a-z+/]{{0,80}}[A-Z0-9=])[A-Za-z0-9+/]{{1,80}}={{0,3}}){_CLOSE}")
_FULL = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{64}}(?:[A-Za-z0-9+/]{{6}})?){_CLOSE}")
_INSIDE = re.compile(rf"[A-Za-z0-9+/]{{20,}}|^{_OPEN}[A-Za-z0-9+/]{{8,}}={{0,3}}{_CLOSE}$", re.MULTILINE)
_PREFIX = re.compile(rf"(?m)^{NUMBERED}")
_VARIED = tuple(map(re.compile, ("[A-Z]", "[g-z]", "[0-9]")))
_WIDTH = 64
"""Minimum length of a full line of a key [characters]."""
_FURTHEST = 40_000
"""Length of the text before the last line of a key that is searched for its body [characters]."""


def without_private_keys(text: str) -> str:
    """Mask all private keys in a text, even if the first or last line of a key is missing."""
    if "PRIVATE KEY" in text:
        text = masked(text, _from_begin_line(text))
        text = masked(text, _before_end_line(text))
    if "Private-Lines" in text:
        text = "\n".join(line for line, _ in lines_without_keys((line, 0) for line in text.split("\n")))
    # Long lines that end in a long word are rare.
    if any(" " not in line[-_WIDTH:] for line in text.split("\n") if len(line) >= _WIDTH):
        text = masked(text, _body_only(text))
    return text


def lines_without_keys(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask the lines between the first and last line of each key; the number of lines stays unchanged.

    lines: lines of a file from its start, each possibly truncated, with its full length [characters].
    """
    inside, seen, left = False, False, 0
    for line, length in lines:
        body = _BODY.fullmatch(line) if inside or left else None
        if body is None and (seen or left):
            body = _LAST.fullmatch(line)
        if body is not None:
            left, seen = max(0, left - 1), seen or bool(body["key"])
            hidden = f"{line[: body.start('key')]}{MASK}{line[body.end('key') :]}" if body["key"] else line
            yield hidden, length - len(line) + len(hidden)
            continue
        begin = BEGIN.search(line) if "PRIVATE KEY" in line else None
        counted = _PUTTY.search(line) if "Private-Lines" in line else None
        inside, seen = begin is not None and not END.search(line, begin.end()), False
        left = int(counted[1]) if counted else 0
        yield line, length


def _from_begin_line(text: str) -> Iterator[TextSpan]:
    """Yield the spans of keys with a first line, up to their last line or the last line that looks like a key."""
    for begin in BEGIN.finditer(text):
        dashes = text.find("----", begin.end())
        end = END.match(text, dashes) if dashes >= 0 else None
        if end is None:
            last = _follow(text, begin.end(), len(text) if dashes < 0 else dashes)
            if last > begin.end():
                yield begin.start(), last
        elif _holds_key(text[begin.end() : dashes]):
            yield begin.start(), end.end()


def _holds_key(body: str) -> bool:
    """Return whether the text contains base64, not only prose about a key or masked parts."""
    return _INSIDE.search(_PREFIX.sub("", _BREAK.sub("\n", body).replace(MASK, ""))) is not None


def _follow(text: str, start: int, stop: int) -> int:
    """Return the end of the key lines that follow the first line of a key; `start` if there are none."""
    last = start
    for at, to in _line_spans(text, start, stop):
        found = _BODY.fullmatch(text, at, to)
        if found is None and last > start:
            found = _LAST.fullmatch(text, at, to)
        if found is None:
            break
        last = found.end("key") if found["key"] else last
    return last


def _line_spans(text: str, start: int, stop: int) -> Iterator[TextSpan]:
    """Yield the span of each line."""
    while end := _BREAK.search(text, start, stop):
        yield start, end.start()
        start = end.end()
    yield start, stop


def _before_end_line(text: str) -> Iterator[TextSpan]:
    """Yield the lines of keys that have a last line but no first line."""
    done = 0
    for end in END.finditer(text):
        start = max(done, end.start() - _FURTHEST)
        found: list[TextSpan] = []
        *lines, _ = _line_spans(text, start, end.start())
        for at, to in reversed(lines):
            line = _BODY.fullmatch(text, at, to) or (None if found else _LAST.fullmatch(text, at, to))
            if line is None:
                break
            if line["key"]:
                found.append(line.span("key"))
        yield from reversed(found)
        done = end.end()


def _body_only(text: str) -> Iterator[TextSpan]:
    """Yield the lines of keys without first and last line: two or more of equal full length, and a shorter one."""
    run: list[TextSpan] = []
    for at, to in [*_line_spans(text, 0, len(text)), (len(text), len(text))]:
        line = _FULL.fullmatch(text, at, to)
        if line and _is_varied(line["key"]) and (not run or len(line["key"]) == run[0][1] - run[0][0]):
            run.append(line.span("key"))
            continue
        if len(run) > 1 and not _is_public(text, run[0][0], to):
            yield from run
            last = _LAST.fullmatch(text, at, to)
            if last and to > at:
                yield last.span("key")
        run = [line.span("key")] if line and _is_varied(line["key"]) else []


def _is_varied(line: str) -> bool:
    """Return whether a line has the character variety of base64, unlike hexadecimal digests and repeated letters."""
    return all(kind.search(line) for kind in _VARIED)


def _is_public(text: str, start: int, end: int) -> bool:
    """Return whether lines belong to a block with another label, such as a certificate."""
    before = text.rfind("-----BEGIN ", max(0, start - _FURTHEST), start)
    after = text.find("-----", end, end + _FURTHEST)
    opened = before >= 0 and text.find("-----END ", before, start) < 0
    return (opened and not BEGIN.match(text, before)) or (
        text.startswith("-----END ", after) and not END.match(text, after)
    )
