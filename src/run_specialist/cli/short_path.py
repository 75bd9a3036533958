"""Shorten a path in a line that is too long for the terminal: its end tells files apart, not its beginning."""


def with_short_path(text: str, path: str, most: int) -> str:
    """Return a text with `…` in place of the leading folders of a path in it, as many as are too long to fit.

    path: as it is in the text; a text without it stays unchanged.
    most: length that the text should not exceed [characters]; the name of the file is always kept.
    """
    short, rest = text, path
    while len(short) > most and "/" in rest:
        rest = rest.partition("/")[2]
        short = text.replace(path, f"…/{rest}", 1)
    return short if len(short) < len(text) else text
