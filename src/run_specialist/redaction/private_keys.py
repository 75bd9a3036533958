"""Mask private keys: PEM, OpenSSH, PGP and PuTTY, whole, cut off, or their middle alone.

RFC 7468 has lines of 64 characters in the body of a key, OpenSSH has 70.
"""

import re
from collections.abc import Iterable, Iterator

from run_specialist.redaction.line_numbers import NUMBERED
from run_specialist.redaction.mask import MASK, Span, masked

BEGIN = re.compile(r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
END = re.compile(r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PUTTY = re.compile(r"Private-Lines: (\d{1,4})\b")
_OPEN, _CLOSE = r"""[ \t>#*|"'+]{0,24}""", r"""[ \t\r"',;+)\\]{0,12}"""
_BREAK = re.compile(r"\r?\n|\\r\\n|\\n")
"""A line's end, also as it is escaped in JSON."""
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID)\b[^\n\\]{0,200}"
_BODY = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{12,}}={{0,3}}|{_HEADER}|=[A-Za-z0-9+/]{{4}}|){_CLOSE}")
# Short as it may be, it is more than a word in lower case.
_LAST = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>(?=[a-z+/]{{0,80}}[A-Z0-9=])[A-Za-z0-9+/]{{1,80}}={{0,3}}){_CLOSE}")
_FULL = re.compile(rf"{NUMBERED}{_OPEN}(?P<key>[A-Za-z0-9+/]{{64}}(?:[A-Za-z0-9+/]{{6}})?){_CLOSE}")
_INSIDE = re.compile(rf"[A-Za-z0-9+/]{{20,}}|^{_OPEN}[A-Za-z0-9+/]{{8,}}={{0,3}}{_CLOSE}$", re.MULTILINE)
_PREFIX = re.compile(rf"(?m)^{NUMBERED}")
_VARIED = tuple(map(re.compile, ("[A-Z]", "[g-z]", "[0-9]")))
_WIDTH = 64
"""Of a full line of a key, at least [characters]."""
_FURTHEST = 40_000
"""How far before the last line of a key its body is looked for [characters]."""


def without_private_keys(text: str) -> str:
    """Mask every private key in a text, also where its first or its last line is missing."""
    if "PRIVATE KEY" in text:
        text = masked(text, _marked(text))
        text = masked(text, _ended(text))
    if "Private-Lines" in text:
        text = "\n".join(line for line, _ in lines_without_keys((line, 0) for line in text.split("\n")))
    # Long lines that end in a long word are rare.
    if any(" " not in line[-_WIDTH:] for line in text.split("\n") if len(line) >= _WIDTH):
        text = masked(text, _unmarked(text))
    return text


def lines_without_keys(lines: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Mask what lies between the first and the last line of a key, line by line, so that their numbers stay right.

    lines: of a file from its beginning, each with its whole length [characters].
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


def _marked(text: str) -> Iterator[Span]:
    """Yield keys that have their first line: to their last one, or as far as the lines look like those of a key."""
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
    """Tell whether base64 stands there, and not only words about a key or what is masked already."""
    return _INSIDE.search(_PREFIX.sub("", _BREAK.sub("\n", body).replace(MASK, ""))) is not None


def _follow(text: str, start: int, stop: int) -> int:
    """Return where the lines of a key end that begin behind its first one; `start` where there are none."""
    last = start
    for at, to in _pieces(text, start, stop):
        found = _BODY.fullmatch(text, at, to)
        if found is None and last > start:
            found = _LAST.fullmatch(text, at, to)
        if found is None:
            break
        last = found.end("key") if found["key"] else last
    return last


def _pieces(text: str, start: int, stop: int) -> Iterator[Span]:
    """Yield where each line begins and ends."""
    while end := _BREAK.search(text, start, stop):
        yield start, end.start()
        start = end.end()
    yield start, stop


def _ended(text: str) -> Iterator[Span]:
    """Yield the lines of keys that have only their last line."""
    done = 0
    for end in END.finditer(text):
        start = max(done, end.start() - _FURTHEST)
        found: list[Span] = []
        *lines, _ = _pieces(text, start, end.start())
        for at, to in reversed(lines):
            line = _BODY.fullmatch(text, at, to) or (None if found else _LAST.fullmatch(text, at, to))
            if line is None:
                break
            if line["key"]:
                found.append(line.span("key"))
        yield from reversed(found)
        done = end.end()


def _unmarked(text: str) -> Iterator[Span]:
    """Yield the lines of keys that have neither: two or more of the same full length, and a shorter last one."""
    run: list[Span] = []
    for at, to in [*_pieces(text, 0, len(text)), (len(text), len(text))]:
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
    """Tell base64 from a digest in hexadecimal and from a line of one letter."""
    return all(kind.search(line) for kind in _VARIED)


def _is_public(text: str, start: int, end: int) -> bool:
    """Tell whether lines belong to a block that is marked as something else, such as a certificate."""
    before = text.rfind("-----BEGIN ", max(0, start - _FURTHEST), start)
    after = text.find("-----", end, end + _FURTHEST)
    opened = before >= 0 and text.find("-----END ", before, start) < 0
    return (opened and not BEGIN.match(text, before)) or (
        text.startswith("-----END ", after) and not END.match(text, after)
    )
